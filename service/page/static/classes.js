/** Gives each class a colour and a line, so that neither has to be seen to tell them apart. */

import { tint } from "./palette.js";

const NAMED = {
  negative: ["into", "dashed"],
  neutral: ["grey", "dotted"],
  positive: ["out", "solid"],
};
const OTHERS = [
  ["violet", "solid"],
  ["green", "dashed"],
  ["out", "dotted"],
  ["into", "double"],
];
const LEAST = 0.08; // opacity at a probability that is chance
const MOST = 0.4;

/** The name of a class's colour in the palette, and the style of its line. */
function looksOf(label, labels) {
  return NAMED[label.toLowerCase()] ?? OTHERS[labels.indexOf(label) % OTHERS.length];
}

/**
 * Styles an element by a class.
 * @param {string[]} labels of all classes
 * @param {?number} score the probability, which makes the colour stronger; null for the strongest
 */
export function paint(element, label, labels, score, palette) {
  const [colour, line] = looksOf(label, labels);
  const chance = 1 / labels.length;
  const strength = score === null ? 1 : Math.max(0, (score - chance) / (1 - chance));
  element.style.backgroundColor = tint(palette[colour], LEAST + (MOST - LEAST) * strength);
  element.style.textDecoration = `underline 2px ${line} ${tint(palette[colour], 1)}`;
}
