/**
 * Shows the prediction of a text: label, probability of every class, and how much of it was read.
 */

import { attributes, find, make } from "./elements.js";
import { verdictOf } from "./verdict.js";
import { percent } from "./words.js";

export class Prediction {
  /**
   * @param {HTMLElement} element the part of a panel
   * @param {function(object): void} onRead gets the fields of the view that say how a text is read
   */
  constructor(element, onRead) {
    this.part = (name) => find(element, name);
    this.part(".whole").addEventListener("click", () => onRead({ whole: true, window: 0 }));
    this.part("select").addEventListener("change", ({ target }) => {
      onRead({ window: Number(target.value) });
    });
  }

  /**
   * Fills the part.
   * @param {object} document the prediction, and the windows that the text was read in
   * @param {?number} below the threshold in percent
   */
  show({ prediction, windows, window }, below) {
    const { text, isAnswer } = verdictOf(prediction, below);
    this.part(".label").textContent = text;
    const score = this.part(".score");
    score.textContent = isAnswer ? percent(prediction.score) : "";
    score.title = String(prediction.score);
    this.part("dl").replaceChildren(...rows(prediction.probabilities));
    this.part(".cut").hidden = !prediction.truncated;
    this.part(".cut").textContent =
      `The text is longer than the model reads: its end was cut off after ${prediction.token_count} tokens.`;
    this.#showWindows(windows, window, prediction);
  }

  #showWindows(windows, window, { truncated }) {
    const isFocused = document.activeElement === this.part(".whole");
    const isSeveral = windows > 1;
    this.part(".offer").hidden = !truncated;
    this.part(".windows").hidden = !isSeveral;
    if (!isSeveral) return;
    this.part(".windows-note").textContent =
      `The text was read whole, in ${windows} windows that overlap. The heads are those of one, counted from 0.`;
    const options = Array.from({ length: windows }, (_, number) =>
      make("option", { value: String(number), textContent: `${number}` }),
    );
    const select = this.part("select");
    select.replaceChildren(...options);
    select.value = String(window);
    if (isFocused) select.focus();
  }
}

/** A name, a bar and a number for each class. */
function rows(probabilities) {
  return Object.entries(probabilities).flatMap(([label, probability]) => {
    const bar = attributes(make("span", { className: "bar" }), { "aria-hidden": "true" });
    bar.style.width = `${(100 * probability).toFixed(1)}%`;
    const figure = make("dd", { className: "figure", textContent: percent(probability) });
    figure.title = String(probability);
    const track = attributes(make("dd", { className: "track" }, bar), { "aria-hidden": "true" });
    return [make("dt", { textContent: label }), track, figure];
  });
}
