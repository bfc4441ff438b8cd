/**
 * Draws one head large on canvases: as lines, heat map or both, with a scale. It tells its owner
 * what the pointer is on.
 */

import { attributes, find } from "./elements.js";
import { drawHead, drawHeads, headAt, headLayout } from "./headview.js";
import { drawMap, mapAt, mapLayout } from "./heatmap.js";
import { prepare } from "./palette.js";
import { full, grouped, POINT, short } from "./words.js";

const NOTHING = { query: null, key: null };
const same = (a, b) => a.query === b.query && a.key === b.key;

/** How each kind is laid out and drawn, and what is at a point of it. */
export const KINDS = {
  lines: { layout: headLayout, draw: drawHead, at: headAt },
  map: { layout: mapLayout, draw: drawMap, at: mapAt },
  several: { layout: headLayout, draw: drawHeads, at: headAt },
};
const BOTH = ["lines", "map"];

/** Lets a picture that is wider than its frame be scrolled, with the keys too. */
function letScroll(frame, isWide, name) {
  const values = { tabindex: "0", role: "region", "aria-label": name };
  if (isWide) attributes(frame, values);
  else for (const attribute of Object.keys(values)) frame.removeAttribute(attribute);
}

export class Picture {
  /**
   * @param {HTMLElement} element holds a canvas for each kind and the scale
   * @param {function(object, boolean): void} onPoint gets {query, key}, and whether the choice stays
   */
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

  /** Draws a head anew: other weights, another size or other colours. */
  show(head, picture, palette, label) {
    this.head = head;
    this.palette = palette;
    const names = picture === "both" ? BOTH : [picture];
    for (const view of this.views) view.frame.hidden = !names.includes(view.name);
    find(this.element, ".lines-note").hidden = true;
    for (const view of this.views.filter(({ frame }) => !frame.hidden)) {
      const context = view.canvas.getContext("2d");
      const width = Math.floor(view.frame.clientWidth);
      view.plan = view.layout(context, head.weights, head.shown, width);
      view.context = prepare(view.canvas, view.plan.width, view.plan.height);
      view.canvas.setAttribute("aria-label", label[view.name]);
      letScroll(view.frame, view.plan.width > width, label.region);
    }
    const largest = find(this.element, ".largest");
    largest.textContent = short(head.largest);
    largest.title = full(head.largest);
    this.#draw();
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
    for (const view of this.views.filter(({ frame }) => !frame.hidden)) {
      view.context.clearRect(0, 0, view.plan.width, view.plan.height);
      const lines = view.draw(view.context, view.plan, this.head, chosen, this.palette);
      if (lines && chosen.query === null && chosen.key === null) this.#tell(lines);
    }
  }

  #tell({ drawn, all }) {
    const isThinned = this.head.shown.length > 60;
    const note = find(this.element, ".lines-note");
    note.hidden = !isThinned;
    note.textContent = `Of ${grouped(all)} lines the ${grouped(drawn)} strongest are drawn. ${POINT} a token to see all of its own.`;
  }

  #listen(view, onPoint) {
    const under = (event) => {
      const box = view.canvas.getBoundingClientRect();
      return view.at(view.plan, this.head.shown, event.clientX - box.left, event.clientY - box.top);
    };
    view.canvas.addEventListener("pointermove", (event) => onPoint(under(event), false));
    view.canvas.addEventListener("pointerleave", () => onPoint(NOTHING, false));
    view.canvas.addEventListener("click", (event) => onPoint(under(event), true));
  }
}
