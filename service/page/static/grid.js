/**
 * Draws the grid: a small map for every layer and head, each a button. Arrow keys go from map to
 * map, and the map with the focus is the chosen one.
 */

import { drawSmall } from "./drawing.js";
import { make, rove } from "./elements.js";
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
    this.buttons = [];
    this.shape = "";
    element.addEventListener("keydown", (event) => this.#move(event));
  }

  show(weights, shown, view, palette, scaleOf) {
    this.#build(weights, view.reduce);
    this.names = this.buttons.map((button, at) => {
      const [row, column] = [Math.floor(at / weights.columns), at % weights.columns];
      const cells = weights.cells(row, column, shown);
      drawSmall(button.firstChild, cells, scaleOf(row, column), palette);
      const words = patternText(pattern(weights, row, column, shown), view.level);
      return [placeName(weights, row, column, view.reduce), words];
    });
    this.mark(null);
  }

  choose({ row, column }) {
    const current = row * this.columns + column;
    rove(this.buttons, current);
    this.buttons.forEach((button, at) => {
      button.setAttribute("aria-pressed", at === current);
    });
  }

  /** Marks each map by how much its head matters for the prediction. */
  mark(importance, largest = 0) {
    this.element.classList.toggle("marked", importance !== null);
    this.buttons.forEach((button, at) => {
      const [name, words] = this.names[at];
      const value = importance?.[Math.floor(at / this.columns)][at % this.columns] ?? null;
      const figure = value === null ? "" : ` Importance ${full(value)}.`;
      button.title = `${name}. ${words}${figure}`;
      button.setAttribute("aria-label", button.title);
      const share = value === null || largest === 0 ? 0 : Math.max(value, 0) / largest;
      button.lastChild.style.width = `${(100 * share).toFixed(1)}%`;
    });
  }

  /** Makes the buttons; they and the focus stay as long as the layers and heads are the same. */
  #build(weights, reduce) {
    const shape = JSON.stringify([weights.layers, weights.heads, reduce]);
    if (shape === this.shape) return;
    this.shape = shape;
    this.rows = weights.rows;
    this.columns = weights.columns;
    this.buttons = [];
    const { layers, heads, oneRow, oneColumn } = weights;
    const corner = make("span", { className: "corner", role: "columnheader" });
    corner.append(make("span", { className: "aside", textContent: "Layer" }));
    const header = this.#line("top");
    const columnNames = oneColumn ? [reduce] : heads.map(String);
    header.append(corner, ...columnNames.map((name) => this.#header(name, "columnheader", "Head ")));
    const rowNames = oneRow ? ["all"] : layers.map(String);
    const lines = rowNames.map((name, row) => {
      const line = this.#line("row");
      line.append(this.#header(name, "rowheader", "Layer "));
      for (let column = 0; column < this.columns; column += 1) line.append(this.#cell(row, column));
      return line;
    });
    this.element.style.setProperty("--columns", this.columns);
    this.element.classList.toggle("single", this.columns === 1);
    this.element.replaceChildren(header, ...lines);
  }

  #line(name) {
    return make("div", { className: name, role: "row" });
  }

  #header(name, role, unit) {
    const aside = make("span", { className: "aside", textContent: unit });
    return make("span", { className: role, role }, aside, name);
  }

  #cell(row, column) {
    const canvas = make("canvas", { ariaHidden: "true" });
    const button = make("button", { type: "button" }, canvas, make("span", { className: "mark" }));
    button.addEventListener("click", () => this.onChoose(row, column));
    this.buttons.push(button);
    return make("div", { className: "cell", role: "gridcell" }, button);
  }

  #move(event) {
    const current = this.buttons.indexOf(document.activeElement);
    if (current < 0 || event.altKey || event.metaKey) return;
    let row = Math.floor(current / this.columns);
    let column = current % this.columns;
    if (event.key in STEPS && !event.ctrlKey) {
      // With one map a layer the grid is a line: both pairs of arrows go along it.
      const [down, right] = this.columns > 1 ? STEPS[event.key] : [sum(STEPS[event.key]), 0];
      row = Math.min(Math.max(row + down, 0), this.rows - 1);
      column = Math.min(Math.max(column + right, 0), this.columns - 1);
    } else if (event.key === "Home" || event.key === "End") {
      column = event.key === "Home" ? 0 : this.columns - 1;
      if (event.ctrlKey) row = event.key === "Home" ? 0 : this.rows - 1;
    } else return;
    event.preventDefault();
    this.buttons[row * this.columns + column].focus();
    this.onChoose(row, column);
  }
}
