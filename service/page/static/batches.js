/**
 * Asks for the predictions of many rows, one request after the other: few rows at first, so that
 * something is soon there, then twice as many while answers are quick. A full service is asked again,
 * and what is refused as too large is asked in halves.
 */

import { patiently, post, Problem } from "./api.js";

const FIRST = 32; // sentences of the first request
const MOST = 256; // of a later one: more would make the bar move in jumps
const TRIES = 8; // of a request that the service has no room for
const QUICK = 0.25; // of the time that a request has
const TOO_MUCH = ["payload-too-large", "too-much-work", "timeout", "invalid-request"];

/**
 * Gives each row its prediction or a `reason`. `onAnswer(rows)` comes after each answer,
 * `onWait(why)` before a wait. Throws a Problem that ends the run, and an AbortError when it is stopped.
 */
export async function askAll(rows, limits, signal, { onAnswer, onWait }) {
  let most = Math.min(MOST, limits.max_sentences);
  let next = FIRST;
  for (let left = rows; left.length > 0; ) {
    const some = left.slice(0, Math.min(most, next));
    const begun = performance.now();
    try {
      const body = { sentences: some.map(({ text }) => text), on_error: "item" };
      const { predictions, model } = await patiently(() => post("/predict", body, signal), signal, onWait, TRIES);
      if (predictions?.length !== some.length) {
        throw new Problem("unknown", `The answer has ${predictions?.length} where ${some.length} were asked for.`);
      }
      some.forEach((row, at) => take(row, predictions[at], model));
      const seconds = (performance.now() - begun) / 1000;
      next = seconds < QUICK * limits.request_timeout ? 2 * some.length : Math.ceil(some.length / 2);
    } catch (problem) {
      const isOne = some.length === 1;
      if (!TOO_MUCH.includes(problem.type) || (isOne && problem.type === "timeout")) throw problem;
      if (!isOne) {
        next = Math.ceil(some.length / 2);
        if (problem.type !== "invalid-request") most = next; // one bad row says nothing of the others
        continue;
      }
      some[0].reason = problem.message;
    }
    left = left.slice(some.length);
    onAnswer(some);
  }
}

/** Gives a row its prediction, or the reason why it has none. */
function take(row, prediction, model) {
  if (prediction.error) {
    const { detail, errors } = prediction.error;
    row.reason = errors?.[0]?.msg ?? detail;
    return;
  }
  const { label, score, probabilities, token_count: tokens, truncated, warnings = [] } = prediction;
  Object.assign(row, { label, score, probabilities, tokens, truncated, warnings, model });
}
