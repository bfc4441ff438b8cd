/** Lists the largest weights of a head, or of the token that is pointed at. */

import { attributes, find, make } from "./elements.js";
import { tint } from "./palette.js";
import { ranked } from "./weights.js";
import { full, quoted, short } from "./words.js";

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
