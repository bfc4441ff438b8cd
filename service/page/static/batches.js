/**
 * Asks for the verdicts on many rows, one request after the other. Each holds as many as the service
 * takes; a full service is asked again, and a request that is refused as too large is halved.
 */

import { post, Problem } from "./api.js";

const MOST = 256; // sentences of a request: more would make the bar move in jumps
const TRIES = 8; // of a request that the service has no room for
const LONGEST = 60; // seconds that are waited between two of them
const BUSY = ["overloaded", "rate-limited", "not-ready", "draining"];
const TOO_MUCH = ["payload-too-large", "timeout", "invalid-request"];

const bytes = new TextEncoder();

/** The bytes of a text in the body of a request, with a comma. */
const bytesOf = (text) => bytes.encode(JSON.stringify(text)).length + 1;
const FRAME = bytesOf({ sentences: [], on_error: "item" });

/**
 * Divides rows into requests, in their order.
 * @param {{text: string}[]} rows
 * @param {number} most rows of a request
 * @param {number} mostBytes of the body of a request; a row with more is alone
 */
function divide(rows, most, mostBytes) {
  const batches = [];
  let size = Infinity;
  for (const row of rows) {
    const own = bytesOf(row.text);
    if (size + own > mostBytes || batches.at(-1).length >= most) {
      batches.push([]);
      size = FRAME;
    }
    batches.at(-1).push(row);
    size += own;
  }
  return batches;
}

/** Waits; throws an AbortError as soon as the signal says so. */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, 1000 * seconds);
    signal.addEventListener("abort", stop);
  });
}

export class Batches {
  /**
   * @param {object} limits of the service: `max_sentences`, `max_body_bytes`
   * @param {AbortSignal} signal ends the run
   * @param {object} told `onAnswer(rows, model)` after each answer, when the rows have their verdict or
   *   their `reason`; `onWait(seconds)` before a wait
   */
  constructor({ max_sentences: sentences, max_body_bytes: body }, signal, told) {
    this.most = Math.min(MOST, sentences);
    this.mostBytes = body;
    this.signal = signal;
    this.told = told;
  }

  /** Asks for all; throws a Problem that ends the run, and an AbortError when it is stopped. */
  async run(rows) {
    let left = rows;
    while (left.length > 0) {
      const [batch] = divide(left.slice(0, this.most), this.most, this.mostBytes);
      await this.#answer(batch);
      left = left.slice(batch.length);
    }
  }

  async #answer(rows) {
    let answer;
    try {
      answer = await this.#ask(rows);
    } catch (problem) {
      if (!TOO_MUCH.includes(problem.type)) throw problem;
      if (rows.length > 1) await this.#halve(rows, problem);
      else if (problem.type === "timeout") throw problem;
      else this.#refuse(rows, problem);
      return;
    }
    const { predictions, model } = answer;
    if (predictions?.length !== rows.length) {
      const detail = `The answer has ${predictions?.length} where ${rows.length} were asked for.`;
      throw new Problem("unknown", detail);
    }
    rows.forEach((row, at) => take(row, predictions[at], model));
    this.told.onAnswer(rows, model);
  }

  async #halve(rows, problem) {
    const half = Math.ceil(rows.length / 2);
    // One bad row says nothing of the others.
    if (problem.type !== "invalid-request") this.most = Math.min(this.most, half);
    await this.#answer(rows.slice(0, half));
    await this.#answer(rows.slice(half));
  }

  #refuse(rows, { message }) {
    for (const row of rows) row.reason = message;
    this.told.onAnswer(rows, null);
  }

  /** Asks, and again while the service has no room. */
  async #ask(rows) {
    const body = { sentences: rows.map(({ text }) => text), on_error: "item" };
    for (let left = TRIES - 1; ; left -= 1) {
      try {
        return await post("/predict", body, this.signal);
      } catch (problem) {
        const seconds = problem.retryAfter ?? 1;
        if (!BUSY.includes(problem.type) || left === 0 || seconds > LONGEST) throw problem;
        this.told.onWait(seconds);
        await pause(seconds, this.signal);
      }
    }
  }
}

/** Gives a row its verdict, or the reason why it has none. */
function take(row, prediction, model) {
  if (prediction.error) {
    const { detail, errors } = prediction.error;
    row.reason = errors?.[0]?.msg ?? detail;
    return;
  }
  const { label, score, probabilities, token_count: tokens, truncated } = prediction;
  Object.assign(row, { label, score, probabilities, tokens, truncated, version: model.version });
}
