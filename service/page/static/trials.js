/**
 * Shows "Would it still hold?": leaves words out, replaces them and switches heads off, and shows
 * how the probability moves. What was tried stays only in this tab.
 */

import { post, requireModel } from "./api.js";
import { signedTint } from "./canvas.js";
import { find, make, moveFocus, options, rove } from "./elements.js";
import { isSame } from "./question.js";
import { percent, quoted, signed } from "./words.js";

const MOST_TRIED = 20;
const NOTHING = Object.freeze({
  words: Object.freeze([]), // places of words that are left out
  heads: Object.freeze([]), // that are switched off
  replaced: Object.freeze([]), // pairs of a place and the text in its place
});
/** A list with an entry if it lacks it, and else without it. */
const toggled = (list, entry) => {
  const others = list.filter((each) => !isSame(each, entry));
  return others.length < list.length ? others : [...list, entry];
};

export class Trials {
  constructor(element, events) {
    this.element = element;
    this.events = events;
    this.key = this.sentence = this.model = this.prediction = null;
    this.words = [];
    this.buttons = [];
    this.head = null;
    this.controller = new AbortController();
    this.part = (name) => find(element, name);
    this.#forget();
    this.part(".leave").addEventListener("keydown", (event) => moveFocus(event, this.buttons));
    this.part(".leave").addEventListener("click", ({ target }) => {
      const at = this.buttons.indexOf(target);
      const words = toggled(this.trial.words, at).sort((one, other) => one - other);
      if (at >= 0) this.#change({ words });
    });
    this.part(".leave").addEventListener("focusin", ({ target }) => {
      rove(this.buttons, this.buttons.indexOf(target));
    });
    this.part(".replace").addEventListener("submit", (event) => {
      event.preventDefault();
      const at = Number(this.part(".which").value);
      const text = this.part(".by").value.trim();
      if (text === "" || this.buttons.length === 0) return;
      const others = this.trial.replaced.filter(([place]) => place !== at);
      const words = this.trial.words.filter((place) => place !== at);
      const replaced = [...others, [at, text]].sort(([one], [other]) => one - other);
      this.#change({ words, replaced });
    });
    const onHead = (place) => this.#change({ heads: toggled(this.trial.heads, place()) });
    this.part(".off-head").addEventListener("click", () => onHead(() => this.head));
    this.part(".off-layer").addEventListener("click", () => onHead(() => ({ layer: this.head.layer })));
    this.part(".undo").addEventListener("click", () => {
      this.#goTo(this.undone.at(-1), this.undone.slice(0, -1));
      events.onTrial();
    });
    this.part(".reset").addEventListener("click", () => this.#change(NOTHING));
    this.part(".beside").addEventListener("click", () => this.#showBeside());
    this.part(".tried").addEventListener("click", ({ target }) => {
      const at = this.entries.indexOf(target);
      if (at >= 0) this.#change(this.tried[at].trial);
    });
  }

  /** Sets the sentence that the part is about; another one begins again. */
  about(question, weights) {
    const { sentence, model, windows, changes } = question;
    // A text in windows has no numbers of tokens of its own.
    this.element.hidden = windows > 1 || changes !== null;
    const key = JSON.stringify([sentence, model.name, model.version]);
    const tokens = question.level === "token" ? weights.tokens : null;
    if (key !== this.key) {
      this.controller.abort();
      this.key = key;
      this.sentence = sentence;
      this.model = model;
      this.prediction = weights.document.prediction;
      this.#forget();
      this.#setWords(tokens);
    } else if (this.words === null) {
      this.#setWords(tokens);
    }
    this.#draw();
  }

  /** Colours the words by an answer of /attributions by word; null for no colours. */
  colour(answer, largest, palette) {
    const values = new Map();
    (answer?.tokens ?? []).forEach(({ start, special }, at) => {
      if (!special) values.set(start, answer.attributions[at]);
    });
    this.buttons.forEach((button, at) => {
      const value = values.get(this.words[at].start) ?? 0;
      button.style.backgroundColor = value === 0 ? "" : signedTint(palette, value, largest);
      button.title = answer === null ? "" : signed(value, 4);
    });
  }

  /** Sets the head that can be switched off; null if the view has joined heads or layers. */
  choose(head) {
    this.head = head;
    this.#nameHeads();
  }

  #forget() {
    this.trial = NOTHING;
    this.undone = [];
    this.tried = [];
    this.entries = [];
  }

  #setWords(tokens) {
    const characters = [...this.sentence];
    this.words = tokens === null ? null : wordsOf(tokens, characters);
    const texts = (this.words ?? []).map(({ text }) => text);
    this.buttons = texts.map((text) => make("button", { type: "button" }, text));
    rove(this.buttons, 0);
    this.part(".leave").replaceChildren(...this.buttons);
    this.part(".which").replaceChildren(...options(texts));
    this.part(".replace").hidden = this.words === null;
    this.part(".few").hidden = this.words !== null;
  }

