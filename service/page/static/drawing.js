/**
 * Draws heat maps: small ones for the grid, a large one with its tokens.
 */
/**
 * Draws the head view: tokens on both sides, and a line from each query to each key. The larger
 * the weight, the stronger the line.
 */

import { labels, shadeOf, signedPixel, tint, widest } from "./canvas.js";

const CELL = [3, 26]; // CSS pixels
const LARGEST_FONT = 13;
const LABELLED = 10; // the smallest cell beside which a token can be read

/**
 * Draws a small map on a canvas of its own.
 * @param {ArrayLike<number>} cells of a square, row by row
 * @param {number} largest end of the scale
 */
export function drawSmall(canvas, cells, largest, palette) {
  const pixelAt = (cell) => palette.pixels[shadeOf(cells[cell], largest)];
  paint(canvas, Math.sqrt(cells.length), pixelAt);
}

/** Fills a square canvas, one pixel a cell. */
export function paint(canvas, side, pixelAt) {
  canvas.width = side;
  canvas.height = side;
  // Kept in memory: it is only ever filled from there.
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(side, side);
  const pixels = new Uint32Array(image.data.buffer);
  for (let cell = 0; cell < pixels.length; cell += 1) pixels[cell] = pixelAt(cell);
  context.putImageData(image, 0, 0);
}

/** The layout for a width and the tokens that are shown. */
export function mapLayout(context, weights, shown, width) {
  const tokens = shown.map((at) => weights.tokens[at]);
  const label = Math.ceil(Math.min(widest(context, tokens, LARGEST_FONT) + 10, 110, width * 0.3));
  const fit = (gutter) => Math.floor((width - gutter) / shown.length);
  const hasLabels = fit(label) >= LABELLED;
  const gutter = hasLabels ? label : 0;
  const cell = Math.max(CELL[0], Math.min(CELL[1], fit(gutter)));
  const texts = hasLabels
    ? labels(context, tokens, Math.min(LARGEST_FONT, cell + 1), gutter - 8)
    : null;
  const side = cell * shown.length;
  const extent = gutter + side + 1;
  return { cell, gutter, side, texts, width: extent, height: extent };
}

function drawTokens(context, layout, shown, chosen, palette) {
  const { cell, gutter, texts } = layout;
  context.textBaseline = "middle";
  shown.forEach((position, at) => {
    const [text, font] = texts[at];
    context.font = font;
    const middle = gutter + (at + 0.5) * cell;
    context.fillStyle = position === chosen.query ? tint(palette.out, 1) : palette.ink;
    context.textAlign = "right";
    context.fillText(text, gutter - 5, middle);
    context.save();
    context.translate(middle, gutter - 5);
    context.rotate(-Math.PI / 2);
    context.fillStyle = position === chosen.key ? tint(palette.into, 1) : palette.ink;
    context.textAlign = "left";
    context.fillText(text, 0, 0);
    context.restore();
  });
}

/**
 * Draws the large map from (0, 0) on; its parameters are those of the head view. Numbers of a head
 * that is signed go from one colour over the paper to another.
 */
export function drawMap(context, layout, head, chosen, palette) {
  const { weights, shown, largest } = head;
  const { cell, gutter, side } = layout;
  const map = weights.map(head.row, head.column);
  const small = document.createElement("canvas");
  const count = shown.length;
  paint(small, count, (at) => {
    const weight = map[shown[Math.floor(at / count)] * weights.size + shown[at % count]];
    return head.isSigned ? signedPixel(palette, weight, largest) : palette.pixels[shadeOf(weight, largest)];
  });
  context.imageSmoothingEnabled = false;
  context.drawImage(small, gutter, gutter, side, side);
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  context.strokeRect(gutter + 0.5, gutter + 0.5, side - 1, side - 1);
  if (layout.texts) drawTokens(context, layout, shown, chosen, palette);
  context.lineWidth = 2;
  const frame = (position, colour, isRow) => {
    const at = gutter + shown.indexOf(position) * cell;
    context.strokeStyle = tint(colour, 1);
    if (isRow) context.strokeRect(gutter + 1, at, side - 2, cell);
    else context.strokeRect(at, gutter + 1, cell, side - 2);
  };
  if (chosen.key !== null) frame(chosen.key, palette.into, false);
  if (chosen.query !== null) frame(chosen.query, palette.out, true);
}

/** The row and the column under a point of the large map. */
export function mapAt(layout, shown, x, y) {
  const place = (distance) => shown[Math.floor((distance - layout.gutter) / layout.cell)] ?? null;
  const [query, key] = [place(y), place(x)];
  return { query, key };
}

