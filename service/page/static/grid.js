/**
 * Draws the grid: a small map for every layer and head, each a button. Arrow keys go from map to
 * map, and the map with the focus is the chosen one.
 */

import { drawSmall } from "./drawing.js";
import { range } from "./elements.js";
import { html, render } from "./preact.js";
import { full, pattern, patternText, placeName } from "./words.js";

const STEPS = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
};

const sum = ([down, right]) => down + right;

export class Grid {
  constructor(element, onChoose) {
    this.element = element;
    this.onChoose = onChoose;
    this.place = { row: 0, column: 0 };
    this.off = [];
    element.addEventListener("keydown", (event) => this.#move(event));
  }

  show(weights, shown, view, palette, scaleOf) {
    this.weights = weights;
    this.reduce = view.reduce;
    this.titles = weights.places().map(({ row, column }) => {
      const words = patternText(pattern(weights, row, column, shown), view.level);
      return `${placeName(weights, row, column, view.reduce)}. ${words}`;
    });
    this.mark(null);
    this.buttons.forEach((button, at) => {
      const [row, column] = [Math.floor(at / weights.columns), at % weights.columns];
      drawSmall(button.firstChild, weights.cells(row, column, shown), scaleOf(row, column), palette);
    });
  }

  choose(place) {
    this.place = place;
    this.#draw();
  }

  /** Marks each map by how much its head matters for the prediction. */
  mark(importance, largest = 0) {
    this.importance = importance;
    this.largest = largest;
    this.#draw();
  }

  /** Shows which heads are switched off: {layer, head}, or {layer} for all of one. */
  switchOff(heads) {
    this.off = heads;
    if (this.weights) this.#draw();
  }

  get buttons() {
    return [...this.element.querySelectorAll("button")];
  }

  #draw() {
    const { layers, heads, oneRow, oneColumn, columns } = this.weights;
    const header = (role, unit, name) => html`
      <span class=${role} role=${role}><span class="aside">${unit}</span>${name}</span>`;
    const cell = (row, column) => {
      const value = this.importance?.[row][column] ?? null;
      const share = value === null || this.largest === 0 ? 0 : Math.max(value, 0) / this.largest;
      const figure = value === null ? "" : ` Importance ${full(value)}.`;
      const isOff = !oneColumn && this.off.some(({ layer, head = heads[column] }) =>
        layer === layers[row] && head === heads[column]);
      const title = this.titles[row * columns + column] + figure + (isOff ? " Switched off." : "");
      const isChosen = row === this.place.row && column === this.place.column;
      return html`<div class="cell" role="gridcell">
        <button type="button" class=${isOff ? "off" : ""} title=${title} aria-label=${title} aria-pressed=${isChosen}
          tabindex=${isChosen ? 0 : -1} onClick=${() => this.onChoose(row, column)}>
          <canvas aria-hidden="true" /><span class="mark" style=${{ width: `${(100 * share).toFixed(1)}%` }} />
        </button></div>`;
    };
    const rows = html`
      <div class="top" role="row">
        <span class="corner" role="columnheader"><span class="aside">Layer</span></span>
        ${(oneColumn ? [this.reduce] : heads).map((name) => header("columnheader", "Head ", name))}
      </div>
      ${(oneRow ? ["all"] : layers).map((name, row) => html`<div class="row" role="row">
        ${header("rowheader", "Layer ", name)}${range(columns).map((column) => cell(row, column))}</div>`)}`;
    render(rows, this.element);
    this.element.style.setProperty("--columns", columns);
    this.element.classList.toggle("single", columns === 1);
    this.element.classList.toggle("marked", this.importance !== null);
  }

  #move(event) {
    const { rows, columns } = this.weights;
    const current = this.buttons.indexOf(event.target);
    if (current < 0 || event.altKey || event.metaKey) return;
    let row = Math.floor(current / columns);
    let column = current % columns;
    if (event.key in STEPS && !event.ctrlKey) {
      // With one map a layer the grid is a line: both pairs of arrows go along it.
      const [down, right] = columns > 1 ? STEPS[event.key] : [sum(STEPS[event.key]), 0];
      row = Math.min(Math.max(row + down, 0), rows - 1);
      column = Math.min(Math.max(column + right, 0), columns - 1);
    } else if (event.key === "Home" || event.key === "End") {
      column = event.key === "Home" ? 0 : columns - 1;
      if (event.ctrlKey) row = event.key === "Home" ? 0 : rows - 1;
    } else return;
    event.preventDefault();
    this.buttons[row * columns + column].focus();
    this.onChoose(row, column);
  }
}
