/**
 * Asks for the Weights of a sentence, in as many parts as the service's limit requires.
 */

import { post } from "./api.js";
import { requireModel } from "./version.js";
import { Weights } from "./weights.js";

/**
 * The fields of a request, without those that have the service's default.
 * @param {object} question sentence, reduce, level, the window, and the numbers of all layers and
 *   heads
 */
export function fields(question, layers, heads) {
  const { sentence, reduce, level, model, windows, window } = question;
  const body = { sentence };
  if (layers.length < model.num_layers) body.layer = layers;
  if (heads.length < model.num_heads) body.head = heads;
  if (reduce !== "none") body.reduce = reduce;
  if (level !== "token") body.level = level;
  if (windows > 1) Object.assign(body, { truncation: "window", window });
  return body;
}

/** Splits a part into halves by layers, or else by heads; null if neither can be split. */
function halves({ layers, heads }, reduce) {
  const middle = (range) => Math.ceil((range[0] + range[1]) / 2);
  const divided = (range) => {
    const half = middle(range);
    return [
      [range[0], half],
      [half, range[1]],
    ];
  };
  // A rollout needs all layers at once, and a mean all heads.
  if (reduce !== "rollout" && layers[1] - layers[0] > 1) {
    return divided(layers).map((range) => ({ layers: range, heads }));
  }
  if (reduce === "none" && heads[1] - heads[0] > 1) {
    return divided(heads).map((range) => ({ layers, heads: range }));
  }
  return null;
}

/**
 * Asks for the weights of a sentence; a part from another model is a Problem.
 * @param {object} question sentence, reduce, level, layers, heads, and the model's description
 * @param {AbortSignal} signal cancels the question
 * @param {function(number)} onProgress gets the share that is there, between 0 and 1
 */
export async function askAttention(question, signal, onProgress) {
  const { layers, heads, reduce, model } = question;
  const reduced = [reduce === "rollout", reduce !== "none"];
  const waiting = [{ layers: [0, layers.length], heads: [0, heads.length] }];
  let whole = null;
  let done = 0;
  while (waiting.length > 0) {
    const part = waiting.shift();
    const partLayers = layers.slice(...part.layers);
    const partHeads = heads.slice(...part.heads);
    let answer;
    try {
      answer = await post("/attention", fields(question, partLayers, partHeads), signal);
    } catch (problem) {
      const smaller = problem.type === "too-many-weights" ? halves(part, reduce) : null;
      if (smaller === null) throw problem;
      waiting.unshift(...smaller);
      continue;
    }
    requireModel(answer, model);
    whole ??= new Weights(answer, layers, heads, reduced);
    whole.place(answer.attention, part.layers, part.heads);
    done += partLayers.length * partHeads.length;
    if (waiting.length > 0) onProgress(done / (layers.length * heads.length));
  }
  return whole;
}
