/**
 * Shows the tokens of a head: as a row to point at, as lists of the largest weights, as a table.
 */

import { tint } from "./canvas.js";
import { figure, find, heading, make, moveFocus, rove, table } from "./elements.js";
import { isNothing, ranked, reader } from "./weights.js";
import { full, quoted, short } from "./words.js";

export class Strip {
  /** `onPoint` gets a position or null, and whether the choice stays when the pointer leaves. */
  constructor(element, onPoint) {
    this.element = element;
    this.buttons = [];
    this.shown = [];
    const positionOf = (event) => this.shown[this.buttons.indexOf(event.target)] ?? null;
    element.addEventListener("pointerover", (event) => onPoint(positionOf(event), false));
    element.addEventListener("pointerleave", () => onPoint(null, false));
    element.addEventListener("click", (event) => {
      if (positionOf(event) !== null) onPoint(positionOf(event), true);
    });
    element.addEventListener("focusin", (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (!target.matches(":focus-visible")) return; // a click follows, and is handled there
      rove(this.buttons, this.buttons.indexOf(event.target));
      onPoint(positionOf(event), true);
    });
    element.addEventListener("keydown", (event) => moveFocus(event, this.buttons));
  }

  /** Makes the tokens; `changed` are the positions whose token differs in the other sentence. */
  show(tokens, shown, changed) {
    this.shown = shown;
    const focused = this.buttons.indexOf(document.activeElement);
    this.buttons = shown.map((position) => {
      const { text, special } = tokens[position];
      const button = make("button", { type: "button", textContent: text });
      button.classList.toggle("special", special);
      button.classList.toggle("changed", changed.has(position));
      if (changed.has(position)) button.title = "not in the other sentence";
      return button;
    });
    rove(this.buttons, 0);
    this.element.replaceChildren(...this.buttons);
    if (focused >= 0) this.buttons[Math.min(focused, this.buttons.length - 1)]?.focus();
  }

  /** Colours the tokens by what the chosen one gives them, and marks that one. */
  colour(head, chosen, palette) {
    const weightOf = reader(head);
    this.shown.forEach((position, at) => {
      const button = this.buttons[at];
      const weight = chosen.query === null ? 0 : weightOf(chosen.query, position);
      const share = head.largest > 0 ? weight / head.largest : 0;
      button.style.backgroundColor = share > 0 ? tint(palette.out, 0.4 * share) : "";
      button.setAttribute("aria-pressed", position === (chosen.query ?? chosen.key));
    });
  }
}

export function chip({ text }, number, title, colour) {
  const name = make("bdi", { className: "name", textContent: text });
  const item = make("li", { title }, name, make("span", { className: "figure" }, number));
  item.style.backgroundColor = colour;
  return item;
}

const LISTED = 5;
const SPOKEN = 3;

/** The tokens to which one gives most, or from which it gets most: [position, weight]. */
function ofToken(head, position, isQuery, count) {
  const weightOf = reader(head);
  const ofOther = (other) => (isQuery ? weightOf(position, other) : weightOf(other, position));
  return ranked(head.shown, ofOther, count);
}

/** The pairs of tokens with the largest weights: [[query, key], weight]. */
function ofHead(head) {
  const weightOf = reader(head);
  const pairs = function* pairs() {
    for (const query of head.shown) for (const key of head.shown) yield [query, key];
  };
  return ranked(pairs(), ([query, key]) => weightOf(query, key), LISTED);
}

/** Fills a list with rows: [texts of one token or two, weight]. */
function fill(part, title, rows, largest, colour) {
  part.hidden = false;
  part.querySelector("h4").textContent = title;
  const items = rows.map(([name, weight]) => {
    const bar = make("span", { className: "bar", ariaHidden: "true" });
    bar.style.width = `${((100 * weight) / (largest || 1)).toFixed(1)}%`;
    bar.style.backgroundColor = tint(colour, 0.35);
    // A query and its key stand in this order also in texts from right to left.
    const [from, to] = name.map((text) => make("bdi", { textContent: text }));
    const tokens = make("span", { className: "name" }, from, ...(to ? [" → ", to] : []));
    return make("li", {}, bar, tokens, figure(short(weight), full(weight)));
  });
  part.querySelector("ol").replaceChildren(...items);
}

/** Fills the lists for the token that is pointed at, or else for the whole head. */
export function fillLists(parts, head, { query, key }, palette) {
  const { tokens } = head.weights;
  const out = find(parts, ".out");
  const into = find(parts, ".into");
  out.hidden = query === null && key !== null;
  into.hidden = key === null;
  if (isNothing({ query, key })) {
    const rows = ofHead(head).map(([[from, to], weight]) => [
      [tokens[from].text, tokens[to].text],
      weight,
    ]);
    const isOneOfSeveral = head.drawn.length > 1;
    const title = isOneOfSeveral ? `Largest weights of ${head.name.toLowerCase()}` : "Largest weights";
    fill(out, title, rows, head.largest, palette.out);
    return;
  }
  const named = (rows) => rows.map(([position, weight]) => [[tokens[position].text], weight]);
  if (query !== null) {
    const rows = named(ofToken(head, query, true, LISTED));
    fill(out, `${quoted(tokens[query])} looks most at`, rows, head.largest, palette.out);
  }
  if (key !== null) {
    const rows = named(ofToken(head, key, false, LISTED));
    fill(into, `${quoted(tokens[key])} is looked at most by`, rows, head.largest, palette.into);
  }
}

export function spoken(head, position) {
  const { tokens } = head.weights;
  const list = (isQuery) =>
    ofToken(head, position, isQuery, SPOKEN)
      .map(([other, weight]) => `${quoted(tokens[other])} ${short(weight)}`)
      .join(", ");
  const token = quoted(tokens[position]);
  return `${token} looks most at ${list(true)}; it is looked at most by ${list(false)}.`;
}

const CELLS = 3600;

/** Fills a `details` when it is open; a large table is only in the saved file. */
export function fillTable(details, head, caption) {
  const body = details.querySelector("div");
  if (!details.open) {
    body.replaceChildren();
    return;
  }
  const { weights, shown } = head;
  if (shown.length ** 2 > CELLS) {
    const note = `${shown.length} × ${shown.length} numbers are too many to read here: save them as CSV below.`;
    body.replaceChildren(make("p", { className: "note", textContent: note }));
    return;
  }
  const weightOf = reader(head);
  const text = (position) => weights.tokens[position].text;
  const rows = shown.map((query) => ({
    name: text(query),
    cells: shown.map((key) => figure(short(weightOf(query, key)), full(weightOf(query, key)))),
  }));
  const top = make("tr", {}, make("td"), ...shown.map((key) => heading(text(key))));
  const title = `${caption}: a row is a token that looks, a column one that is looked at`;
  body.replaceChildren(table(title, [top], rows));
}
