/**
 * Shows "What moved the prediction": token attributions by gradients. They take longer than
 * attention, so they are asked for only when the user opens the part.
 */

import { post } from "./api.js";
import { make } from "./elements.js";
import { tint } from "./palette.js";
import { requireModel } from "./version.js";

const signed = (value, digits) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;

export class Attributions {
  /**
   * @param {HTMLDetailsElement} details what the user opens
   * @param {function(Problem, function())} onProblem gets what went wrong and a function that
   *   asks again; a missing route only hides the part
   */
  constructor(details, onProblem) {
    this.details = details;
    this.onProblem = onProblem;
    this.asked = null;
    this.isOffered = true;
    this.controller = new AbortController();
    details.addEventListener("toggle", () => this.#ask());
  }

  /** Sets the sentence and the model that the part is about. */
  about({ sentence, level, model, window }, palette) {
    this.palette = palette;
    // They are of the beginning of a text, which is its first window.
    this.details.hidden = !this.isOffered || window > 0;
    const question = JSON.stringify([sentence, level, model.name, model.version]);
    if (question === this.question) {
      this.#draw();
      this.#ask();
      return;
    }
    this.controller.abort();
    this.question = question;
    this.model = model;
    this.body = level === "token" ? { sentence } : { sentence, level };
    this.answer = null;
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
    try {
      const answer = await post("/attributions", this.body, signal);
      requireModel(answer, this.model);
      this.answer = answer;
      this.#draw();
    } catch (problem) {
      if (signal.aborted) return;
      this.asked = null;
      if (problem.type === "not-found") {
        this.isOffered = false;
        this.details.hidden = true;
      } else {
        status.textContent = "";
        this.details.open = false;
        this.onProblem(problem, () => {
          this.details.open = true;
        });
      }
    }
  }

  #draw() {
    if (!this.answer) return;
    const { tokens, attributions, label, value, baseline_value: baseline, gap } = this.answer;
    const largest = Math.max(...attributions.map(Math.abs)) || 1;
    const items = tokens.map(({ text }, at) => {
      const attribution = attributions[at];
      const colour = attribution < 0 ? this.palette.into : this.palette.out;
      const chip = make("li", { title: signed(attribution, 6) });
      chip.style.backgroundColor = tint(colour, (0.45 * Math.abs(attribution)) / largest);
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
