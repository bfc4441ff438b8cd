/**
 * Shows one sentence: its prediction, its grid of heads, and the chosen head in full. It draws what
 * it is given, and tells the page what the user chooses or points at.
 */

import { Attributions } from "./attributions.js";
import { byId } from "./elements.js";
import { Grid } from "./grid.js";
import { fillLists, spoken } from "./lists.js";
import { Picture } from "./picture.js";
import { Prediction } from "./prediction.js";
import { save } from "./save.js";
import { Sentences } from "./sentences.js";
import { fillTable } from "./table.js";
import { Strip } from "./tokens.js";
import { full, pattern, patternText, placeName, quoted, short } from "./words.js";

const NOTHING = { query: null, key: null };
const NOTES = {
  heads:
    "Layers from top to bottom, heads from left to right, counted from 0. Each square is a small heat map on a scale of its own. Choose one.",
  views: "Each square is a small heat map on a scale of its own.",
};
const HINT = "Point at a token, or go there with Tab and the arrow keys.";

export class Panel {
  /**
   * @param {object} told what the page wants to hear:
   *   `onChoose(row, column)`, `onPoint(chosen, stays)`, `onRead(fields)`,
   *   `onProblem(problem, retry)`, `announce(text)`
   */
  constructor(told) {
    this.told = told;
    this.element = byId("panel").content.firstElementChild.cloneNode(true);
    this.part = (name) => this.element.querySelector(name);
    this.prediction = new Prediction(this.part(".prediction"), told.onRead);
    this.sentences = new Sentences(this.part(".sentences"), told.announce);
    this.grid = new Grid(this.part(".grid"), told.onChoose);
    this.strip = new Strip(this.part(".strip"), (position, stays) => {
      told.onPoint({ query: position, key: position }, stays);
    });
    this.picture = new Picture(this.part(".pictures"), told.onPoint);
    this.attributions = new Attributions(this.part(".attributions"), told.onProblem);
    this.pinned = NOTHING;
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") told.onPoint(NOTHING, true);
    });
    this.part(".table").addEventListener("toggle", () => this.#fillTable());
    this.part(".save").addEventListener("click", ({ target }) => {
      if (target.matches("button")) this.#save(target.value, this.part(".scope").value);
    });
  }

  /**
   * Draws an answer.
   * @param {object} question as it was asked, with the sentence
   * @param {Set<number>} changed positions whose token differs in the other sentence
   */
  show(title, question, weights, view, palette, changed) {
    const texts = ({ tokens }) => tokens.map((token) => token.text).join("\n");
    if (!this.weights || texts(weights) !== texts(this.weights)) this.pinned = NOTHING;
    Object.assign(this, { question, weights, view, palette });
    this.shown = weights.shown(view.special);
    const isHidden = (position) => position !== null && !this.shown.includes(position);
    if (isHidden(this.pinned.query) || isHidden(this.pinned.key)) this.pinned = NOTHING;
    this.part(".panel-title").textContent = title;
    this.part(".scroll").setAttribute("aria-label", `${title}: table of weights`);
    this.prediction.show(weights.document, view.abstain);
    this.sentences.show(title, question.sentence, weights.document, view, palette);
    this.#nameGrid();
    this.grid.show(weights, this.shown, view, palette);
    this.strip.show(weights.tokens, this.shown, changed);
    this.attributions.about(question, palette);
  }

  /** Shows one place of the grid large, on a scale that ends at `largest`. */
  choose(place, largest, view) {
    const { weights, shown } = this;
    this.view = view;
    this.head = { weights, ...place, shown, largest };
    this.name = placeName(weights, place.row, place.column, view.reduce);
    const words = patternText(pattern(weights, place.row, place.column, shown), view.level);
    this.grid.choose(place);
    this.part(".place").textContent = this.name;
    this.part(".pattern").textContent = words;
    this.picture.chosen = this.pinned;
    this.picture.show(this.head, view.picture, this.palette, {
      lines: `${this.name} as lines. ${words}`,
      map: `${this.name} as a heat map. ${words}`,
      region: `${this.part(".panel-title").textContent}: heat map`,
    });
    this.#tell(this.pinned);
    this.#fillTable();
  }

  /** Shows what belongs to a token; a choice that stays comes back when the pointer leaves. */
  point(chosen, stays) {
    if (stays) this.pinned = chosen;
    const now = chosen.query === null && chosen.key === null ? this.pinned : chosen;
    this.picture.point(now);
    this.#tell(now);
  }

  /** What a screen reader says when a token is chosen with the keys. */
  spoken(position) {
    return spoken(this.head, position);
  }

  #nameGrid() {
    const { weights, view } = this;
    const count = weights.rows * weights.columns;
    const title = count === 1 ? "One map" : `${count} maps`;
    this.part(".overview-title").textContent = view.reduce === "none" ? `${count} heads` : title;
    this.part(".overview-note").textContent =
      view.reduce === "none" ? NOTES.heads : NOTES.views;
    this.part(".grid").setAttribute("aria-label", "Layers and heads; arrow keys go from map to map");
    const unit = view.level === "word" ? "Words" : "Tokens";
    this.part(".strip").setAttribute("aria-label", `${unit}; arrow keys go from one to the next`);
  }

  #tell(chosen) {
    const { head, palette } = this;
    const { query, key } = chosen;
    this.strip.colour(head, chosen, palette);
    fillLists(this.part(".lists"), head, chosen, palette);
    const readout = this.part(".readout");
    readout.textContent = query === null && key === null ? HINT : "";
    readout.title = "";
    if (query === null || key === null) return;
    const { tokens, size } = head.weights;
    const weight = head.weights.map(head.row, head.column)[query * size + key];
    const to = query === key ? "itself" : quoted(tokens[key]);
    readout.textContent = `${quoted(tokens[query])} gives ${to} ${short(weight)}`;
    readout.title = full(weight);
  }

  #fillTable() {
    if (this.head) fillTable(this.part(".table"), this.head, this.name);
  }

  async #save(format, scope) {
    try {
      const name = await save(format, scope, this);
      this.told.announce(`Saved as ${name}.`);
    } catch (problem) {
      this.told.onProblem(problem, () => this.#save(format, scope));
    }
  }
}
