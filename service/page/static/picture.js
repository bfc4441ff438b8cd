/**
 * Shows one head large, as lines, heat map or both, or several heads of a layer over each other as
 * the head view of BertViz does (Vig 2019, "A multiscale visualization of attention in the
 * transformer model").
 */

import { pointOn, prepare, tint } from "./canvas.js";
import { drawHead, drawHeads, drawMap, headAt, headLayout, mapAt, mapLayout } from "./drawing.js";
import { find, moveFocus } from "./elements.js";
import { html, render } from "./preact.js";
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

/** The buttons of the heads that are drawn over each other. */
export class Overlay {
  constructor(element, events) {
    this.element = element;
    this.events = events;
    this.current = 0;
  }

  /** Shows what can be chosen; hidden where a view has no single heads. */
  show({ layers, heads, oneColumn }, view, { row, column: chosen }, drawn, palette) {
    const { onChoose, onRead } = this.events;
    this.element.hidden = view.picture !== "several" || oneColumn;
    if (this.element.hidden) return;
    const columns = drawn.map(({ column }) => column);
    const read = (some) => onRead({ overlay: some.map((column) => heads[column]) });
    const toggle = (column) => {
      this.current = column;
      const left = columns.filter((other) => other !== column);
      const isDrawn = left.length < columns.length;
      if (isDrawn && left.length === 0) return; // nothing would be drawn
      read(isDrawn ? left : [...columns, column].sort((one, other) => one - other));
    };
    const button = (head, column) => {
      const isDrawn = columns.includes(column);
      const colour = palette.head(column, heads.length);
      const style = { borderColor: tint(colour, 1), backgroundColor: isDrawn ? tint(colour, 0.25) : "" };
      const isCurrent = column === Math.min(this.current, heads.length - 1);
      return html`<button type="button" aria-label="Head ${head}" aria-pressed=${isDrawn} style=${style}
        tabindex=${isCurrent ? 0 : -1} onClick=${() => toggle(column)}>${head}</button>`;
    };
    const part = html`
      <label>Layer <select value=${layers[row]} onChange=${({ target }) => onChoose(target.selectedIndex, chosen)}>
        ${layers.map((layer) => html`<option value=${layer}>${layer}</option>`)}</select></label>
      <div class="heads" role="toolbar" aria-label="Heads drawn; arrow keys go from one to the next"
        onKeyDown=${(event) => moveFocus(event, [...event.currentTarget.children])}>${heads.map(button)}</div>
      <button type="button" class="quiet every" onClick=${() => read([...heads.keys()])}>All heads</button>
      <button type="button" class="quiet only" onClick=${() => read([chosen])}>
        Only layer ${layers[row]}, head ${heads[chosen]}</button>`;
    render(part, this.element);
  }
}