  /** Tries something else, and keeps what was tried before it for Undo. */
  #change(fields) {
    this.#goTo({ ...this.trial, ...fields }, [...this.undone, this.trial]);
    this.events.onTrial();
  }

  /** Tries what was tried before, in another visit to the same text. */
  restore(trial) {
    const { length } = this.buttons;
    const { words, replaced } = trial ?? NOTHING;
    const isKnown = [...words, ...replaced.map(([at]) => at)].every((at) => at < length);
    if (this.element.hidden || isSame(trial ?? NOTHING, this.trial) || !isKnown) return;
    this.#goTo(trial ?? NOTHING, []);
  }

  async #goTo(trial, undone) {
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    const before = { trial: this.trial, undone: this.undone };
    this.trial = trial;
    this.undone = undone;
    this.#draw();
    if (isSame(trial, NOTHING)) {
      this.#report("");
      return;
    }
    try {
      const { sentence, fields } = await this.#question(trial, signal);
      const answer = await post("/predict", { sentences: [sentence], ...fields }, signal);
      requireModel(answer, this.model);
      this.#keep(trial, answer.predictions[0]);
    } catch (problem) {
      if (signal.aborted) return;
      this.trial = before.trial;
      this.undone = before.undone;
      this.#draw();
      this.events.onProblem(problem, () => this.#goTo(trial, undone), this.part(".outcome"));
    }
  }

  /** The sentence of a trial, and the fields of a request that say how it is read. */
  async #question({ words, heads, replaced }, signal) {
    const texts = new Map(replaced);
    const characters = [...this.sentence];
    const starts = new Map(); // of each word in the new sentence
    const made = [];
    let from = 0;
    this.words.forEach((word, at) => {
      made.push(...characters.slice(from, word.start));
      starts.set(at, made.length);
      made.push(...(texts.get(at) ?? word.text));
      from = word.start + [...word.text].length;
    });
    const sentence = [...made, ...characters.slice(from)].join("");
    const fields = heads.length > 0 ? { head_mask: heads } : {};
    if (words.length === 0) return { sentence, fields };
    if (replaced.length === 0) {
      return { sentence, fields: { omit: words.flatMap((at) => this.words[at].tokens), ...fields } };
    }
    // Words behind another one have other tokens now.
    const body = { sentence, layer: [0], head: [0], thumbnail: 8 };
    const answer = await post("/attention", body, signal);
    requireModel(answer, this.model);
    const left = new Set(words.map((at) => starts.get(at)));
    const omit = wordsOf(answer.tokens, made)
      .filter(({ start }) => left.has(start))
      .flatMap(({ tokens }) => tokens);
    return { sentence, fields: { omit, ...fields } };
  }

  async #showBeside() {
    const { signal } = this.controller;
    const { trial } = this;
    try {
      const { sentence, fields } = await this.#question(trial, signal);
      if (!signal.aborted) this.events.onCompare({ sentence, fields, name: capital(this.#name(trial)) });
    } catch (problem) {
      if (signal.aborted) return;
      this.events.onProblem(problem, () => this.#showBeside(), this.part(".outcome"));
    }
  }

  #keep(trial, prediction) {
    const text = `${capital(this.#name(trial))}: ${this.#outcome(prediction)}`;
    this.tried = [{ trial, text }, ...this.tried.filter((each) => each.text !== text)];
    this.tried.length = Math.min(this.tried.length, MOST_TRIED);
    this.entries = this.tried.map((each) =>
      make("button", { type: "button", className: "quiet", textContent: each.text }),
    );
    this.part(".tried").replaceChildren(...this.entries.map((each) => make("li", {}, each)));
    this.part(".history").hidden = false;
    this.#report(text);
  }

  #name({ words, heads, replaced }) {
    const others = replaced
      .map(([at, text]) => `${quoted({ text })} for ${quoted(this.words[at])}`)
      .join(", ");
    const left = words.map((at) => quoted(this.words[at])).join(", ");
    const off = heads.map(({ layer, head }) =>
      head === undefined ? `all heads of layer ${layer}` : `layer ${layer}, head ${head}`,
    );
    return [others, left && `without ${left}`, off.length > 0 && `off: ${off.join("; ")}`]
      .filter(Boolean)
      .join("; ");
  }

  #outcome({ label, probabilities }) {
    const was = this.prediction;
    const [from, to] = [was.probabilities[was.label], probabilities[was.label]].map(percent);
    const moved = `${was.label} ${from} → ${to}`;
    if (label === was.label) return `${moved}. The verdict holds.`;
    return `${moved}. The verdict turns to ${label}, ${percent(probabilities[label])}.`;
  }

  #report(text) {
    this.part(".outcome").textContent = text;
    if (text) this.events.announce(text);
  }

  #draw() {
    const { words, replaced } = this.trial;
    const others = new Map(replaced);
    this.buttons.forEach((button, at) => {
      button.setAttribute("aria-pressed", words.includes(at));
      const text = others.get(at);
      button.textContent = text ? `${this.words[at].text} → ${text}` : this.words[at].text;
      button.classList.toggle("other", text !== undefined);
      // One word stays: without any there is nothing to read.
      button.disabled = words.length === this.buttons.length - 1 && !words.includes(at);
    });
    this.part(".undo").disabled = this.undone.length === 0;
    this.part(".reset").disabled = isSame(this.trial, NOTHING);
    this.part(".beside").disabled = isSame(this.trial, NOTHING);
    if (this.tried.length === 0) {
      this.part(".history").hidden = true;
      this.part(".outcome").textContent = "";
    }
    this.#nameHeads();
  }

  #nameHeads() {
    const hasHead = this.head !== null;
    for (const name of [".off-head", ".off-layer"]) this.part(name).hidden = !hasHead;
    if (!hasHead) return;
    const { layer, head } = this.head;
    const isOff = (place) => this.trial.heads.some((each) => isSame(each, place));
    const name = (place, text) => `Switch ${isOff(place) ? "on" : "off"} ${text}`;
    this.part(".off-head").textContent = name(this.head, `layer ${layer}, head ${head}`);
    this.part(".off-layer").textContent = name({ layer }, `all heads of layer ${layer}`);
  }
}

const capital = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

function wordsOf(tokens, characters) {
  const words = [];
  let last = null;
  tokens.forEach(({ start, end, special, word }, at) => {
    if (special) return;
    if (word !== last) words.push({ tokens: [], start, end });
    last = word;
    const current = words.at(-1);
    current.tokens.push(at);
    current.end = Math.max(current.end, end);
  });
  return words.map(({ tokens: numbers, start, end }) => ({
    tokens: numbers,
    start,
    text: characters.slice(start, end).join(""),
  }));
}
