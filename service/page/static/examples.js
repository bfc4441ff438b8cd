/** Offers example sentences: what each shows, the sentence, and for a comparison the second one. */

import { byId, make } from "./elements.js";

const EXAMPLES = [
  ["a change of mind", "The plot drags, but the cast is superb."],
  ["a negation", "It is not bad at all, and I would not miss it."],
  ["a product", "The battery lasts two days, yet the charger broke within a week."],
  ["a restaurant", "We waited an hour for soup that came cold."],
  ["one word changed", "The staff was friendly and quick.", "The staff was rude and quick."],
];

/** Makes a button for each; `onChoose` gets the sentence and, for a comparison, the second one. */
export function offerExamples(onChoose) {
  for (const [name, sentence, second] of EXAMPLES) {
    const button = make("button", { type: "button", className: "quiet", textContent: name });
    button.title = second ? `${sentence} / ${second}` : sentence;
    button.addEventListener("click", () => onChoose(sentence, second));
    byId("examples").append(button);
  }
}
