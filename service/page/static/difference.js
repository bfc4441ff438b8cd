/**
 * Shows how the chosen head differs between two texts: the weights of the second less those of the
 * first, for tokens that belong together.
 */
/**
 * Aligns two texts by what they have in common: a longest common subsequence of their tokens, after
 * Wagner and Fischer 1974, "The string-to-string correction problem".
 */

import { prepare } from "./canvas.js";
import { drawMap, mapAt, mapLayout } from "./drawing.js";
import { byId, find, make } from "./elements.js";
import { fillTable } from "./tokens.js";
import { ranked } from "./weights.js";
import { full, POINT, quoted, short, signed } from "./words.js";

const LISTED = 5;
const NOTHING = { query: null, key: null };

export class Difference {
  constructor() {
    this.element = byId("difference");
    this.part = (name) => find(this.element, name);
    this.head = this.pairs = this.palette = null;
    this.part(".table").addEventListener("toggle", () => this.#fillTable());
    const canvas = this.part("canvas");
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      this.#tell(mapAt(this.plan, this.head.shown, x, y));
    });
    canvas.addEventListener("pointerleave", () => this.#tell(NOTHING));
  }

  /** Hides the part: there is one text. */
  hide() {
    this.element.hidden = true;
    this.head = null;
  }

  /**
   * Draws the difference.
   * @param {object[]} sides of each text its `weights`, the `place` of the head, the positions
   *   `shown`
   * @param {(number|null)[]} alignment for each position of the first text that of the second
   * @param {string} name of the place
   */
  show(sides, alignment, name, palette) {
    const [first, second] = sides;
    this.pairs = first.shown
      .map((from) => [from, alignment[from]])
      .filter(([, to]) => to !== null && second.shown.includes(to));
    this.element.hidden = this.pairs.length === 0;
    if (this.element.hidden) return;
    const [before, after] = sides.map(({ weights, place }) => weights.map(place.row, place.column));
    const numbers = new Float64Array(this.pairs.length ** 2);
    this.pairs.forEach(([query, its], row) => {
      this.pairs.forEach(([key, other], column) => {
        const was = before[query * first.weights.size + key];
        numbers[row * this.pairs.length + column] = after[its * second.weights.size + other] - was;
      });
    });
    const tokens = this.pairs.map(([from, to]) => {
      const [one, other] = [first.weights.tokens[from].text, second.weights.tokens[to].text];
      return { text: one === other ? one : `${one}→${other}` };
    });
    this.before = { map: before, size: first.weights.size };
    this.palette = palette;
    this.name = name;
    this.head = {
      weights: { tokens, size: tokens.length, map: () => numbers },
      row: 0,
      column: 0,
      shown: [...tokens.keys()],
      largest: numbers.reduce((most, number) => Math.max(most, Math.abs(number)), 0),
      isSigned: true,
    };
    this.part(".name").textContent = name;
    this.part(".largest").textContent = `±${short(this.head.largest)}`;
    this.part(".largest").title = full(this.head.largest);
    this.#draw();
    this.#fillLists(numbers);
    this.#tell(NOTHING);
    this.#fillTable();
  }

  #draw() {
    const canvas = this.part("canvas");
    const width = Math.floor(this.part(".map").clientWidth);
    this.plan = mapLayout(canvas.getContext("2d"), this.head.weights, this.head.shown, width);
    const context = prepare(canvas, this.plan.width, this.plan.height);
    canvas.setAttribute("aria-label", `${this.name}: difference as a heat map. ${this.part(".told").textContent}`);
    drawMap(context, this.plan, this.head, NOTHING, this.palette);
  }

  #fillLists(numbers) {
    const { tokens, size } = this.head.weights;
    const fill = (part, sign) => {
      const best = ranked(numbers.keys(), (at) => sign * numbers[at], LISTED);
      const items = best
        .filter(([, worth]) => worth > 0)
        .map(([at, worth]) => {
          const [query, key] = [Math.floor(at / size), at % size];
          const names = [tokens[query], tokens[key]].map(({ text }) => make("bdi", { textContent: text }));
          const figure = make("span", { className: "figure", textContent: signed(sign * worth, 4) });
          figure.title = signed(sign * worth, 8);
          return make("li", {}, make("span", { className: "name" }, names[0], " → ", names[1]), figure);
        });
      this.part(`${part} ol`).replaceChildren(...items);
      this.part(part).hidden = items.length === 0;
    };
    fill(".more", 1);
    fill(".less", -1);
  }

  #tell({ query, key }) {
    const readout = this.part(".readout");
    readout.textContent = `${POINT} a cell to read both weights.`;
    if (query === null || key === null) return;
    const { tokens, size } = this.head.weights;
    const change = this.head.weights.map()[query * size + key];
    const was = this.before.map[this.pairs[query][0] * this.before.size + this.pairs[key][0]];
    readout.textContent =
      `${quoted(tokens[query])} gives ${quoted(tokens[key])} ${short(was)} in the first, ` +
      `${short(was + change)} in the second: ${signed(change, 4)}.`;
  }

  #fillTable() {
    if (this.head) fillTable(this.part(".table"), this.head, `${this.name}, second less first`);
  }
}

/**
 * For each position of the first text the one of the second that belongs to it, or null.
 *
 * Tokens of the common subsequence belong together. Between two of them, tokens that were replaced
 * by as many others do too; tokens that were put in or left out belong to none.
 * @param {{text: string}[]} first tokens
 * @param {{text: string}[]} second tokens
 * @returns {(number|null)[]}
 */
export function aligned(first, second) {
  const pairs = [...common(first, second), [first.length, second.length]];
  const found = new Array(first.length).fill(null);
  let [from, to] = [0, 0];
  for (const [one, other] of pairs) {
    if (one - from === other - to) for (let at = from; at < one; at += 1) found[at] = to + at - from;
    if (one < first.length) found[one] = other;
    [from, to] = [one + 1, other + 1];
  }
  return found;
}

/** The pairs of a longest common subsequence, in order. */
function common(first, second) {
  const same = (one, other) => first[one].text === second[other].text;
  const width = second.length + 1;
  // How many pairs the rest of both texts has, from each two places on.
  const counts = new Uint16Array((first.length + 1) * width);
  for (let one = first.length - 1; one >= 0; one -= 1) {
    for (let other = second.length - 1; other >= 0; other -= 1) {
      const below = counts[(one + 1) * width + other];
      const right = counts[one * width + other + 1];
      counts[one * width + other] = same(one, other)
        ? counts[(one + 1) * width + other + 1] + 1
        : Math.max(below, right);
    }
  }
  const pairs = [];
  let [one, other] = [0, 0];
  while (one < first.length && other < second.length) {
    if (same(one, other)) {
      pairs.push([one, other]);
      [one, other] = [one + 1, other + 1];
    } else if (counts[(one + 1) * width + other] >= counts[one * width + other + 1]) one += 1;
    else other += 1;
  }
  return pairs;
}
