/** Shows that an answer is on its way. */

import { byId } from "./elements.js";

/**
 * Says that a question was asked.
 * @param {boolean} isSeen whether the line is visible too; an answer on screen turns pale instead
 */
export function beginWaiting(isSeen) {
  byId("status").textContent = "Asking …";
  byId("status").classList.toggle("unseen", !isSeen);
  byId("progress").hidden = true;
  byId("results").setAttribute("aria-busy", "true");
}

export function endWaiting() {
  byId("status").classList.add("unseen");
  byId("progress").hidden = true;
  byId("results").removeAttribute("aria-busy");
}

/** Shows the progress of a question in parts: that of the sentence that is behind. */
export function progressOf(count) {
  const shares = new Array(count).fill(0);
  return (at, share) => {
    shares[at] = share;
    byId("share").value = Math.min(...shares);
    byId("progress").hidden = false;
  };
}
