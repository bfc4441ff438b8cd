/**
 * Asks the service: for the weights of a sentence, thumbnails first and whole maps one at a time;
 * for the prediction of a long text; for the importance of heads.
 */

import { askPredictions, post, requireModel, usedLabels } from "./api.js";
import { range } from "./elements.js";
import { readNpz } from "./npz.js";
import { Weights } from "./weights.js";

const SIDE = 48; // of a thumbnail; a text with no more tokens is there whole
const LEAST_SIDE = 8; // that the service takes

/** The fields of a request, without those that have the service's default. */
export function fields(question, layers, heads) {
  const { sentence, reduce, level, model, windows, window, changes } = question;
  const body = { sentence, ...changes?.fields };
  if (layers.length < model.num_layers) body.layer = layers;
  if (heads.length < model.num_heads) body.head = heads;
  if (reduce !== "none") body.reduce = reduce;
  if (level !== "token") body.level = level;
  if (windows > 1) Object.assign(body, { truncation: "window", window });
  return body;
}

/**
 * Divides a question into parts that hold at most `most` numbers, each map having `each`: the start
 * and the end of each part's layers and heads.
 */
export function partsOf({ layers, heads, reduce }, each, most) {
  const cut = (count, size) =>
    range(Math.ceil(count / size)).map((at) => [at * size, Math.min((at + 1) * size, count)]);
  // A rollout needs all layers at once, and a mean all heads.
  if (reduce === "rollout") return [{ layers: [0, layers.length], heads: [0, heads.length] }];
  const columns = reduce === "none" ? heads.length : 1;
  const rows = Math.floor(most / (each * columns));
  const size = reduce === "none" && rows === 0 ? Math.max(Math.floor(most / each), 1) : heads.length;
  return cut(layers.length, Math.max(rows, 1)).flatMap((some) =>
    cut(heads.length, size).map((others) => ({ layers: some, heads: others })),
  );
}

/** Asks for the weights of a sentence; a part from another model is a Problem. */
export async function askAttention(question, signal, onProgress) {
  const plain = () => askThumbnails(question, { special: false }, signal, onProgress);
  // A word has a token or more, so these are too many to be there whole.
  if (!question.special && question.sentence.trim().split(/\s+/).length > SIDE) return plain();
  const whole = await askThumbnails(question, {}, signal, onProgress);
  return question.special || whole.isWhole ? whole : plain();
}

async function askThumbnails(question, more, signal, onProgress) {
  const { layers, heads, model } = question;
  const most = model.limits.max_attention_weights;
  const side = Math.max(Math.min(SIDE, Math.floor(Math.sqrt(most))), LEAST_SIDE);
  const parts = partsOf(question, side ** 2, most);
  const count = layers.length * heads.length;
  let whole = null;
  let done = 0;
  for (const part of parts) {
    const partLayers = layers.slice(...part.layers);
    const partHeads = heads.slice(...part.heads);
    const body = { ...fields(question, partLayers, partHeads), thumbnail: side, ...more };
    const answer = await post("/attention", body, signal);
    requireModel(answer, model);
    whole ??= new Weights(answer, question);
    whole.place(answer, part.layers, part.heads);
    done += partLayers.length * partHeads.length;
    if (done < count) onProgress(done / count);
  }
  return whole;
}

/** Asks for the whole map of a place, unless it is there. */
export async function askMap(question, weights, { row, column }, signal) {
  if (weights.has(row, column)) return;
  const { layers, heads } = weights.numbersOf(row, column);
  const body = { ...fields(question, layers, heads), format: "npz" };
  const archive = readNpz(await post("/attention", body, signal, "arrayBuffer"));
  const [name, version] = archive.get("model")?.values ?? [];
  requireModel({ model: { name, version } }, question.model);
  weights.keep(row, column, archive.get("attention")?.values ?? []);
}

/** Of a text of which nothing but its weights was asked. */
export const NO_DOCUMENT = Object.freeze({ prediction: null, windows: 1 });

/** Of each text its prediction and the number of its windows, if a view reads it whole. */
export async function askDocuments(texts, view, model, signal) {
  if (!view.whole) return texts.map(() => NO_DOCUMENT);
  const answer = await askPredictions(texts, { truncation: "window" }, signal);
  requireModel(answer, model);
  return answer.predictions.map((prediction) => ({ prediction, windows: prediction.windows }));
}

let known = { key: "" };

/** Whether a view shows single heads of the beginning of a text: only these have a measure. */
export const hasImportance = ({ reduce, whole, window }) =>
  reduce === "none" && !(whole && window > 0);

/** The importance of the heads in each answer, as [row][column]. */
export async function askImportance(sentences, results, signal) {
  const { model } = results[0];
  const key = JSON.stringify([model.name, model.version, usedLabels(), sentences]);
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
