/**
 * Asks for all that a view of some sentences needs, from one version of the model. If the model was
 * replaced, it reads the new one's description and asks again.
 */

import { askPredictions, get, isSameModel, requireModel } from "./api.js";
import { askAttention, askDocuments, askMap, NO_DOCUMENT } from "./attention.js";
import { drawnPlaces } from "./picture.js";
import { fitted, questionOf } from "./question.js";

export class Asker {
  /** `onModel` gets the description of each model that is new here. */
  constructor(onModel) {
    this.onModel = onModel;
    this.model = null;
  }

  /**
   * The model, and of each sentence its question and its Weights. `onProgress` gets the index of a
   * sentence and the share of its answer; `changes` are what each sentence is read with, or null.
   */
  async ask(sentences, view, signal, onProgress, changes) {
    await this.describe(signal);
    try {
      return await this.#once(sentences, view, signal, onProgress, changes);
    } catch (problem) {
      if (!(await this.#isReplaced(problem, signal))) throw problem;
    }
    return this.#once(sentences, view, signal, onProgress, changes);
  }

  /** The prediction of a text, and the description of the model that made it. */
  async predict(text, fields, signal) {
    await this.describe(signal);
    const answer = await askPredictions([text], fields, signal);
    if (!isSameModel(answer.model, this.model)) await this.#learn(signal);
    requireModel(answer, this.model);
    return { model: this.model, prediction: answer.predictions[0] };
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
        questionOf(sentence, next, model, counts[at] ?? 1, changes[at]),
      );
      const asked = questions.map((question, at) =>
        askAttention(question, own.signal, (share) => own.signal.aborted || onProgress(at, share)),
      );
      const [documents, ...results] = await Promise.all([asking, ...asked]);
      results.forEach((weights, at) => {
        const document = questions[at].changes ? NO_DOCUMENT : documents[at];
        weights.describe(document, questions[at]);
      });
      return { model, questions, results };
    } finally {
      // If one of two sentences failed, nobody waits for the other.
      stop();
      signal.removeEventListener("abort", stop);
    }
  }

  /** Asks for the whole maps that a view shows large, where they are not there. */
  async complete({ questions, results }, view, signal) {
    const asked = results.flatMap((weights, at) =>
      placesOf(weights, view).map((place) => askMap(questions[at], weights, place, signal)),
    );
    await Promise.all(asked);
  }

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
