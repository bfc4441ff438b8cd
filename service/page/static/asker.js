/**
 * Asks for the Weights of each sentence, all of one version of the model. If the model was
 * replaced, it reads the new one's description and asks again.
 */

import { get, isSameModel } from "./api.js";
import { askAttention, askDocuments, askMap, documentOf, UNTOLD } from "./attention.js";
import { drawnPlaces } from "./picture.js";
import { fitted, questionOf } from "./question.js";

/** @import { Weights } from "./weights.js" */

export class Asker {
  /** @param {function(object): void} onModel gets the description of each model that is new here */
  constructor(onModel) {
    this.onModel = onModel;
    this.model = null;
  }

  /**
   * Asks for all that a view of some sentences needs.
   * @param {AbortSignal} signal cancels the question
   * @param {function(number, number): void} onProgress gets the index of a sentence and the share that is there
   * @param {(object|null)[]} changes what each sentence is read with: a head mask, omitted tokens
   * @returns {Promise<{model: object, questions: object[], results: Weights[]}>}
   */
  async ask(sentences, view, signal, onProgress, changes = []) {
    if (this.model === null) await this.#learn(signal);
    try {
      return await this.#once(sentences, view, signal, onProgress, changes);
    } catch (problem) {
      if (!(await this.#isReplaced(problem, signal))) throw problem;
    }
    return this.#once(sentences, view, signal, onProgress, changes);
  }

  /** The description of the model, asked for if it is not known. */
  async describe(signal) {
    if (this.model === null) await this.#learn(signal);
    return this.model;
  }

  async #once(sentences, view, signal, onProgress, changes) {
    signal.throwIfAborted();
    const { model } = this;
    const next = fitted(view, model);
    const own = new AbortController();
    const stop = () => own.abort();
    signal.addEventListener("abort", stop);
    try {
      const asking = askDocuments(sentences, next, model, own.signal);
      // Which window can be asked for is known only then.
      const counts = next.whole ? (await asking).map(({ windows }) => windows) : [];
      const questions = sentences.map((sentence, at) =>
        questionOf(sentence, next, model, counts[at] ?? 1, changes[at] ?? null),
      );
      const asked = questions.map((question, at) =>
        askAttention(question, own.signal, (share) => own.signal.aborted || onProgress(at, share)),
      );
      const [documents, ...results] = await Promise.all([asking, ...asked]);
      results.forEach((weights, at) => {
        const told = questions[at].changes ? UNTOLD : documents[at];
        weights.document = documentOf(told, questions[at], weights);
      });
      return { model, questions, results };
    } finally {
      // If one of two sentences failed, nobody waits for the other.
      stop();
      signal.removeEventListener("abort", stop);
    }
  }

  /**
   * Asks for the whole maps that a view shows large, where they are not there.
   * @param {{questions: object[], results: Weights[]}} answer of `ask`
   */
  async complete({ questions, results }, view, signal) {
    const asked = results.flatMap((weights, at) =>
      placesOf(weights, view).map((place) => askMap(questions[at], weights, place, signal)),
    );
    await Promise.all(asked);
  }

  /** Whether all of them are there. */
  static isComplete({ results }, view) {
    return results.every((weights) =>
      placesOf(weights, view).every(({ row, column }) => weights.has(row, column)),
    );
  }

  async #learn(signal) {
    const model = await get("/model", signal);
    if (this.model === null || !isSameModel(model, this.model)) this.onModel(model);
    this.model = model;
  }

  /** Whether another model caused a problem; reads its description then. */
  async #isReplaced(problem, signal) {
    const before = this.model;
    const isChanged = problem.type === "model-changed";
    // A smaller model refuses layers or heads that it does not have.
    if (!isChanged && problem.type !== "invalid-request") return false;
    await this.#learn(signal);
    return isChanged || !isSameModel(before, this.model);
  }
}

const placesOf = (weights, view) =>
  drawnPlaces(view, weights, weights.find(view.layer, view.head));
