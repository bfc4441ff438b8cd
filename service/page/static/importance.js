/** From a sentence to how much each of its heads matters for the prediction, asked for once. */

import { post } from "./api.js";
import { requireModel } from "./version.js";

let known = { key: "" };

/**
 * The importance of the heads that each of some answers holds, as [row][column].
 * @param {string[]} sentences as they were asked
 * @param {object[]} results their Weights, with both axes whole, of one model
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
