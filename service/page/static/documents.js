/**
 * Asks what the model says of whole texts: of each sentence, and of one that is longer than it
 * reads at once.
 */

import { post, Problem } from "./api.js";
import { requireModel } from "./version.js";

const END = /[\p{Sentence_Terminal}…\n\u2028\u2029]/u;
const MORE = /[^\s\p{Sentence_Terminal}…\p{Pe}\p{Pf}"'’]/u;
/** Of a text that nothing is told of but by its weights. */
export const UNTOLD = Object.freeze({ prediction: null, windows: 1, sentences: [], refused: "" });

/** Whether a text may have several sentences: something follows what could end one. */
export function maySplit(text) {
  const end = text.search(END);
  return end >= 0 && MORE.test(text.slice(end));
}

/**
 * Asks about all texts in one request, if a view needs that.
 * @param {object} view whether sentences are told, and whether long texts are read whole
 * @returns {Promise<object[]>} of each text its prediction, the number of its windows, its sentences, or
 *   why they were refused
 */
export async function askDocuments(texts, view, model, signal) {
  const isSplit = view.sentences && texts.some(maySplit);
  if (!view.whole && !isSplit) return texts.map(() => UNTOLD);
  const body = { sentences: texts, on_error: "item" };
  if (view.whole) body.truncation = "window";
  if (isSplit) body.granularity = "sentence";
  const answer = await post("/predict", body, signal);
  requireModel(answer, model);
  return answer.predictions.map((item) => {
    if (item.error) return refusal(item.error, view.whole);
    return { ...UNTOLD, prediction: item, windows: item.windows ?? 1, sentences: item.sentences ?? [] };
  });
}

/** Without its sentences a text can still be shown; one that cannot be read whole cannot. */
function refusal({ type, status, detail, errors }, isWhole) {
  if (isWhole) throw new Problem(type.split("/").pop(), detail, { isFinal: status < 500 });
  return { ...UNTOLD, refused: errors?.[0]?.msg ?? detail };
}

/**
 * What is shown of a text, from what was told of it and the Weights of one of its windows. The
 * weights of a text that is not in windows have a prediction of their own, of the same pass.
 */
export function documentOf(told, { windows, window }, weights) {
  const prediction = windows > 1 ? told.prediction : weights.prediction;
  return { ...told, prediction, windows, window };
}
