/** Keeps the link to the view: in the address, in a field, and on the clipboard. */

import { byId } from "./elements.js";
import { writeFragment } from "./link.js";

const REST = 300; // milliseconds

export class Share {
  /**
   * @param {function(): {view: object, sentences: string[]}} current gives the view and the sentences that are shown
   * @param {function(string): void} announce tells what was done
   */
  constructor(current, announce) {
    this.current = current;
    byId("with-text").addEventListener("change", () => this.update());
    byId("link").addEventListener("focus", () => byId("link").select());
    byId("copy").addEventListener("click", async () => {
      await this.#copy();
      announce("Link copied.");
      byId("copy").textContent = "Copied";
      setTimeout(() => {
        byId("copy").textContent = "Copy link";
      }, 2000);
    });
  }

  /**
   * Writes the link anew, and the address with it, so that a reload changes nothing. The address
   * waits until the view rests: browsers refuse a hundred new addresses in a few seconds.
   */
  update() {
    const { view, sentences } = this.current();
    const fragment = writeFragment(view, byId("with-text").checked ? sentences : null);
    const address = new URL(window.location.href);
    address.search = "";
    address.hash = fragment;
    byId("link").value = address.href;
    this.drop();
    const before = window.location.href;
    this.waiting = setTimeout(() => {
      // The user may have typed another address whose event has not come yet.
      if (window.location.href === before) history.replaceState(history.state, "", address);
    }, REST);
  }

  /** Leaves the address as the user has just typed it. */
  drop() {
    clearTimeout(this.waiting);
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(byId("link").value);
    } catch {
      // Without TLS there is no clipboard for scripts.
      byId("link").select();
      document.execCommand("copy");
    }
  }
}
