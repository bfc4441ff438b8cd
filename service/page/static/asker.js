/**
 * From sentences and a view to one answer: the Weights of each sentence, all of one version of
 * the model. A model that was replaced is noticed, described anew and asked again.
 */

import { get } from "./api.js";
import { askAttention } from "./attention.js";
import { fitted, questionOf } from "./question.js";
import { isSame } from "./version.js";

export class Asker {
  /** @param {function(object)} onModel gets the description of each model that is new here */
  constructor(onModel) {
    this.onModel = onModel;
    this.model = null;
  }

  /**
   * Asks for all that a view of some sentences needs.
   * @param {AbortSignal} signal gives the question up
   * @param {function(number, number)} onProgress gets the place of a sentence and the share of it
   * @returns {{model: object, questions: object[], results: Weights[]}}
   */
  async ask(sentences, view, signal, onProgress) {
    if (this.model === null) await this.#learn(signal);
    try {
      return await this.#once(sentences, view, signal, onProgress);
    } catch (problem) {
      if (!(await this.#isReplaced(problem, signal))) throw problem;
    }
    return this.#once(sentences, view, signal, onProgress);
  }

  async #once(sentences, view, signal, onProgress) {
    signal.throwIfAborted();
    const { model } = this;
    const next = fitted(view, model);
    const questions = sentences.map((sentence) => questionOf(sentence, next, model));
    const own = new AbortController();
    const stop = () => own.abort();
    signal.addEventListener("abort", stop);
    try {
      const asked = questions.map((question, at) =>
        askAttention(question, own.signal, (share) => own.signal.aborted || onProgress(at, share)),
      );
      return { model, questions, results: await Promise.all(asked) };
    } finally {
      // Where one of two sentences failed, nobody waits for the other any more.
      stop();
      signal.removeEventListener("abort", stop);
    }
  }

  async #learn(signal) {
    const model = await get("/model", signal);
    if (this.model === null || !isSame(model, this.model)) this.onModel(model);
    this.model = model;
  }

  /** Whether a problem comes from another model than the one in hand; describes it anew then. */
  async #isReplaced(problem, signal) {
    const before = this.model;
    const isChanged = problem.type === "model-changed";
    // A smaller model refuses layers or heads that it has not.
    if (!isChanged && problem.type !== "invalid-request") return false;
    await this.#learn(signal);
    return isChanged || !isSame(before, this.model);
  }
}