const LINES = 3600; // nobody can tell more apart: then only the strongest are drawn
const FAINT = 0.02; // share of the largest weight below which a line cannot be seen
const LEVELS = 16;

/** The height of a row of tokens, in CSS pixels. */
const rowHeight = (count) => (count > 60 ? 18 : 24);

/** The layout for a width and a number of tokens. */
export function headLayout(context, weights, shown, width) {
  const row = rowHeight(shown.length);
  const size = row > 20 ? 14 : 12;
  const tokens = shown.map((at) => weights.tokens[at]);
  const label = Math.ceil(Math.min(widest(context, tokens, size) + 16, width * 0.36));
  const texts = labels(context, tokens, size, label - 14);
  return { row, label, width, height: row * shown.length, texts };
}

/** The smallest weight that still gets a line, so that about so many lines are drawn. */
function threshold(weights, map, shown, largest, most) {
  const counts = new Uint32Array(1024);
  for (const query of shown) {
    const start = query * weights.size;
    for (const key of shown) {
      counts[Math.min(1023, Math.floor((map[start + key] / largest) * 1024))] += 1;
    }
  }
  let left = most;
  let bin = 1023;
  while (bin > 0 && counts[bin] <= left) {
    left -= counts[bin];
    bin -= 1;
  }
  return ((bin + 1) / 1024) * largest;
}

/** All pairs of shown positions that get a line: [row of query, row of key, weight]. */
function pairs(weights, map, shown, largest, most = LINES) {
  const isMany = shown.length ** 2 > most;
  const enough = isMany ? threshold(weights, map, shown, largest, most) : 0;
  const least = Math.max(enough, FAINT * largest);
  const found = [];
  shown.forEach((query, from) => {
    const start = query * weights.size;
    shown.forEach((key, to) => {
      const weight = map[start + key];
      if (weight >= least && weight > 0) found.push([from, to, weight]);
    });
  });
  return found;
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

/** The lines of a head: of the chosen position, or of all, of which the strongest are taken. */
function linesOf(weights, map, shown, { query, key }, largest, most) {
  if (query === null && key === null) return pairs(weights, map, shown, largest, most);
  const weight = (from, to) => map[from * weights.size + to];
  const [row, column] = [shown.indexOf(query), shown.indexOf(key)];
  const into = key === null ? [] : shown.map((from, at) => [at, column, weight(from, key)]);
  const out = query === null ? [] : shown.map((to, at) => [row, at, weight(query, to)]);
  return [...into, ...out];
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
  const lines = (of) => linesOf(weights, map, shown, of, largest);
  const isAll = query === null && key === null;
  const list = isAll ? lines(chosen) : [];
  drawLines(context, layout, list, largest, palette.out);
  if (key !== null) drawLines(context, layout, lines({ query: null, key }), largest, palette.into);
  if (query !== null) drawLines(context, layout, lines({ query, key: null }), largest, palette.out);
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

/**
 * Draws several heads over each other, each in its colour. Beside a token that is pointed at, the
 * others have a stripe for each head.
 * @param {object} head weights, shown, largest, and the places that are drawn
 */
export function drawHeads(context, layout, head, chosen, palette) {
  const { weights, shown, largest, drawn } = head;
  const { query, key } = chosen;
  const { row, label, width } = layout;
  const maps = drawn.map((place) => weights.map(place.row, place.column));
  const colours = drawn.map(({ column }) => palette.head(column, weights.columns));
  let count = 0;
  maps.forEach((map, at) => {
    const list = linesOf(weights, map, shown, chosen, largest, LINES / maps.length);
    drawLines(context, layout, list, largest, colours[at]);
    count += list.length;
  });
  const stripes = (x, weightOf) =>
    shown.forEach((position, at) => {
      maps.forEach((map, number) => {
        const share = weightOf(map, position) / largest;
        context.fillStyle = tint(colours[number], 0.75 * share);
        context.fillRect(x + (number * label) / maps.length, at * row + 1, label / maps.length, row - 2);
      });
    });
  if (query !== null) stripes(width - label, (map, to) => map[query * weights.size + to]);
  if (key !== null) stripes(0, (map, from) => map[from * weights.size + key]);
  const own = (position, one) => (position === one ? { colour: tint(palette.grey, 0.35) } : null);
  const shares = {
    query: (position) => own(position, query),
    key: (position) => (query === null ? own(position, key) : null),
  };
  drawLabels(context, layout, shown, shares, palette);
  return { drawn: count, all: maps.length * shown.length ** 2 };
}

/** What is under a point of the head view: a position, on the side of queries or of keys. */
export function headAt(layout, shown, x, y) {
  const position = shown[Math.floor(y / layout.row)] ?? null;
  return x < layout.width / 2 ? { query: position, key: null } : { query: null, key: position };
}
