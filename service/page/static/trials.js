/**
 * Shows "Would it still hold?": leaves parts of a text out, replaces them and switches heads off, and
 * shows how the probability moves. What was tried stays only in this tab.
 */

import { post, requireModel } from "./api.js";
import { find, make, moveFocus, options, rove } from "./elements.js";
import { isSame } from "./question.js";
import { percent, quoted } from "./words.js";

const MOST_TRIED = 20;
const NAMED = 60; // characters of a part in the name of a trial
const NOTHING = Object.freeze({
  edits: Object.freeze([]), // [start, end, text in its place], in code points and in order
  heads: Object.freeze([]), // that are switched off
});

/** The words of a text, with their places in code points. */
export function wordsOf(text) {
  let end = 0;
  return text.split(/(\s+)/u).flatMap((part, at) => {
    const start = end;
    end += [...part].length;
    return at % 2 === 1 || part === "" ? [] : [{ start, end, text: part }];
  });
}

export function edited(text, edits) {
  const characters = [...text];
  let from = 0;
  const parts = edits.flatMap(([start, end, by]) => {
    const kept = characters.slice(from, start).join("");
    from = end;
    return [kept, by];
  });
  return [...parts, characters.slice(from).join("")].join("");
}

/** A part of a text, quoted; a long one is shortened. */
export function named(text) {
  const characters = [...text];
  const isLong = characters.length > NAMED;
  return quoted({ text: isLong ? `${characters.slice(0, NAMED).join("")}…` : text });
}

const capital = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;

export class Trials {
  /**
   * `events` are `announce(text)`, `onProblem(problem, retry, place)`, `onTrial()`, and where there is
   * a place for it `onCompare(changes)`, `onTried(prediction)` and `onHeads(heads that are off)`; `fields` go into every request.
   */
  constructor(element, events, fields = {}) {
    this.element = element;
    this.events = events;
    this.fields = fields;
    this.key = this.model = this.prediction = this.head = null;
    this.text = "";
    this.units = [];
    this.buttons = [];
    this.controller = new AbortController();
    this.part = (name) => find(element, name);
    this.#forget();
    this.#listen();
  }

  #listen() {
    const on = (name, kind, act) => this.part(name)?.addEventListener(kind, act);
    on(".leave", "keydown", (event) => moveFocus(event, this.buttons));
    on(".leave", "click", ({ target }) => {
      const unit = this.units[this.buttons.indexOf(target)];
      if (unit) this.#put(unit, "");
    });
    on(".leave", "focusin", ({ target }) => rove(this.buttons, this.buttons.indexOf(target)));
    on(".replace", "submit", (event) => {
      event.preventDefault();
      const by = this.part(".by").value.trim();
      const unit = this.units[Number(this.part(".which").value)];
      if (by !== "" && unit) this.#put(unit, by);
    });
    on(".off-head", "click", () => this.#switch(this.head));
    on(".off-layer", "click", () => this.#switch({ layer: this.head.layer }));
    on(".undo", "click", () => {
      this.#goTo(this.undone.at(-1), this.undone.slice(0, -1));
      this.events.onTrial();
    });
    on(".reset", "click", () => this.#change(NOTHING));
    on(".beside", "click", () => {
      const name = capital(this.#name(this.trial));
      this.events.onCompare({ ...this.#question(this.trial), name });
    });
    on(".tried", "click", ({ target }) => {
      const at = this.entries.indexOf(target);
      if (at >= 0) this.#change(this.tried[at].trial);
    });
  }

  /** Sets the text and the answer to it; another text begins again. */
  about(text, model, prediction) {
    const key = JSON.stringify([text, model.name, model.version, Object.keys(prediction.probabilities)]);
    if (key === this.key) return;
    this.controller.abort();
    Object.assign(this, { key, text, model, prediction });
    this.#forget();
    this.offer(wordsOf(text));
  }

  /** Offers parts of the text to leave out, in its order. */
  offer(units) {
    const characters = [...this.text];
    this.units = units;
    let from = 0;
    this.buttons = units.map(({ text }) => make("button", { type: "button" }, text));
    const nodes = units.flatMap(({ start, end }, at) => {
      const gap = characters.slice(from, start).join("");
      from = end;
      return [gap, this.buttons[at]];
    });
    rove(this.buttons, 0);
    this.part(".leave").replaceChildren(...nodes, characters.slice(from).join(""));
    this.part(".which").replaceChildren(...options(units.map(({ text }) => text)));
    this.#draw();
  }

  /** Sets the head that can be switched off; null if the view has joined heads or layers. */
  choose(head) {
    this.head = head;
    this.#nameHeads();
  }

  /** Tries what was tried before, in another visit to the same text. */
  restore(kept) {
    const trial = kept?.edits ? kept : NOTHING;
    if (!this.element.hidden && !isSame(trial, this.trial)) this.#goTo(trial, []);
  }

  #forget() {
    this.trial = NOTHING;
    this.undone = [];
    this.tried = [];
    this.entries = [];
    this.events.onTried?.(null);
  }

  /** Puts a text in the place of a part; nothing leaves it out, or brings it back. */
  #put(unit, by) {
    const { start, end } = unit;
    this.part(".which").value = String(this.units.indexOf(unit));
    const others = this.trial.edits.filter(([from, to]) => to <= start || from >= end);
    const isBack = by === "" && this.trial.edits.some((edit) => isSame(edit, [start, end, ""]));
    const edits = isBack ? others : [...others, [start, end, by]];
    this.#change({ edits: edits.sort(([one], [other]) => one - other) });
  }

  #switch(place) {
    const others = this.trial.heads.filter((each) => !isSame(each, place));
    const isOff = others.length < this.trial.heads.length;
    this.#change({ heads: isOff ? others : [...others, place] });
  }

  /** Tries something else, and keeps what was tried before it for Undo. */
  #change(fields) {
    this.#goTo({ ...this.trial, ...fields }, [...this.undone, this.trial]);
    this.events.onTrial();
  }

  async #goTo(trial, undone) {
    this.controller.abort();
    this.controller = new AbortController();
    const { signal } = this.controller;
    const before = { trial: this.trial, undone: this.undone };
    Object.assign(this, { trial, undone });
    this.#draw();
    if (isSame(trial, NOTHING)) {
      this.#report("");
      this.events.onTried?.(null);
      return;
    }
    try {
      const { sentence, fields } = this.#question(trial);
      const answer = await post("/predict", { sentences: [sentence], ...fields }, signal);
      requireModel(answer, this.model);
      this.#keep(trial, answer.predictions[0]);
    } catch (problem) {
      if (signal.aborted) return;
      Object.assign(this, before);
      this.#draw();
      this.events.onProblem(problem, () => this.#goTo(trial, undone), this.part(".outcome"));
    }
  }

  /** The text of a trial, and the fields of a request that say how it is read. */
  #question({ edits, heads }) {
    const more = heads.length > 0 ? { head_mask: heads } : {};
    return { sentence: edited(this.text, edits), fields: { ...this.fields, ...more } };
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
    this.events.onTried?.(prediction);
  }

