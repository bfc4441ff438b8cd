/**
 * Shows one head large, as lines, heat map or both, or several heads of a layer over each other as
 * the head view of BertViz does (Vig 2019, "A multiscale visualization of attention in the
 * transformer model").
 */

import { pointOn, prepare, tint } from "./canvas.js";
import { drawHead, drawHeads, drawMap, headAt, headLayout, mapAt, mapLayout } from "./drawing.js";
import { find, make, moveFocus, rove } from "./elements.js";
import { isNothing, NOTHING } from "./weights.js";
import { full, grouped, short } from "./words.js";

const same = (a, b) => a.query === b.query && a.key === b.key;

/** How each kind is laid out and drawn, and what is at a point of it. */
const KINDS = {
  lines: { layout: headLayout, draw: drawHead, at: headAt },
  map: { layout: mapLayout, draw: drawMap, at: mapAt },
  several: { layout: headLayout, draw: drawHeads, at: headAt },
};
const BOTH = ["lines", "map"];

/** Lets a picture that is wider than its frame be scrolled, with the keys too. */
function letScroll(frame, isWide, name) {
  for (const attribute of ["tabindex", "role", "aria-label"]) frame.removeAttribute(attribute);
  if (isWide) Object.assign(frame, { tabIndex: 0, role: "region", ariaLabel: name });
}

export class Picture {
  /** `onPoint` gets what is chosen, and whether the choice stays. */
  constructor(element, onPoint) {
    this.element = element;
    this.views = Object.keys(KINDS).map((name) => {
      const frame = find(element, `.${name}`);
      const view = { ...KINDS[name], name, frame, canvas: frame.querySelector("canvas") };
      this.#listen(view, onPoint);
      return view;
    });
    this.chosen = NOTHING;
    this.waiting = false;
  }

  /** Draws a head: other weights, another size or other colours. */
  show(head, picture, palette, label) {
    this.head = head;
    this.palette = palette;
    const names = picture === "both" ? BOTH : [picture];
    for (const view of this.views) view.frame.hidden = !names.includes(view.name);
    find(this.element, ".lines-note").hidden = true;
    for (const view of this.visible) {
      const context = view.canvas.getContext("2d");
      const width = Math.floor(view.frame.clientWidth);
      view.plan = view.layout(context, head.weights, head.shown, width);
      view.context = prepare(view.canvas, view.plan.width, view.plan.height);
      view.canvas.setAttribute("aria-label", label[view.name]);
      const isHigher = view.name !== "map" && view.frame.scrollHeight > view.frame.clientHeight;
      const region = `${label.region}: ${view.name === "map" ? "heat map" : "lines"}`;
      letScroll(view.frame, view.plan.width > width || isHigher, region);
    }
    const largest = find(this.element, ".largest");
    largest.textContent = short(head.largest);
    largest.title = full(head.largest);
    const even = 1 / head.weights.size;
    find(this.element, ".even").style.left = `${(100 * even) / head.largest}%`;
    find(this.element, ".even-note").textContent = `Mark: an even share, ${short(even)}.`;
    this.#draw();
  }

  get visible() {
    return this.views.filter(({ frame }) => !frame.hidden);
  }

  /** Shows what belongs to a token, or all; draws with the next frame. */
  point(chosen) {
    if (same(chosen, this.chosen)) return;
    this.chosen = chosen;
    if (this.waiting || !this.head) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#draw();
    });
  }

  #draw() {
    const isThere = (position) => (this.head.shown.includes(position) ? position : null);
    const chosen = { query: isThere(this.chosen.query), key: isThere(this.chosen.key) };
    for (const view of this.visible) {
      view.context.clearRect(0, 0, view.plan.width, view.plan.height);
      const lines = view.draw(view.context, view.plan, this.head, chosen, this.palette);
      if (lines && isNothing(chosen)) this.#noteLines(lines);
    }
  }

  #noteLines({ drawn, all }) {
    const isThinned = this.head.shown.length > 60;
    const note = find(this.element, ".lines-note");
    note.hidden = !isThinned;
    note.textContent = `The ${grouped(drawn)} strongest of ${grouped(all)} lines.`;
  }

  #listen(view, onPoint) {
    const under = (event) =>
      view.at(view.plan, this.head.shown, ...pointOn(view.canvas, event));
    view.canvas.addEventListener("pointermove", (event) => onPoint(under(event), false));
    view.canvas.addEventListener("pointerleave", () => onPoint(NOTHING, false));
    view.canvas.addEventListener("click", (event) => onPoint(under(event), true));
  }
}

/**
 * The places of the grid whose maps a view draws large: the chosen one, or several of its layer. A
 * long text begins with only the chosen one, because each whole map is asked for; so does a narrow
 * window, in which many lines cannot be told apart.
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
  constructor(element, events) {
    this.element = element;
    this.events = events;
    this.buttons = [];
    this.part = (name) => find(element, name);
    this.part("select").addEventListener("change", ({ target }) =>
      events.onChoose(target.selectedIndex, this.place.column),
    );
    this.part(".every").addEventListener("click", () => events.onRead({ overlay: this.weights.heads }));
    this.part(".only").addEventListener("click", () =>
      events.onRead({ overlay: [this.weights.heads[this.place.column]] }),
    );
    this.part(".heads").addEventListener("keydown", (event) => moveFocus(event, this.buttons));
  }

  /** Shows what can be chosen; hidden where a view has no single heads. */
  show(weights, view, place, drawn, palette) {
    this.element.hidden = view.picture !== "several" || weights.oneColumn;
    if (this.element.hidden) return;
    this.weights = weights;
    this.place = place;
    const layers = weights.layers.map((layer) => make("option", {}, String(layer)));
    this.part("select").replaceChildren(...layers);
    this.part("select").selectedIndex = place.row;
    this.columns = drawn.map(({ column }) => column);
    const heads = weights.heads.map(String);
    if (heads.join() !== this.buttons.map(({ textContent }) => textContent).join()) {
      this.buttons = heads.map((textContent, column) => this.#button(textContent, column));
      this.part(".heads").replaceChildren(...this.buttons);
      rove(this.buttons, 0);
    }
    this.buttons.forEach((button, column) => {
      const isDrawn = this.columns.includes(column);
      const colour = palette.head(column, heads.length);
      button.setAttribute("aria-pressed", isDrawn);
      button.style.borderColor = tint(colour, 1);
      button.style.backgroundColor = isDrawn ? tint(colour, 0.25) : "";
    });
    this.part(".only").textContent =
      `Only layer ${weights.layers[place.row]}, head ${weights.heads[place.column]}`;
  }

  #button(textContent, column) {
    const ariaLabel = `Head ${textContent}`;
    const button = make("button", { type: "button", textContent, ariaLabel });
    button.addEventListener("click", () => {
      rove(this.buttons, column);
      const isDrawn = this.columns.includes(column);
      const left = this.columns.filter((other) => other !== column);
      if (isDrawn && left.length === 0) return; // nothing would be drawn
      const columns = isDrawn ? left : [...this.columns, column].sort((one, other) => one - other);
      this.events.onRead({ overlay: columns.map((each) => this.weights.heads[each]) });
    });
    return button;
  }
}
