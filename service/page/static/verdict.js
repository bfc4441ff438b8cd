/** Says the verdict of a prediction, given the threshold that the user set. */

import { percent } from "./words.js";

/** A threshold as the interface takes it, from percent: of 97.5 the number that 0.975 is. */
export const asShare = (below) => Number(`${below}e-2`);

/**
 * The label, or that there is no answer.
 * @param {{label: string, score: number}} prediction of a text
 * @param {?number} below the threshold in percent; null for none
 * @returns {{text: string, isAnswer: boolean}}
 */
export function verdictOf({ label, score }, below) {
  if (below === null || score >= asShare(below)) return { text: label, isAnswer: true };
  return { text: `no answer below ${below} %`, isAnswer: false };
}

/** The verdict in one line, with its probability. */
export function verdictText(prediction, below) {
  const { text, isAnswer } = verdictOf(prediction, below);
  return isAnswer ? `${text}, ${percent(prediction.score)}` : text;
}
