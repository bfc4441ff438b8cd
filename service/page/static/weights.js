/**
 * Joins the parts of an answer of /attention to one block of numbers with names. Rows are layers,
 * columns are heads; an axis that the service reduced has one place.
 *
 * The maps of a text with many tokens are thumbnails. Those that are looked at are there whole too.
 */

import { Problem } from "./api.js";
import { range } from "./elements.js";

const MOST_KEPT = 24; // whole maps of a long text: one of 512 tokens takes 1 MB

export class Weights {
  /** `answer` is one of the parts; all have the same tokens and prediction. */
  constructor(answer, { layers, heads, reduce }) {
    this.tokens = answer.tokens;
    this.prediction = answer.prediction;
    this.document = null; // what is known of the whole text
    this.model = answer.model;
    this.size = answer.tokens.length;
    this.side = answer.attention[0][0].length;
    this.isWhole = this.side === this.size; // whether thumbnails are the maps themselves
    this.layers = layers;
    this.heads = heads;
    this.oneRow = reduce === "rollout";
    this.oneColumn = reduce !== "none";
    this.rows = this.oneRow ? 1 : layers.length;
    this.columns = this.oneColumn ? 1 : heads.length;
    const maps = this.rows * this.columns;
    this.numbers = new Float64Array(maps * this.side ** 2);
    this.keys = new Int32Array(maps * this.size);
    this.largestOfKeys = new Float64Array(maps * this.size);
    this.kept = new Map();
  }

  /**
   * Adds what is known of the whole text. A text that is not in windows has the prediction that
   * came with its weights, of the same pass.
   */
  describe(document, { windows, window }) {
    const prediction = windows > 1 ? document.prediction : this.prediction;
    this.document = { ...document, prediction, windows, window };
  }

  /** Puts the numbers of an answer where they belong. */
  place(answer, layers, heads) {
    const rows = this.oneRow ? 1 : layers[1] - layers[0];
    const columns = this.oneColumn ? 1 : heads[1] - heads[0];
    const each = (lists, put) =>
      sized(lists, rows).forEach((ofLayer, row) => {
        sized(ofLayer, columns).forEach((ofHead, column) => {
          put(ofHead, this.#at(layers[0] + row, heads[0] + column));
        });
      });
    each(answer.attention, (lines, at) => {
      const start = at * this.side ** 2;
      sized(lines, this.side).forEach((weights, query) => {
        this.numbers.set(sized(weights, this.side), start + query * this.side);
      });
    });
    const ofQueries = (whole) => (values, at) => whole.set(sized(values, this.size), at * this.size);
    each(answer.strongest, ofQueries(this.keys));
    each(answer.strongest_weights, ofQueries(this.largestOfKeys));
  }

  #at(row, column) {
    return row * this.columns + column;
  }

  thumbnail(row, column) {
    const area = this.side ** 2;
    const start = this.#at(row, column) * area;
    return this.numbers.subarray(start, start + area);
  }

  /**
   * The cells of a small map of a place, row by row. A thumbnail has the rows and columns that are
   * shown; of a whole map those are taken here.
   */
  cells(row, column, shown) {
    if (!this.isWhole || shown.length === this.side) return this.thumbnail(row, column);
    return shownCells({ weights: this, row, column, shown });
  }

  /** For each query of a place the key that it looks at most, and how much that is. */
  strongest(row, column) {
    const start = this.#at(row, column) * this.size;
    const part = (whole) => whole.subarray(start, start + this.size);
    return { keys: part(this.keys), weights: part(this.largestOfKeys) };
  }

  has(row, column) {
    return this.isWhole || this.kept.has(this.#at(row, column));
  }

  /** Keeps a whole map, and drops the one that was kept first if there are many. */
  keep(row, column, map) {
    this.kept.set(this.#at(row, column), sized(map, this.size ** 2));
    if (this.kept.size > MOST_KEPT) this.kept.delete(this.kept.keys().next().value);
  }

  /** The weights of one place that is there whole, [size * size], row by row of queries. */
  map(row, column) {
    return this.isWhole ? this.thumbnail(row, column) : this.kept.get(this.#at(row, column));
  }

  places() {
    const { columns } = this;
    return range(this.rows * columns).map((at) => ({ row: Math.floor(at / columns), column: at % columns }));
  }

  /** The numbers of the layers and heads that went into a place. */
  numbersOf(row, column) {
    return {
      layers: this.oneRow ? this.layers : [this.layers[row]],
      heads: this.oneColumn ? this.heads : [this.heads[column]],
    };
  }

  /** The place of a layer and a head; the first place if they are missing. */
  find(layer, head) {
    const row = this.oneRow ? 0 : this.layers.indexOf(layer);
    const column = this.oneColumn ? 0 : this.heads.indexOf(head);
    return { row: Math.max(row, 0), column: Math.max(column, 0) };
  }

  /** The positions to draw: all, or all but the special tokens. */
  shown(withSpecial) {
    const positions = [...this.tokens.keys()];
    const words = positions.filter((position) => !this.tokens[position].special);
    return withSpecial || words.length === 0 ? positions : words;
  }

  largest(row, column, shown) {
    return largestOf(shownCells({ weights: this, row, column, shown }));
  }
}

export const NOTHING = Object.freeze({ query: null, key: null });
export const isNothing = ({ query, key }) => query === null && key === null;

/** The largest of some numbers that are not negative. */
export function largestOf(numbers) {
  let largest = 0;
  for (const number of numbers) if (number > largest) largest = number;
  return largest;
}

const EVEN_SHARES = 6; // that a scale has at least: on a shorter one an even head would look strong

/** The end of the scale for the weights between some tokens, of which one is the largest. */
export const scaleEnd = (largest, size) => Math.min(1, Math.max(largest, EVEN_SHARES / size));

/** Reads the weight of a head from one position to another. */
export function reader({ weights, row, column }) {
  const map = weights.map(row, column);
  return (query, key) => map[query * weights.size + key];
}

/** The weights of a head between the tokens that are shown, row by row. */
export function shownCells(head) {
  const weightOf = reader(head);
  return head.shown.flatMap((query) => head.shown.map((key) => weightOf(query, key)));
}

/** Checks the length of a list: with another one, numbers would land in wrong places. */
function sized(list, count) {
  if (list.length === count) return list;
  throw new Problem("unknown", `The answer has ${list.length} where ${count} were asked for.`);
}

/** All pairs of some queries and some keys: [query, key]. */
export function* pairsOf(queries, keys) {
  for (const query of queries) for (const key of keys) yield [query, key];
}

/** The largest weights with their places, [place, weight], in descending order. */
export function ranked(places, weightOf, count) {
  const best = [];
  for (const place of places) {
    const weight = weightOf(place);
    if (best.length === count && weight <= best[count - 1][1]) continue;
    const at = best.findIndex((other) => weight > other[1]);
    best.splice(at < 0 ? best.length : at, 0, [place, weight]);
    best.length = Math.min(best.length, count);
  }
  return best;
}
