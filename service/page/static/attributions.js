/**
 * Shows "What moved the prediction": token attributions by gradients. They take longer than
 * attention, so they are asked for only when the user opens the part.
 */

import { post } from "./api.js";
import { make } from "./elements.js";
import { tint } from "./palette.js";
import { signed } from "./reasons.js";
import { requireModel } from "./version.js";

/** @import { Problem } from "./api.js" */

export class Attributions {
  /**
   * @param {HTMLDetailsElement} details what the user opens
   * @param {function(Problem, function(): void, Element): void} onProblem gets what went wrong, a
   *   function that asks again, and where; a missing route only hides the part
   * @param {function(object): void} onAnswer gets an answer of /attributions, or null
   * @param {function(string): void} announce tells a screen reader
   */
  constructor(details, onProblem, onAnswer, announce) {
    this.details = details;
    this.onProblem = onProblem;
    this.onAnswer = onAnswer;
    this.announce = announce;
    this.asked = null;
    this.isOffered = true;
    this.controller = new AbortController();
    details.addEventListener("toggle", () => this.#ask());
  }

  /** Sets the sentence and the model that the part is about. */
  about({ sentence, level, model, window, changes }, palette) {
    this.palette = palette;
    // They are of the beginning of a text, which is its first window.
    this.details.hidden = !this.isOffered || window > 0 || changes !== null;
    const question = JSON.stringify([sentence, level, model.name, model.version]);
    if (question === this.question) {
      this.#ask();
      return;
    }
    this.controller.abort();
    this.question = question;
    this.model = model;
    this.body = level === "token" ? { sentence } : { sentence, level };
    this.answer = null;
    this.onAnswer(null);
    this.asked = null;
    this.details.querySelector("div").replaceChildren();
    this.details.querySelector(".note").textContent = "";
    this.#ask();
  }

  async #ask() {
    if (!this.details.open || this.details.hidden || !this.body || this.asked === this.question) return;
    this.asked = this.question;
    this.controller = new AbortController();
    const { signal } = this.controller;
    const status = this.details.querySelector(".note");
    status.textContent = "Asking …";
    this.announce("Asking what each token adds.");
    try {
      const answer = await post("/attributions", this.body, signal);
      requireModel(answer, this.model);
      this.answer = answer;
      this.onAnswer(answer);
      this.announce("What each token adds is shown.");
    } catch (problem) {
      if (signal.aborted) return;
      this.asked = null;
      if (problem.type === "not-found") {
        this.isOffered = false;
        this.details.hidden = true;
      } else {
        status.textContent = "";
        this.details.open = false;
        const again = () => {
          this.details.open = true;
        };
        this.onProblem(problem, again, this.details);
      }
    }
  }

  /** Draws the answer, if there is one, on a scale that ends at `largest`. */
  draw(largest) {
    if (!this.answer) return;
    const { tokens, attributions, label, value, baseline_value: baseline, gap } = this.answer;
    const items = tokens.map(({ text }, at) => {
      const attribution = attributions[at];
      const colour = attribution < 0 ? this.palette.into : this.palette.out;
      const chip = make("li", { title: signed(attribution, 6) });
      chip.style.backgroundColor = tint(colour, (0.45 * Math.abs(attribution)) / (largest || 1));
      const figure = make("span", { className: "figure", textContent: signed(attribution, 2) });
      chip.append(make("span", { className: "name", textContent: text }), figure);
      return chip;
    });
    this.details.querySelector(".note").textContent =
      `Blue with + moved the model towards “${label}”, orange with − away from it. The log-odds ` +
      `of “${label}” are ${signed(value, 4)} for this text and ${signed(baseline, 4)} for one of ` +
      `padding alone; the numbers add up to the difference but for ${signed(gap, 4)} ` +
      "(integrated gradients, Sundararajan, Taly and Yan 2017).";
    this.details.querySelector("div").replaceChildren(make("ol", { className: "moved" }, ...items));
  }
}
