/**
 * Shows "How this weight was made" for one pair of tokens of the chosen head. The numbers are asked
 * for only when the user opens the part.
 */

import { post, Problem } from "./api.js";
import { find, make } from "./elements.js";
import { fillSteps } from "./making.js";
import { requireModel } from "./version.js";
import { quoted, short } from "./words.js";

const LEAST = 5e-5; // a difference that four decimals show

export class Steps {
  /**
   * @param {HTMLButtonElement} button opens the part
   * @param {HTMLElement} element the part of a panel
   * @param {object} told what the page wants to hear: `onProblem(problem, retry, place)`, `announce(text)`
   */
  constructor(button, element, told) {
    this.button = button;
    this.element = element;
    this.told = told;
    this.part = (name) => find(element, name);
    this.controller = new AbortController();
    this.isOffered = true;
    this.head = this.question = this.answer = this.key = null;
    this.pair = { query: 0, key: 0 };
    button.addEventListener("click", () => this.#open());
    this.part(".shut").addEventListener("click", () => this.#close());
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation(); // it would take back the choice of the token too
      this.#close();
    });
    for (const name of ["query", "key"]) {
      this.part(`.of-${name}`).addEventListener("change", ({ target }) => {
        this.#set({ ...this.pair, [name]: Number(target.value) });
      });
    }
  }

  /**
   * Sets the head that the part is about, and what is chosen in it.
   * @param {boolean} isOne whether the view shows single heads
   */
  choose(question, head, isOne, chosen, palette) {
    const isNew = this.head?.weights !== head.weights;
    const wasOpen = !this.element.hidden;
    this.question = question;
    this.head = head;
    this.palette = palette;
    this.button.hidden = !this.isOffered || !isOne || question.level !== "token";
    if (this.button.hidden) {
      this.#hide();
      return;
    }
    if (isNew) this.#name();
    // While it is open, another head shows the same pair.
    this.#set(wasOpen && !isNew ? this.pair : this.#pairOf(chosen));
  }

  /** Sets the pair to what the user has chosen. */
  pin(chosen) {
    if (!this.button.hidden && this.head && (chosen.query !== null || chosen.key !== null)) this.#set(this.#pairOf(chosen));
  }

  /** The chosen pair; what is missing of it has the largest weight. */
  #pairOf({ query, key }) {
    const { weights, row, column, shown } = this.head;
    const map = weights.map(row, column);
    let best = { query: shown[0], key: shown[0], weight: -1 };
    for (const from of query === null ? shown : [query]) {
      for (const to of key === null ? shown : [key]) {
        const weight = map[from * weights.size + to];
        if (weight > best.weight) best = { query: from, key: to, weight };
      }
    }
    return { query: best.query, key: best.key };
  }

  #name() {
    const { tokens } = this.head.weights;
    for (const name of ["query", "key"]) {
      const options = tokens.map(({ text }, at) =>
        make("option", { value: String(at), textContent: `${at}: ${text}` }),
      );
      this.part(`.of-${name}`).replaceChildren(...options);
    }
  }

  #open() {
    this.element.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.part(".made-title").focus();
    this.#ask();
  }

  #hide() {
    this.controller.abort();
    this.answer = this.key = null;
    this.element.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
  }

  #close() {
    this.#hide();
    this.button.focus();
  }

  #set(pair) {
    this.pair = pair;
    this.part(".of-query").value = String(pair.query);
    this.part(".of-key").value = String(pair.key);
    this.#ask();
  }

  /** The fields of a request for the row of the pair. */
  #body() {
    const { sentence, windows, window, changes } = this.question;
    const { weights, row, column } = this.head;
    const place = { layer: weights.layers[row], head: weights.heads[column], query: this.pair.query };
    const part = windows > 1 ? { truncation: "window", window } : {};
    return { sentence, ...changes?.fields, ...place, ...part };
  }

  async #ask() {
    if (this.element.hidden) return;
    const body = this.#body();
    const { model } = this.question;
    const key = JSON.stringify([body, model.name, model.version]);
    if (key === this.key) {
      if (this.answer) this.#show();
      return;
    }
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    this.key = key;
    this.answer = null;
    this.#tell("Asking …");
    try {
      const answer = await post("/attention/steps", body, signal);
      requireModel(answer, model);
      if (answer.tokens.length !== this.head.weights.size) {
        throw new Problem("unknown", "The answer has other tokens than the map.");
      }
      this.answer = answer;
      this.#show();
    } catch (problem) {
      if (signal.aborted) return;
      this.isOffered = problem.type !== "not-found";
      this.#close();
      this.button.hidden = !this.isOffered;
      if (this.isOffered) this.told.onProblem(problem, () => this.#open(), this.button);
    }
  }

  #tell(note) {
    this.part(".made-note").textContent = note;
    this.part(".making").replaceChildren();
  }

  #show() {
    const { answer, pair } = this;
    const { weights, row, column } = this.head;
    const { model, changes } = this.question;
    const weight = answer.weights[pair.key];
    const drawn = weights.map(row, column)[pair.query * weights.size + pair.key];
    const differs = Math.abs(weight - drawn) >= LEAST;
    const map = differs ? ` The map shows ${short(drawn)}: the service computes in ${model.dtype}, which rounds more.` : "";
    this.part(".made-note").textContent = `All numbers here are computed in float32.${map}`;
    const isOff = (changes?.fields.head_mask ?? []).some(
      (one) => one.layer === answer.layer && (one.head ?? answer.head) === answer.head,
    );
    fillSteps(this.part(".making"), { answer, key: pair.key, heads: model.num_heads, isOff }, this.palette);
    const to = pair.query === pair.key ? "itself" : quoted(weights.tokens[pair.key]);
    const told = `${quoted(weights.tokens[pair.query])} gives ${to} ${short(weight)}`;
    this.part(".made-said").textContent = told;
    this.told.announce(`Layer ${answer.layer}, head ${answer.head}: ${told}, in five steps.`);
  }
}