  #name({ edits, heads }) {
    const characters = [...this.text];
    const was = ([start, end]) => named(characters.slice(start, end).join(""));
    const others = edits.filter(([, , by]) => by).map((edit) => `${named(edit[2])} for ${was(edit)}`);
    const left = edits.filter(([, , by]) => !by).map(was);
    const off = heads.map(({ layer, head }) =>
      head === undefined ? `all heads of layer ${layer}` : `layer ${layer}, head ${head}`,
    );
    return [
      others.join(", "),
      left.length > 0 && `without ${left.join(", ")}`,
      off.length > 0 && `off: ${off.join("; ")}`,
    ]
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
    const by = new Map(this.trial.edits.map(([start, end, text]) => [`${start} ${end}`, text]));
    const texts = this.units.map(({ start, end }) => by.get(`${start} ${end}`));
    const left = texts.filter((text) => text === "").length;
    this.buttons.forEach((button, at) => {
      const [text, was] = [texts[at], this.units[at].text];
      button.setAttribute("aria-pressed", text === "");
      button.textContent = text ? `${was} → ${text}` : was;
      button.classList.toggle("other", Boolean(text));
      // One part stays: without any there is nothing to read.
      button.disabled = left === this.buttons.length - 1 && text !== "";
    });
    this.events.onHeads?.(this.trial.heads);
    const isAsItWas = isSame(this.trial, NOTHING);
    this.part(".undo").disabled = this.undone.length === 0;
    for (const name of [".reset", ".beside"]) {
      const button = this.part(name);
      if (button) button.disabled = isAsItWas;
    }
    if (this.tried.length === 0) {
      this.part(".history").hidden = true;
      this.part(".outcome").textContent = "";
    }
    this.#nameHeads();
  }

  #nameHeads() {
    const [one, all] = [".off-head", ".off-layer"].map(this.part);
    if (!one) return;
    one.hidden = all.hidden = this.head === null;
    if (this.head === null) return;
    const { layer, head } = this.head;
    const isOff = (place) => this.trial.heads.some((each) => isSame(each, place));
    const name = (place, text) => `Switch ${isOff(place) ? "on" : "off"} ${text}`;
    one.textContent = name(this.head, `layer ${layer}, head ${head}`);
    all.textContent = name({ layer }, `all heads of layer ${layer}`);
  }
}
