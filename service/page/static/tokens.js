/** Shows a sentence as a row of tokens to point at. Arrow keys go from token to token. */
/** Lists the largest weights of a head, or of the token that is pointed at. */
/** Writes one head's weights as a table, for those who cannot see a picture. */

import { tint } from "./canvas.js";
import { attributes, find, make, moveFocus, rove } from "./elements.js";
import { ranked } from "./weights.js";
import { full, quoted, short } from "./words.js";

export class Strip {
  /**
   * @param {HTMLElement} element where the tokens go
   * @param {function(?number, boolean): void} onPoint gets a position, or null when the pointer
   *   leaves, and whether the choice stays
   */
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

  /**
   * Makes the tokens.
   * @param {Set<number>} changed positions whose token differs in the other sentence
   */
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
    const map = head.weights.map(head.row, head.column);
    this.shown.forEach((position, at) => {
      const button = this.buttons[at];
      const weight = chosen.query === null ? 0 : map[chosen.query * head.weights.size + position];
      const share = head.largest > 0 ? weight / head.largest : 0;
      button.style.backgroundColor = share > 0 ? tint(palette.out, 0.4 * share) : "";
      button.setAttribute("aria-pressed", position === (chosen.query ?? chosen.key));
    });
  }
}

const LISTED = 5;
const SPOKEN = 3;

/** The tokens to which one gives most, or from which it gets most: [position, weight]. */
function ofToken(head, position, isQuery, count) {
  const map = head.weights.map(head.row, head.column);
  const { size } = head.weights;
  const weightOf = (other) =>
    isQuery ? map[position * size + other] : map[other * size + position];
  return ranked(head.shown, weightOf, count);
}

/** The pairs of tokens with the largest weights: [[query, key], weight]. */
function ofHead(head) {
  const map = head.weights.map(head.row, head.column);
  const { size } = head.weights;
  const pairs = function* pairs() {
    for (const query of head.shown) for (const key of head.shown) yield query * size + key;
  };
  return ranked(pairs(), (place) => map[place], LISTED).map(([place, weight]) => [
    [Math.floor(place / size), place % size],
    weight,
  ]);
}

/** One token, or a query and its key: in this order, also in texts from right to left. */
const joined = ([from, to]) => (to ? [from, " → ", to] : [from]);

/** Fills a list with rows: [texts of one token or two, weight]. */
function fill(part, title, rows, largest, colour) {
  part.hidden = false;
  part.querySelector("h4").textContent = title;
  const items = rows.map(([name, weight]) => {
    const figure = make("span", { className: "figure", textContent: short(weight) });
    figure.title = full(weight);
    const bar = attributes(make("span", { className: "bar" }), { "aria-hidden": "true" });
    bar.style.width = `${((100 * weight) / (largest || 1)).toFixed(1)}%`;
    bar.style.backgroundColor = tint(colour, 0.35);
    const tokens = name.map((text) => make("bdi", { textContent: text }));
    return make("li", {}, bar, make("span", { className: "name" }, ...joined(tokens)), figure);
  });
  part.querySelector("ol").replaceChildren(...items);
}

/**
 * Fills the lists for the token that is pointed at, or else for the whole head.
 * @param {HTMLElement} parts holds `.out` and `.into`
 */
export function fillLists(parts, head, { query, key }, palette) {
  const { tokens } = head.weights;
  const out = find(parts, ".out");
  const into = find(parts, ".into");
  out.hidden = query === null && key !== null;
  into.hidden = key === null;
  if (query === null && key === null) {
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

/** What a screen reader hears of a token. */
export function spoken(head, position) {
  const { tokens } = head.weights;
  const told = (isQuery) =>
    ofToken(head, position, isQuery, SPOKEN)
      .map(([other, weight]) => `${quoted(tokens[other])} ${short(weight)}`)
      .join(", ");
  const token = quoted(tokens[position]);
  return `${token} looks most at ${told(true)}; it is looked at most by ${told(false)}.`;
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
  const map = weights.map(head.row, head.column);
  const heading = (position, scope) =>
    attributes(make("th", { textContent: weights.tokens[position].text }), { scope });
  const top = make("tr", {}, make("td"), ...shown.map((key) => heading(key, "col")));
  const lines = shown.map((query) => {
    const cells = shown.map((key) => {
      const weight = map[query * weights.size + key];
      return make("td", { textContent: short(weight), title: full(weight) });
    });
    return make("tr", {}, heading(query, "row"), ...cells);
  });
  const text = `${caption}: a row is a token that looks, a column one that is looked at`;
  body.replaceChildren(
    make(
      "table",
      {},
      make("caption", { textContent: text }),
      make("thead", {}, top),
      make("tbody", {}, ...lines),
    ),
  );
}
