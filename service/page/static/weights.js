/**
 * Joins the parts of an answer of /attention to one block of numbers with names. Rows are layers,
 * columns are heads; an axis that the service reduced has one place.
 *
 * The maps of a text with many tokens are thumbnails. Those that are looked at are there whole too.
 */

import { Problem } from "./api.js";

const MOST_KEPT = 24; // whole maps of a long text: one of 512 tokens takes 1 MB

export class Weights {
  /**
   * @param {object} answer one of the parts; all have the same tokens and prediction
   * @param {number[]} layers numbers of the layers that went in; likewise `heads`
   * @param {[boolean, boolean]} reduced whether the axis of layers, and that of heads, has one place
   */
  constructor(answer, layers, heads, reduced) {
    const [oneRow, oneColumn] = reduced;
    this.tokens = answer.tokens;
    this.prediction = answer.prediction;
    this.document = null; // what is told of the whole text, once it is known
    this.model = answer.model;
    this.size = answer.tokens.length;
    this.side = answer.attention[0][0].length;
    this.isWhole = this.side === this.size; // whether thumbnails are the maps themselves
    this.layers = layers;
    this.heads = heads;
    this.oneRow = oneRow;
    this.oneColumn = oneColumn;
    this.rows = oneRow ? 1 : layers.length;
    this.columns = oneColumn ? 1 : heads.length;
    const maps = this.rows * this.columns;
    this.numbers = new Float64Array(maps * this.side ** 2);
    this.keys = new Int32Array(maps * this.size);
    this.largestOfKeys = new Float64Array(maps * this.size);
    this.kept = new Map();
  }

  /**
   * Puts the numbers of an answer where they belong.
   * @param {number[]} layers start and end of its layers among all; likewise `heads`
   */
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

  /** The thumbnail of one place, [side * side], row by row. */
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
    const map = this.thumbnail(row, column);
    if (!this.isWhole || shown.length === this.side) return map;
    return Float64Array.from(
      shown.flatMap((query) => shown.map((key) => map[query * this.side + key])),
    );
  }

  /** For each query of a place the key that it looks at most, and how much that is. */
  strongest(row, column) {
    const start = this.#at(row, column) * this.size;
    const part = (whole) => whole.subarray(start, start + this.size);
    return { keys: part(this.keys), weights: part(this.largestOfKeys) };
  }

  /** Whether the map of a place is there whole. */
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

  /** The largest weight of a place among the positions that are drawn. */
  largest(row, column, shown) {
    const map = this.map(row, column);
    let largest = 0;
    for (const query of shown) {
      for (const key of shown) largest = Math.max(largest, map[query * this.size + key]);
    }
    return largest;
  }
}

/** Checks the length of a list: with another one, numbers would land in wrong places. */
function sized(list, count) {
  if (list.length === count) return list;
  throw new Problem("unknown", `The answer has ${list.length} where ${count} were asked for.`);
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
