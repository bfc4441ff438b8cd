/**
 * Chooses the heads of a layer that are drawn over each other, each in a colour of its own, as the
 * head view of BertViz does (Vig 2019, "A multiscale visualization of attention in the transformer
 * model").
 */

import { attributes, find, make, moveFocus, rove } from "./elements.js";
import { tint } from "./palette.js";

/** @import { Weights } from "./weights.js" */

/**
 * The places of the grid whose maps a view draws large: the chosen one, or several of its layer.
 * A long text begins with the chosen one alone, because each whole map is asked for; so does a narrow
 * window, in which many lines cannot be told apart.
 * @param {{picture: string, overlay: ?number[]}} view
 * @param {Weights} weights
 * @param {{row: number, column: number}} place the chosen one
 * @returns {{row: number, column: number}[]}
 */
export function drawnPlaces({ picture, overlay }, weights, place) {
  if (picture !== "several" || weights.oneColumn) return [place];
  const isEvery = weights.isWhole && window.matchMedia("(min-width: 40rem)").matches;
  const columns = weights.heads.flatMap((head, column) =>
    (overlay?.includes(head) ?? (isEvery || column === place.column)) ? [column] : [],
  );
  return columns.length > 0 ? columns.map((column) => ({ row: place.row, column })) : [place];
}

export class Overlay {
  /**
   * @param {HTMLElement} element has a list of layers, a row for the heads and two buttons
   * @param {object} told what its owner wants to hear: `onChoose(row, column)` of another layer,
   *   `onRead({overlay})` of other heads, null for those of the beginning
   */
  constructor(element, told) {
    this.element = element;
    this.told = told;
    this.buttons = [];
    this.part = (name) => find(element, name);
    this.part("select").addEventListener("change", ({ target }) =>
      told.onChoose(target.selectedIndex, this.place.column),
    );
    this.part(".every").addEventListener("click", () => told.onRead({ overlay: this.weights.heads }));
    this.part(".only").addEventListener("click", () =>
      told.onRead({ overlay: [this.weights.heads[this.place.column]] }),
    );
    this.part(".heads").addEventListener("keydown", (event) => moveFocus(event, this.buttons));
  }

  /** Shows what can be chosen; hidden where a view has no single heads. */
  show(weights, view, place, drawn, palette) {
    this.element.hidden = view.picture !== "several" || weights.oneColumn;
    if (this.element.hidden) return;
    this.weights = weights;
    this.place = place;
    this.part("select").replaceChildren(
      ...weights.layers.map((layer, row) =>
        make("option", { textContent: String(layer), selected: row === place.row }),
      ),
    );
    const columns = drawn.map(({ column }) => column);
    const heads = weights.heads.map(String);
    if (heads.join() !== this.buttons.map(({ textContent }) => textContent).join()) {
      this.buttons = heads.map((textContent, column) => this.#button(textContent, column));
      this.part(".heads").replaceChildren(...this.buttons);
      rove(this.buttons, 0);
    }
    this.buttons.forEach((button, column) => {
      const isDrawn = columns.includes(column);
      button.setAttribute("aria-pressed", isDrawn);
      button.style.borderColor = tint(palette.head(column, heads.length), 1);
      button.style.backgroundColor = isDrawn ? tint(palette.head(column, heads.length), 0.25) : "";
    });
    this.columns = columns;
    const name = `layer ${weights.layers[place.row]}, head ${weights.heads[place.column]}`;
    this.part(".only").textContent = `Only ${name}`;
  }

  #button(textContent, column) {
    const button = make("button", { type: "button", textContent });
    attributes(button, { "aria-label": `Head ${textContent}` });
    button.addEventListener("click", () => {
      rove(this.buttons, column);
      const isDrawn = this.columns.includes(column);
      const left = this.columns.filter((other) => other !== column);
      if (isDrawn && left.length === 0) return; // nothing would be drawn
      const columns = isDrawn ? left : [...this.columns, column].sort((one, other) => one - other);
      this.told.onRead({ overlay: columns.map((each) => this.weights.heads[each]) });
    });
    return button;
  }
}
