/** Asks once how much each head matters for the prediction of a sentence. */

import { post } from "./api.js";
import { requireModel } from "./version.js";

let known = { key: "" };

/** Whether a view shows single heads of the beginning of a text, which alone have a measure. */
export const hasImportance = ({ reduce, whole, window }) =>
  reduce === "none" && !(whole && window > 0);

/**
 * The importance of the heads in each answer, as [row][column].
 * @param {string[]} sentences as they were asked
 * @param {object[]} results their Weights, of one model, with no axis reduced
 */
export async function askImportance(sentences, results, signal) {
  const { model } = results[0];
  const key = JSON.stringify([model.name, model.version, sentences]);
  if (key !== known.key) {
    const asked = sentences.map((sentence) => post("/importance", { sentence }, signal));
    const answers = await Promise.all(asked);
    answers.forEach((answer) => requireModel(answer, model));
    known = { key, answers };
  }
  return results.map((weights, at) => {
    const { layers, heads, importance } = known.answers[at];
    return weights.layers.map((layer) =>
      weights.heads.map((head) => importance[layers.indexOf(layer)][heads.indexOf(head)]),
    );
  });
}
