/** From a sentence to how much each of its heads matters for the prediction, asked for once. */

import { post } from "./api.js";

let known = { sentences: [] };

/**
 * The importance of the heads that each of some answers holds, as [row][column].
 * @param {string[]} sentences as they were asked
 * @param {object[]} results their Weights, with both axes whole
 */
export async function askImportance(sentences, results, signal) {
  if (sentences.join("\n") !== known.sentences.join("\n")) {
    const asked = sentences.map((sentence) => post("/importance", { sentence }, signal));
    known = { sentences, answers: await Promise.all(asked) };
  }
  return results.map((weights, at) => {
    const { layers, heads, importance } = known.answers[at];
    return weights.layers.map((layer) =>
      weights.heads.map((head) => importance[layers.indexOf(layer)][heads.indexOf(head)]),
    );
  });
}
