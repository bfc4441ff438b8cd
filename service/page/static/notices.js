/** Shows that an answer is on its way, or what went wrong with a button to try again. */

import { byId, find } from "./elements.js";

// What each kind of problem is called, and what to do about it if the service does not say so.
const KINDS = {
  blank: ["There is nothing to read.", "Type a sentence first."],
  unreachable: ["The service cannot be reached.", "Is it running, and are you connected to its network?"],
  unauthorized: ["This service needs an API key.", "Type it above and ask again."],
  "key-refused": ["This API key was refused.", "Check that it is complete, and that it belongs to this service."],
  "key-unsendable": [
    "This API key cannot be sent.",
    "It holds a character that no request can carry, such as a long dash or a curly quotation mark. Type it again.",
  ],
  "model-changed": [
    "The model is being replaced just now.",
    "Answers came from two versions of it. Try again in a moment.",
  ],
  overloaded: ["The service has more to do than it can answer just now."],
  "not-ready": ["The service is not ready yet."],
  draining: ["This copy of the service is shutting down."],
  timeout: ["The answer took too long.", "Try again, or ask with a shorter text."],
  "too-many-weights": ["These are too many weights for one answer."],
  "too-much-work": ["This is more than the service can compute in time."],
  "payload-too-large": ["The text is too long to be sent.", "Shorten it."],
  "text-too-long": ["The text is too long for the model."],
  "not-found": ["This service does not offer that."],
  internal: ["The service failed."],
};

const seconds = (count) => `${count} ${count === 1 ? "second" : "seconds"}`;

export class ProblemBox {
  constructor() {
    this.box = byId("problem");
    this.home = byId("ask");
    // The box moves about, and may be where the page puts something else just now.
    this.part = (name) => find(this.box, name);
    this.part("#again").addEventListener("click", () => {
      const { retry } = this;
      this.hide();
      retry();
    });
  }

  hide() {
    clearTimeout(this.ticking);
    if (this.box.contains(document.activeElement)) this.#giveFocusBack();
    this.box.hidden = true;
    this.home.after(this.box);
  }

  /** Shows what went wrong; an error of a script is shown as it is. */
  show(problem, retry, place = this.home) {
    this.hide();
    this.origin = document.activeElement;
    place.after(this.box);
    this.retry = retry;
    const { type, message, retryAfter } = problem;
    const [title = "That did not work.", advice = message] = KINDS[type] ?? [];
    this.part("#problem-title").textContent = title;
    this.part("#problem-detail").textContent = advice;
    this.part("#again").hidden = retry === null || Boolean(problem.isFinal);
    this.part("#wait").textContent = "";
    if (retryAfter) {
      this.part("#problem-detail").textContent = `Try again in ${seconds(retryAfter)}.`;
      this.#count(retryAfter);
    }
    this.box.hidden = false;
    this.box.scrollIntoView({ block: "nearest" });
  }

  /** Focuses where the failed action began if that is still visible, or else the question. */
  #giveFocusBack() {
    const isThere = this.origin !== document.body && this.origin.getClientRects().length > 0;
    (isThere ? this.origin : byId("ask").querySelector(".primary")).focus();
  }

  #count(left) {
    this.part("#wait").textContent =
      left > 0 ? `It asks you to come back in ${seconds(left)}.` : "You can try again now.";
    if (left > 0) this.ticking = setTimeout(() => this.#count(left - 1), 1000);
  }
}

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
