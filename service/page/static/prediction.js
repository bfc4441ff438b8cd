/** Shows the prediction of a text: label, probability of every class, how much of it was read. */

import { sidesOf } from "./canvas.js";
import { find, make, options, range } from "./elements.js";
import { percent } from "./words.js";

export class Prediction {
  /** `onRead` gets the fields of the view that say how a text is read. */
  constructor(element, onRead) {
    this.part = (name) => find(element, name);
    this.part(".whole").addEventListener("click", () => onRead({ whole: true, window: 0 }));
    this.part("select").addEventListener("change", ({ target }) => {
      onRead({ window: Number(target.value) });
    });
  }

  show({ prediction, windows, window }) {
    this.part(".label").textContent = prediction.label;
    const score = this.part(".score");
    score.textContent = percent(prediction.score);
    score.title = String(prediction.score);
    this.part("dl").replaceChildren(...classBars(prediction.probabilities));
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
      `The whole text was read in ${windows} overlapping windows. The heads are those of one window, counted from 0.`;
    const select = this.part("select");
    select.replaceChildren(...options(range(windows)));
    select.value = String(window);
    if (isFocused) select.focus();
  }
}

/** The rows of a list of classes, each with a bar and a number. */
export function classBars(probabilities) {
  return Object.entries(probabilities).flatMap(([label, probability]) => {
    const bar = make("span", { className: "bar", ariaHidden: "true" });
    bar.style.width = `${(100 * probability).toFixed(1)}%`;
    bar.style.backgroundColor = `var(--${sidesOf(label)[0][0]})`;
    const track = make("dd", { className: "track", ariaHidden: "true" }, bar);
    const title = String(probability);
    const number = make("dd", { className: "figure", title }, percent(probability));
    return [make("dt", {}, label), track, number];
  });
}
