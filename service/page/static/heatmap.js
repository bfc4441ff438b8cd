/**
 * Draws heat maps: small ones for the grid, a large one with its tokens.
 */

import { labels, widest } from "./label.js";
import { shadeOf, signedPixel, tint } from "./palette.js";

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
