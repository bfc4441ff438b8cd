/**
 * Asks for the predictions of many rows, one request after the other. Each holds as many as the
 * service takes; a full service is asked again, and a request that is refused as too large is
 * halved.
 */

import { post, Problem } from "./api.js";

const MOST = 256; // sentences of a request: more would make the bar move in jumps
const TRIES = 8; // of a request that the service has no room for
const SHARE = 0.5; // of the work that fits that a request may be, by what was seen of tokens
const PACE = 0.25; // of the time that a request has that it should take
const LONGEST = 60; // seconds that are waited between two of them
const BUSY = ["overloaded", "rate-limited", "not-ready", "draining"];
const TOO_MUCH = ["payload-too-large", "too-much-work", "timeout", "invalid-request"];

const bytes = new TextEncoder();
const bytesOf = (text) => bytes.encode(JSON.stringify(text)).length + 1;

const pause = (seconds, signal) =>
  new Promise((resolve, reject) => {
    setTimeout(resolve, 1000 * seconds);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });

export class Batches {
  /**
   * `onAnswer(rows, model)` comes after each answer, when the rows have their prediction or their
   * `reason`; `onWait(seconds)` before a wait.
   */
  constructor(limits, signal, events) {
    this.limits = limits;
    this.most = Math.min(MOST, limits.max_sentences);
    this.mostBytes = Math.min(limits.max_body_bytes, limits.max_work_tokens); // a byte is a token at most
    this.density = 0; // the most tokens of a byte that an answer had
    this.signal = signal;
    this.events = events;
  }

  /** Asks for all; throws a Problem that ends the run, and an AbortError when it is stopped. */
  async run(rows) {
    let left = rows;
    while (left.length > 0) {
      const count = this.#fitting(left.slice(0, this.most));
      await this.#answer(left.slice(0, count));
      left = left.slice(count);
    }
  }

  /** How many of the next rows fit in a request; one goes in any case. */
  #fitting(rows) {
    let size = bytesOf({ sentences: [], on_error: "item" });
    const isOver = ({ text }) => {
      size += bytesOf(text);
      return size > this.mostBytes;
    };
    const count = rows.findIndex(isOver);
    return count < 0 ? rows.length : Math.max(count, 1);
  }

  async #answer(rows) {
    let answer;
    const begun = performance.now();
    try {
      answer = await this.#ask(rows);
    } catch (problem) {
      if (!TOO_MUCH.includes(problem.type)) throw problem;
      if (rows.length === 1 && problem.type === "timeout") throw problem;
      if (rows.length > 1) {
        await this.#halve(rows, problem);
        return;
      }
      rows[0].reason = problem.message;
      this.events.onAnswer(rows, null);
      return;
    }
    const { predictions, model } = answer;
    if (predictions?.length !== rows.length) {
      const detail = `The answer has ${predictions?.length} where ${rows.length} were asked for.`;
      throw new Problem("unknown", detail);
    }
    rows.forEach((row, at) => take(row, predictions[at], model));
    this.#learn(rows, (performance.now() - begun) / 1000);
    this.events.onAnswer(rows, model);
  }

  /** Learns from an answer how large the next request may be. */
  #learn(rows, seconds) {
    const size = rows.reduce((sum, { text }) => sum + bytesOf(text), 0);
    const tokens = rows.reduce((sum, row) => sum + (row.tokens ?? 0), 0);
    this.density = Math.max(this.density, tokens / size);
    const { max_body_bytes: body, max_work_tokens: work, request_timeout: timeout } = this.limits;
    const fitting = this.density > 0 ? (SHARE * work) / this.density : work;
    this.mostBytes = Math.min(body, fitting, (size * PACE * timeout) / seconds);
  }

  async #halve(rows, problem) {
    const half = Math.ceil(rows.length / 2);
    // One bad row says nothing of the others.
    if (problem.type !== "invalid-request") this.most = Math.min(this.most, half);
    await this.#answer(rows.slice(0, half));
    await this.#answer(rows.slice(half));
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
        this.events.onWait(seconds);
        await pause(seconds, this.signal);
      }
    }
  }
}

/** Gives a row its prediction, or the reason why it has none. */
function take(row, prediction, model) {
  if (prediction.error) {
    const { detail, errors } = prediction.error;
    row.reason = errors?.[0]?.msg ?? detail;
    return;
  }
  const { label, score, probabilities, token_count: tokens, truncated } = prediction;
  Object.assign(row, { label, score, probabilities, tokens, truncated, version: model.version });
}
