/**
 * Shows how the chosen head differs between two texts: the weights of the second less those of the
 * first, for tokens that belong together.
 */

import { pointOn, prepare } from "./canvas.js";
import { drawMap, mapAt, mapLayout } from "./drawing.js";
import { byId, figure, find, make } from "./elements.js";
import { fillTable } from "./tokens.js";
import { largestOf, NOTHING, ranked, reader } from "./weights.js";
import { full, POINT, quoted, short, signed } from "./words.js";

const LISTED = 5;

export class Difference {
  constructor() {
    this.element = byId("difference");
    this.part = (name) => find(this.element, name);
    this.head = this.pairs = this.palette = null;
    this.part(".table").addEventListener("toggle", () => this.#fillTable());
    const canvas = this.part("canvas");
    canvas.addEventListener("pointermove", (event) => {
      this.#read(mapAt(this.plan, this.head.shown, ...pointOn(canvas, event)));
    });
    canvas.addEventListener("pointerleave", () => this.#read(NOTHING));
  }

  /** Hides the part: there is one text. */
  hide() {
    this.element.hidden = true;
    this.head = null;
  }

  /**
   * Draws the difference.
   * @param {object[]} sides head of each text
   * @param {(number|null)[]} alignment for each position of the first text that of the second
   */
  show(sides, alignment, name, palette) {
    const [first, second] = sides;
    this.pairs = first.shown
      .map((from) => [from, alignment[from]])
      .filter(([, to]) => to !== null && second.shown.includes(to));
    this.element.hidden = this.pairs.length === 0;
    if (this.element.hidden) return;
    const [before, after] = sides.map(reader);
    const numbers = this.pairs.flatMap(([query, its]) =>
      this.pairs.map(([key, other]) => after(its, other) - before(query, key)),
    );
    const tokens = this.pairs.map(([from, to]) => {
      const [one, other] = [first.weights.tokens[from].text, second.weights.tokens[to].text];
      return { text: one === other ? one : `${one}→${other}` };
    });
    this.before = before;
    this.palette = palette;
    this.name = name;
    this.head = {
      weights: { tokens, size: tokens.length, map: () => numbers },
      row: 0,
      column: 0,
      shown: [...tokens.keys()],
      largest: largestOf(numbers.map(Math.abs)),
      isSigned: true,
    };
    this.part(".name").textContent = name;
    this.part(".largest").textContent = `±${short(this.head.largest)}`;
    this.part(".largest").title = full(this.head.largest);
    this.#draw();
    this.#fillLists(numbers);
    this.#read(NOTHING);
    this.#fillTable();
  }

  #draw() {
    const canvas = this.part("canvas");
    const width = Math.floor(this.part(".map").clientWidth);
    this.plan = mapLayout(canvas.getContext("2d"), this.head.weights, this.head.shown, width);
    const context = prepare(canvas, this.plan.width, this.plan.height);
    canvas.setAttribute("aria-label", `${this.name}: difference as a heat map. ${this.part(".legend").textContent}`);
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
          const names = [tokens[query], tokens[key]].map(({ text }) => make("bdi", {}, text));
          const name = make("span", { className: "name" }, names[0], " → ", names[1]);
          return make("li", {}, name, figure(signed(sign * worth, 4), signed(sign * worth, 8)));
        });
      this.part(`${part} ol`).replaceChildren(...items);
      this.part(part).hidden = items.length === 0;
    };
    fill(".more", 1);
    fill(".less", -1);
  }

  #read(chosen) {
    const readout = this.part(".readout");
    readout.textContent = `${POINT} a cell to read both weights.`;
    if (chosen.query === null || chosen.key === null) return;
    const { query, key } = chosen;
    const { tokens } = this.head.weights;
    const change = reader(this.head)(query, key);
    const was = this.before(this.pairs[query][0], this.pairs[key][0]);
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
