/**
 * Shows the prediction of a text: label, probability of every class, how much of it was read; and
 * the same sentence by sentence, as coloured text and as a row of buttons.
 */

import { paintClass } from "./canvas.js";
import { figure, find, make, moveFocus, options, range, rove } from "./elements.js";
import { hintOf, percent, verdictOf } from "./words.js";

export class Prediction {
  /** `onRead` gets the fields of the view that say how a text is read. */
  constructor(element, onRead) {
    this.part = (name) => find(element, name);
    this.part(".whole").addEventListener("click", () => onRead({ whole: true, window: 0 }));
    this.part("select").addEventListener("change", ({ target }) => {
      onRead({ window: Number(target.value) });
    });
  }

  show({ prediction, windows, window }, below) {
    const { text, isAnswer } = verdictOf(prediction, below);
    this.part(".label").textContent = text;
    const score = this.part(".score");
    score.textContent = isAnswer ? percent(prediction.score) : "";
    score.title = String(prediction.score);
    this.part("dl").replaceChildren(...rows(prediction.probabilities));
    this.part(".cut").hidden = !prediction.truncated;
    this.part(".cut").textContent =
      `The text is longer than the model reads: its end was cut off after ${prediction.token_count} tokens.`;
    this.#showWindows(windows, window, prediction);
  }

  #showWindows(windows, window, { truncated }) {
    const isFocused = document.activeElement === this.part(".whole");
    const isSeveral = windows > 1;
    this.part(".offer").hidden = !truncated;
    this.part(".windows").hidden = !isSeveral;
    if (!isSeveral) return;
    this.part(".windows-note").textContent =
      `The whole text was read in ${windows} overlapping windows. The heads are those of one window, counted from 0.`;
    const select = this.part("select");
    select.replaceChildren(...options(range(windows)));
    select.value = String(window);
    if (isFocused) select.focus();
  }
}

function rows(probabilities) {
  return Object.entries(probabilities).flatMap(([label, probability]) => {
    const bar = make("span", { className: "bar", ariaHidden: "true" });
    bar.style.width = `${(100 * probability).toFixed(1)}%`;
    const track = make("dd", { className: "track", ariaHidden: "true" }, bar);
    const title = String(probability);
    const number = make("dd", { className: "figure", title }, percent(probability));
    return [make("dt", {}, label), track, number];
  });
}

const HINT = hintOf("a sentence or a verdict");
const STRENGTH = "The stronger the colour, the higher the probability.";

