/**
 * Shows one sentence: its prediction, its grid of heads, and the chosen head in full. It draws what
 * it is given, and reports what the user chooses or points at.
 */

import { byId, find } from "./elements.js";
import { Grid } from "./grid.js";
import { Overlay, Picture } from "./picture.js";
import { html, render } from "./preact.js";
import { Prediction } from "./prediction.js";
import { save } from "./save.js";
import { Steps } from "./steps.js";
import { Lists, spoken, Strip, Table } from "./tokens.js";
import { Trials } from "./trials.js";
import { isNothing, NOTHING, reader } from "./weights.js";
import { full, gives, hintOf, pattern, patternText, placeName } from "./words.js";

const NOTES = {
  heads: "Layers go down, heads go right, from 0. ",
  one: "Darkest is a map's largest weight, or six even shares.",
  two: "The same map of both texts has one scale, of six even shares or more.",
};
const HINT = hintOf("a token");

export class Panel {
  /**
   * `events` are the page's answers to what happens here: `onChoose(row, column)`, `onPoint(chosen,
   * stays)`, `onRead(fields of the view)`, `onProblem(problem, retry, place)`,
   * `onCompare(changes)`, `onTrial()`, `announce(text)`.
   */
  constructor(events) {
    this.events = events;
    this.element = byId("panel").content.firstElementChild.cloneNode(true);
    this.part = (name) => find(this.element, name);
    this.prediction = new Prediction(this.part(".prediction"), events.onRead);
    const onHeads = (heads) => this.grid.switchOff(heads);
    this.trials = new Trials(this.part(".trials"), { ...events, onHeads });
    this.grid = new Grid(this.part(".grid"), events.onChoose);
    this.strip = new Strip(this.part(".strip"), (position, stays) => {
      events.onPoint({ query: position, key: position }, stays);
    });
    this.picture = new Picture(this.part(".pictures"), events.onPoint);
    this.overlay = new Overlay(this.part(".overlay"), events);
    this.steps = new Steps(this.part(".how-made"), this.part(".made"), events);
    this.pinned = NOTHING;
    this.saving = new AbortController();
    this.question = this.weights = this.view = this.palette = null;
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") events.onPoint(NOTHING, true);
    });
    this.part(".table").addEventListener("toggle", () => this.#fillTable());
    this.part(".close").addEventListener("click", () => events.onCompare(null));
    this.#offerFiles();
  }

  /** Draws an answer; `scaleOf(row, column)` is the end of the scale of a small map. */
  show(title, question, weights, view, palette, changed, scaleOf) {
    const texts = ({ tokens }) => tokens.map((token) => token.text).join("\n");
    if (!this.weights || texts(weights) !== texts(this.weights)) this.pinned = NOTHING;
    this.isOneOfTwo = title !== "Prediction";
    this.question = question;
    this.weights = weights;
    this.view = view;
    this.palette = palette;
    this.shown = weights.shown(view.special);
    const isHidden = (position) => position !== null && !this.shown.includes(position);
    if (isHidden(this.pinned.query) || isHidden(this.pinned.key)) this.pinned = NOTHING;
    this.part(".panel-title").textContent = title;
    this.part(".panel-title").classList.toggle("unseen", !this.isOneOfTwo);
    this.part(".scroll").setAttribute("aria-label", `${title}: table of weights`);
    this.part(".close").hidden = question.changes === null;
    this.prediction.show(weights.document);
    this.#offerTrials();
    this.#nameGrid();
    this.grid.show(weights, this.shown, view, palette, scaleOf);
    this.changed = changed;
  }

  /** Shows one place of the grid large, on a scale that ends at `largest`. */
  choose(place, largest, view, drawn) {
    const { weights, shown } = this;
    this.view = view;
    this.name = placeName(weights, place.row, place.column, view.reduce);
    this.head = { weights, ...place, name: this.name, shown, largest, drawn };
    const words = patternText(pattern(weights, place.row, place.column, shown), view.level);
    this.grid.choose(place);
    const isOne = !weights.oneRow && !weights.oneColumn;
    const head = { layer: weights.layers[place.row], head: weights.heads[place.column] };
    this.trials.choose(isOne ? head : null);
    this.part(".place").textContent = this.name;
    this.part(".pattern").textContent = words;
    this.picture.chosen = this.pinned;
    this.overlay.show(weights, view, place, drawn, this.palette);
    const isSeveral = view.picture === "several";
    const picture = isSeveral && weights.oneColumn ? "lines" : view.picture;
    const heads = drawn.map(({ column }) => weights.heads[column]).join(", ");
    this.picture.show(this.head, picture, this.palette, {
      lines: `${this.name} as lines. ${words}`,
      several: `Layer ${weights.layers[place.row]}, heads ${heads}, as lines in several colours.`,
      map: `${this.name} as a heat map. ${words}`,
      region: this.part(".panel-title").textContent,
    });
    this.#show(this.pinned);
    this.#fillTable();
    this.steps.choose(this.question, this.head, isOne, this.pinned, this.palette);
  }

  /** Shows what belongs to a token; a choice that stays comes back when the pointer leaves. */
  point(chosen, stays) {
    if (stays) {
      this.pinned = chosen;
      this.steps.pin(chosen);
    }
    const now = isNothing(chosen) ? this.pinned : chosen;
    this.picture.point(now);
    this.#show(now);
  }

  spoken(position) {
    return spoken(this.head, position);
  }

  #offerTrials() {
    const { changes, windows, sentence, model } = this.question;
    const { prediction } = this.weights.document;
    // What is behind the end that the model reads, or in another window, would seem to change nothing.
    this.part(".trials").hidden = windows > 1 || changes !== null || prediction.truncated;
    if (changes === null) this.trials.about(sentence, model, prediction);
  }

  #nameGrid() {
    const { weights, view } = this;
    const count = weights.rows * weights.columns;
    const title = count === 1 ? "One map" : `${count} maps`;
    this.part(".overview-title").textContent = view.reduce === "none" ? `${count} heads` : title;
    this.part(".overview-note").textContent =
      (view.reduce === "none" ? NOTES.heads : "") + (this.isOneOfTwo ? NOTES.two : NOTES.one);
    const unit = view.level === "word" ? "Words" : "Tokens";
    this.part(".strip").setAttribute("aria-label", `${unit}; arrow keys go from one to the next`);
  }

  #show(chosen) {
    const { head, palette } = this;
    const { query, key } = chosen;
    this.strip.show(head, this.changed, chosen, palette);
    render(html`<${Lists} head=${head} chosen=${chosen} palette=${palette} />`, this.part(".lists"));
    const readout = this.part(".readout");
    readout.textContent = isNothing(chosen) ? HINT : "";
    readout.title = "";
    if (query === null || key === null) return;
    const weight = reader(head)(query, key);
    readout.textContent = gives(head.weights.tokens, query, key, weight);
    readout.title = full(weight);
  }

  #fillTable() {
    const isOpen = this.head && this.part(".table").open;
    const table = isOpen ? html`<${Table} head=${this.head} caption=${this.name} />` : null;
    render(table, this.part(".scroll"));
  }

  /** Shows what can be saved, and how much of a file is there while one is made. */
  #offerFiles(share = 1) {
    const button = (format) => html`<button type="button" value=${format}
      onClick=${() => this.#save(format, this.part(".scope").value)}>${format.toUpperCase()}</button>`;
    const part = html`
      <label>Save <select class="scope">
        <option value="one">this map</option><option value="all">all maps of the grid</option></select> as</label>
      ${["svg", "png", "json", "csv", "npz"].map(button)}
      ${share < 1 && html`<span class="saving">
        <progress aria-label="Share of the file that is there" value=${share} /> <button type="button"
          class="quiet stop" onClick=${() => this.saving.abort()}>Stop</button></span>`}`;
    render(part, this.part(".save"));
  }

  async #save(format, scope) {
    this.saving.abort();
    this.saving = new AbortController();
    const { signal } = this.saving;
    this.events.announce("Saving …");
    try {
      const name = await save(format, scope, this, signal, (share) => this.#offerFiles(share));
      this.events.announce(`Saved as ${name}.`);
    } catch (problem) {
      if (!signal.aborted) this.events.onProblem(problem, () => this.#save(format, scope), this.part(".save"));
      else if (signal === this.saving.signal) this.events.announce("Nothing was saved.");
    } finally {
      if (signal === this.saving.signal) this.#offerFiles();
    }
  }
}
