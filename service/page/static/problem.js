/** From a Problem to kind words, with a button to try again where that may help. */

import { byId } from "./elements.js";

const TITLES = {
  blank: "There is nothing to read.",
  unreachable: "The service cannot be reached.",
  unauthorized: "This service needs an API key.",
  overloaded: "The service has more to do than it can answer just now.",
  "not-ready": "The service is not ready yet.",
  draining: "This copy of the service is shutting down.",
  timeout: "The answer took too long.",
  "too-many-weights": "These are too many weights for one answer.",
  "payload-too-large": "The text is too long to be sent.",
  "text-too-long": "The text is too long for the model.",
  "not-found": "This service does not offer that.",
  internal: "The service failed.",
};
const ADVICE = {
  blank: "Type a sentence first.",
  unreachable: "Is it running, and are you connected to its network?",
  unauthorized: "Type it above and ask again.",
  timeout: "Try again, or ask with a shorter text.",
  "payload-too-large": "Shorten it.",
};
const FINAL = [
  "blank",
  "unauthorized",
  "invalid-request",
  "payload-too-large",
  "text-too-long",
  "not-found",
];

export class ProblemBox {
  /** @param {function()} onAgain called when the user wants another try */
  constructor(onAgain) {
    this.box = byId("problem");
    byId("again").addEventListener("click", () => onAgain());
  }

  hide() {
    clearInterval(this.ticking);
    this.box.hidden = true;
  }

  /** Shows what went wrong; a script's own fault is shown as it is. */
  show(problem) {
    this.hide();
    const { type, message } = problem;
    byId("problem-title").textContent = TITLES[type] ?? "That did not work.";
    byId("problem-detail").textContent = ADVICE[type] ?? message;
    byId("again").hidden = FINAL.includes(type);
    byId("wait").textContent = "";
    if (problem.retryAfter) this.#count(problem.retryAfter);
    this.box.hidden = false;
  }

  #count(seconds) {
    let left = seconds;
    const unit = () => (left === 1 ? "second" : "seconds");
    const tell = () => {
      byId("wait").textContent =
        left > 0 ? `It asks you to come back in ${left} ${unit()}.` : "You can try again now.";
    };
    byId("problem-detail").textContent = `Try again in ${left} ${unit()}.`;
    tell();
    this.ticking = setInterval(() => {
      left -= 1;
      tell();
      if (left <= 0) clearInterval(this.ticking);
    }, 1000);
  }
}
