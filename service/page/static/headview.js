/**
 * Draws the head view: tokens on both sides, and a line from each query to each key. The larger
 * the weight, the stronger the line.
 */

import { labels, widest } from "./label.js";
import { tint } from "./palette.js";

const LINES = 3600; // nobody can tell more apart: then only the strongest are drawn
const FAINT = 0.02; // share of the largest weight below which a line cannot be seen
const LEVELS = 16;

/** The height of a row of tokens, in CSS pixels. */
export const rowHeight = (count) => (count > 60 ? 18 : 24);

/** The layout for a width and a number of tokens. */
export function headLayout(context, weights, shown, width) {
  const row = rowHeight(shown.length);
  const size = row > 20 ? 14 : 12;
  const tokens = shown.map((at) => weights.tokens[at]);
  const label = Math.ceil(Math.min(widest(context, tokens, size) + 16, width * 0.36));
  const texts = labels(context, tokens, size, label - 14);
  return { row, label, width, height: row * shown.length, texts };
}

/** The smallest weight that still gets a line, so that about LINES lines are drawn. */
function threshold(values, largest) {
  const counts = new Uint32Array(1024);
  for (const value of values) counts[Math.min(1023, Math.floor((value / largest) * 1024))] += 1;
  let left = LINES;
  let bin = 1023;
  while (bin > 0 && counts[bin] <= left) {
    left -= counts[bin];
    bin -= 1;
  }
  return ((bin + 1) / 1024) * largest;
}

/** All pairs of shown positions that get a line: [row of query, row of key, weight]. */
function pairs(weights, map, shown, largest) {
  const found = [];
  shown.forEach((query, from) => {
    shown.forEach((key, to) => found.push([from, to, map[query * weights.size + key]]));
  });
  const enough = FAINT * largest;
  const least =
    found.length > LINES
      ? Math.max(enough, threshold(found.map((pair) => pair[2]), largest))
      : enough;
  return found.filter((pair) => pair[2] >= least && pair[2] > 0);
}

function drawLines(context, layout, list, largest, colour) {
  const { row, label, width } = layout;
  const levels = Array.from({ length: LEVELS }, () => new Path2D());
  const middle = width / 2;
  for (const [from, to, weight] of list) {
    const path = levels[Math.min(LEVELS - 1, Math.floor((weight / largest) * LEVELS))];
    const [start, end] = [(from + 0.5) * row, (to + 0.5) * row];
    path.moveTo(label, start);
    path.bezierCurveTo(middle, start, middle, end, width - label, end);
  }
  levels.forEach((path, level) => {
    const share = (level + 0.5) / LEVELS;
    context.lineWidth = 0.5 + 3 * share;
    context.strokeStyle = tint(colour, 0.05 + 0.9 * share);
    context.stroke(path);
  });
}

function drawLabels(context, layout, shown, shares, palette) {
  const { row, label, width, texts } = layout;
  context.textBaseline = "middle";
  shown.forEach((position, at) => {
    const [text, font] = texts[at];
    context.font = font;
    const middle = (at + 0.5) * row + 1;
    for (const side of ["query", "key"]) {
      const x = side === "query" ? 0 : width - label;
      const share = shares[side](position);
      if (share) {
        context.fillStyle = share.colour;
        context.fillRect(x, at * row + 1, label, row - 2);
      }
      context.fillStyle = palette.ink;
      context.textAlign = side === "query" ? "right" : "left";
      const edge = side === "query" ? label - 8 : width - label + 8;
      context.fillText(text, edge, middle);
    }
  });
}

/**
 * Draws the head view from (0, 0) on.
 * @param {object} head weights, row, column, shown, largest (end of the scale)
 * @param {{query: ?number, key: ?number}} chosen only the lines of this position are drawn
 * @returns {{drawn: number, all: number}} lines
 */
export function drawHead(context, layout, head, chosen, palette) {
  const { weights, shown, largest } = head;
  const map = weights.map(head.row, head.column);
  const weight = (query, key) => map[query * weights.size + key];
  const { query, key } = chosen;
  let list = [];
  if (query === null && key === null) {
    list = pairs(weights, map, shown, largest);
    drawLines(context, layout, list, largest, palette.out);
  }
  if (key !== null) {
    const to = shown.indexOf(key);
    const into = shown.map((from, at) => [at, to, weight(from, key)]);
    drawLines(context, layout, into, largest, palette.into);
  }
  if (query !== null) {
    const from = shown.indexOf(query);
    const out = shown.map((to, at) => [from, at, weight(query, to)]);
    drawLines(context, layout, out, largest, palette.out);
  }
  const shade = (colour, share) => ({ colour: tint(colour, 0.06 + 0.34 * share) });
  const shares = {
    query(position) {
      if (position === query) return { colour: tint(palette.out, 0.3) };
      return key === null ? null : shade(palette.into, weight(position, key) / largest);
    },
    key(position) {
      if (position === key && query === null) return { colour: tint(palette.into, 0.3) };
      return query === null ? null : shade(palette.out, weight(query, position) / largest);
    },
  };
  drawLabels(context, layout, shown, shares, palette);
  return { drawn: list.length, all: shown.length ** 2 };
}

/** What is under a point of the head view: a position, on the side of queries or of keys. */
export function headAt(layout, shown, x, y) {
  const position = shown[Math.floor(y / layout.row)] ?? null;
  return x < layout.width / 2 ? { query: position, key: null } : { query: null, key: position };
}
