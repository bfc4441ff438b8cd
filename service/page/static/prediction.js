/** Shows a prediction: label, probability of every class, and a note if the text was cut. */

import { attributes, make } from "./elements.js";
import { percent } from "./words.js";

/** Fills the part of a panel that shows the prediction. */
export function showPrediction(part, prediction) {
  part.querySelector(".label").textContent = prediction.label;
  const score = part.querySelector(".score");
  score.textContent = percent(prediction.score);
  score.title = String(prediction.score);
  const rows = Object.entries(prediction.probabilities).flatMap(([label, probability]) => {
    const bar = attributes(make("span", { className: "bar" }), { "aria-hidden": "true" });
    bar.style.width = `${(100 * probability).toFixed(1)}%`;
    const figure = make("dd", { className: "figure", textContent: percent(probability) });
    figure.title = String(probability);
    const track = attributes(make("dd", { className: "track" }, bar), { "aria-hidden": "true" });
    return [make("dt", { textContent: label }), track, figure];
  });
  part.querySelector("dl").replaceChildren(...rows);
  const cut = part.querySelector(".cut");
  cut.hidden = !prediction.truncated;
  cut.textContent = `The text is longer than the model reads: its end was cut off after ${prediction.token_count} tokens.`;
}
