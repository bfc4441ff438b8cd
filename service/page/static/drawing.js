/** Draws heat maps, small and large, and the head view: a line from each query to each key. */

import { labels, shadeOf, signedPixel, tint, widest } from "./canvas.js";
import { isNothing, reader, shownCells } from "./weights.js";

const CELL = [3, 26]; // CSS pixels
const LARGEST_FONT = 13;
const NAMED = 30; // tokens of a map
const LABELLED = 10; // the smallest cell beside which a token can be read

export function drawSmall(canvas, cells, largest, palette) {
  const pixelAt = (cell) => palette.pixels[shadeOf(cells[cell], largest)];
  const side = Math.sqrt(cells.length);
  paint(canvas, side, side, pixelAt);
}

/** Fills a canvas, one pixel a cell. */
export function paint(canvas, width, height, pixelAt) {
  Object.assign(canvas, { width, height });
  // Kept in memory: it is only ever filled from there.
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let cell = 0; cell < pixels.length; cell += 1) pixels[cell] = pixelAt(cell);
  context.putImageData(image, 0, 0);
}

export function mapLayout(context, weights, shown, room) {
  // Where no token is named, it fits into one view with the grid.
  const width = shown.length > NAMED ? Math.min(room, Math.max(320, window.innerHeight - 520)) : room;
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
  const { shown, largest } = head;
  const { cell, gutter, side } = layout;
  const cells = shownCells(head);
  const small = document.createElement("canvas");
  paint(small, shown.length, shown.length, (at) =>
    head.isSigned
      ? signedPixel(palette, cells[at], largest)
      : palette.pixels[shadeOf(cells[at], largest)],
  );
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

export function mapAt(layout, shown, x, y) {
  const place = (distance) => shown[Math.floor((distance - layout.gutter) / layout.cell)] ?? null;
  const [query, key] = [place(y), place(x)];
  return { query, key };
}

const LINES = 3600; // nobody can tell more apart: then only the strongest are drawn
const FAINT = 0.02; // share of the largest weight below which a line cannot be seen
const LEVELS = 16;

export function headLayout(context, weights, shown, width) {
  const row = shown.length > NAMED ? 16 : 24; // CSS pixels
  const size = row > 20 ? 14 : 12;
  const tokens = shown.map((at) => weights.tokens[at]);
  const label = Math.ceil(Math.min(widest(context, tokens, size) + 16, width * 0.36));
  const texts = labels(context, tokens, size, label - 14);
  return { row, label, width, height: row * shown.length, texts };
}

/** The weight from which on about so many lines are drawn. */
function threshold(cells, largest, most) {
  const counts = new Uint32Array(1024);
  for (const weight of cells) counts[Math.min(1023, Math.floor((weight / largest) * 1024))] += 1;
  let left = most;
  let bin = 1023;
  while (bin > 0 && counts[bin] <= left) {
    left -= counts[bin];
    bin -= 1;
  }
  return ((bin + 1) / 1024) * largest;
}

/** The strongest lines of a head: [row of query, row of key, weight]. */
function strongest(head, most) {
  const { shown, largest } = head;
  const cells = shownCells(head);
  const enough = cells.length > most ? threshold(cells, largest, most) : 0;
  const least = Math.max(enough, FAINT * largest);
  const found = [];
  cells.forEach((weight, at) => {
    if (weight < least || weight <= 0) return;
    found.push([Math.floor(at / shown.length), at % shown.length, weight]);
  });
  return found;
}

/** The lines of a head: of the chosen position, or of all the strongest. */
function linesOf(head, { query, key }, most = LINES) {
  const { shown } = head;
  if (isNothing({ query, key })) return strongest(head, most);
  const weightOf = reader(head);
  const [row, column] = [shown.indexOf(query), shown.indexOf(key)];
  const into = key === null ? [] : shown.map((from, at) => [at, column, weightOf(from, key)]);
  const out = query === null ? [] : shown.map((to, at) => [row, at, weightOf(query, to)]);
  return [...into, ...out];
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

function drawLabels(context, layout, shown, colours, palette) {
  const { row, label, width, texts } = layout;
  context.textBaseline = "middle";
  shown.forEach((position, at) => {
    const [text, font] = texts[at];
    context.font = font;
    const middle = (at + 0.5) * row + 1;
    for (const side of ["query", "key"]) {
      const x = side === "query" ? 0 : width - label;
      const colour = colours[side](position);
      if (colour !== null) {
        context.fillStyle = colour;
        context.fillRect(x, at * row + 1, label, row - 2);
      }
      context.fillStyle = palette.ink;
      context.textAlign = side === "query" ? "right" : "left";
      const edge = side === "query" ? label - 8 : width - label + 8;
      context.fillText(text, edge, middle);
    }
  });
}

/** Draws the head view from (0, 0) on, and returns how many lines it has. */
export function drawHead(context, layout, head, chosen, palette) {
  const { shown, largest } = head;
  const { query, key } = chosen;
  const weightOf = reader(head);
  const draw = (of, colour) => {
    const lines = linesOf(head, of);
    drawLines(context, layout, lines, largest, colour);
    return lines.length;
  };
  const drawn = isNothing(chosen) ? draw(chosen, palette.out) : 0;
  if (key !== null) draw({ query: null, key }, palette.into);
  if (query !== null) draw({ query, key: null }, palette.out);
  const shade = (colour, weight) => tint(colour, 0.06 + (0.34 * weight) / largest);
  const colours = {
    query(position) {
      if (position === query) return tint(palette.out, 0.3);
      return key === null ? null : shade(palette.into, weightOf(position, key));
    },
    key(position) {
      if (position === key && query === null) return tint(palette.into, 0.3);
      return query === null ? null : shade(palette.out, weightOf(query, position));
    },
  };
  drawLabels(context, layout, shown, colours, palette);
  return { drawn, all: shown.length ** 2 };
}

/**
 * Draws several heads over each other, each in its colour. Beside a token that is pointed at, the
 * others have a stripe for each head.
 */
export function drawHeads(context, layout, head, chosen, palette) {
  const { weights, shown, largest } = head;
  const { query, key } = chosen;
  const { row, label, width } = layout;
  const heads = head.drawn.map((place) => ({ ...head, ...place }));
  const colours = heads.map(({ column }) => palette.head(column, weights.columns));
  let drawn = 0;
  heads.forEach((one, at) => {
    const lines = linesOf(one, chosen, LINES / heads.length);
    drawLines(context, layout, lines, largest, colours[at]);
    drawn += lines.length;
  });
  const readers = heads.map(reader);
  const stripe = label / heads.length;
  const stripes = (x, weightOf) =>
    shown.forEach((position, at) => {
      readers.forEach((read, number) => {
        context.fillStyle = tint(colours[number], (0.75 * weightOf(read, position)) / largest);
        context.fillRect(x + number * stripe, at * row + 1, stripe, row - 2);
      });
    });
  if (query !== null) stripes(width - label, (read, to) => read(query, to));
  if (key !== null) stripes(0, (read, from) => read(from, key));
  const own = (position, one) => (position === one ? tint(palette.grey, 0.35) : null);
  drawLabels(context, layout, shown, {
    query: (position) => own(position, query),
    key: (position) => (query === null ? own(position, key) : null),
  }, palette);
  return { drawn, all: heads.length * shown.length ** 2 };
}

/** What is under a point of the head view: a position, on the side of queries or of keys. */
export function headAt(layout, shown, x, y) {
  const position = shown[Math.floor(y / layout.row)] ?? null;
  return x < layout.width / 2 ? { query: position, key: null } : { query: null, key: position };
}