export class Sentences {
  constructor(element, announce) {
    this.element = element;
    this.announce = announce;
    this.part = (name) => find(element, name);
    this.spans = [];
    this.buttons = [];
    this.pinned = null;
    for (const name of [".passage", ".verdicts"]) {
      const part = this.part(name);
      part.addEventListener("pointerover", ({ target }) => this.#point(this.#numberOf(target)));
      part.addEventListener("pointerleave", () => this.#point(null));
      part.addEventListener("click", ({ target }) => this.#pin(this.#numberOf(target)));
    }
    const verdicts = this.part(".verdicts");
    verdicts.addEventListener("keydown", (event) => moveFocus(event, this.buttons));
    verdicts.addEventListener("focusin", ({ target }) => {
      if (!target.matches(":focus-visible")) return; // a click follows, and is handled there
      this.#pin(this.#numberOf(target));
      this.spans[this.pinned]?.scrollIntoView({ block: "nearest" });
    });
    element.addEventListener("keydown", ({ key }) => {
      if (key === "Escape") this.#pin(null);
    });
  }

  /** Shows a text, if it has several sentences; their offsets count code points. */
  show(title, text, document, view, palette) {
    const { sentences, refused, prediction } = document;
    const isShown = view.sentences && (sentences.length > 1 || refused !== "");
    this.element.hidden = !isShown;
    if (!isShown) {
      this.key = null;
      return;
    }
    const key = JSON.stringify([text, sentences.length]);
    if (key !== this.key) this.pinned = null;
    this.key = key;
    this.below = view.abstain;
    this.sentences = sentences;
    this.palette = palette;
    this.labels = Object.keys(prediction.probabilities);
    const focused = this.buttons.indexOf(globalThis.document.activeElement);
    this.#fillPassage(text);
    this.#fillVerdicts();
    if (focused >= 0) this.buttons[Math.min(focused, this.buttons.length - 1)]?.focus();
    this.part(".passage").setAttribute("aria-label", `${title}: the text by sentence`);
    const name = `${title}: verdict on each sentence; arrow keys go from one to the next`;
    this.part(".verdicts").setAttribute("aria-label", name);
    this.#explain(refused);
    this.#point(null);
  }

  #fillPassage(text) {
    const points = Array.from(text); // code points: an emoji is one
    const nodes = [];
    let at = 0;
    this.spans = this.sentences.map((sentence, number) => {
      const { start, end } = sentence;
      if (start > at) nodes.push(points.slice(at, start).join(""));
      at = end;
      const words = points.slice(start, end).join("");
      const span = make("span", { className: "sentence", textContent: words });
      span.dataset.number = String(number + 1);
      span.title = this.#describe(number);
      this.#colour(span, sentence);
      nodes.push(span);
      return span;
    });
    nodes.push(points.slice(at).join(""));
    this.part(".passage").replaceChildren(...nodes);
  }

  #fillVerdicts() {
    this.buttons = this.sentences.map((sentence, number) => {
      const label = make("span", { className: "name", textContent: this.#verdict(sentence) });
      const score = figure(percent(sentence.score), String(sentence.score));
      this.#colour(label, sentence);
      return make("button", { type: "button" }, `${number + 1} `, label, " ", score);
    });
    rove(this.buttons, this.pinned ?? 0);
    this.part(".verdicts").replaceChildren(...this.buttons);
  }

  #explain(refused) {
    const keys = this.labels.map((label) => {
      const key = make("span", { className: "key", textContent: label });
      paintClass(key, label, this.labels, null, this.palette);
      return key;
    });
    const isRefused = refused !== "";
    const said = isRefused ? [`The sentences are not shown: ${refused}.`] : [...keys, STRENGTH];
    this.part(".legend").replaceChildren(...said.flatMap((one) => [one, " "]));
    for (const name of [".passage", ".verdicts", ".said"]) this.part(name).hidden = isRefused;
  }

  /** The verdict on a sentence, short: the threshold stands above. */
  #verdict(sentence) {
    const { text, isAnswer } = verdictOf(sentence, this.below);
    return isAnswer ? text : "no answer";
  }

  #colour(element, sentence) {
    if (!verdictOf(sentence, this.below).isAnswer) return;
    paintClass(element, sentence.label, this.labels, sentence.score, this.palette);
  }

  /** All that is known of a sentence, in words. */
  #describe(number) {
    const sentence = this.sentences[number];
    const all = Object.entries(sentence.probabilities).sort(([, a], [, b]) => b - a);
    const shares = all.map(([label, share]) => `${label} ${percent(share)}`).join(", ");
    const { text, isAnswer } = verdictOf(sentence, this.below);
    const cut = sentence.truncated ? "; its end was cut off" : "";
    return `Sentence ${number + 1}: ${isAnswer ? "" : `${text}; `}${shares}${cut}`;
  }

  #numberOf(target) {
    const span = this.spans.indexOf(target);
    const number = span < 0 ? this.buttons.indexOf(target.closest("button")) : span;
    return number < 0 ? null : number;
  }

  #pin(number) {
    this.pinned = number;
    if (number !== null) {
      rove(this.buttons, number);
      this.announce(this.#describe(number));
    }
    this.#point(number);
  }

  /** Shows what belongs to a sentence; the chosen one comes back when the pointer leaves. */
  #point(number) {
    const now = number ?? this.pinned;
    this.spans.forEach((span, at) => span.classList.toggle("pointed", at === now));
    this.buttons.forEach((button, at) => button.setAttribute("aria-pressed", at === this.pinned));
    this.part(".said").textContent = now === null ? HINT : this.#describe(now);
  }
}
