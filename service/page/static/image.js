/** Draws pictures to save: PNG of what is on screen or of all maps, and SVG of long texts. */

import { font } from "./canvas.js";
import { drawSmall } from "./drawing.js";
import { largestOf, scaleEnd, shownCells } from "./weights.js";
import { percent, placeName, short } from "./words.js";

const SCALE = 2; // pixels for each CSS pixel
const MARGIN = 24;
const HEADER = 74;
const FOOTER = 34;
const SMALL = 144; // pixels of the side of a map in a picture of all
const TITLE = 22;

function drawScale(context, x, y, largest, palette) {
  const width = 120;
  palette.shades.forEach((shade, at) => {
    context.fillStyle = shade;
    context.fillRect(x + 16 + (at * width) / palette.shades.length, y - 6, 1, 12);
  });
  context.fillStyle = palette.quiet;
  context.fillText("0", x, y);
  context.fillText(short(largest), x + width + 24, y);
}

/** A canvas of a size in CSS pixels on paper, and what to draw on it with. */
function sheet(width, height, scale, palette) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, width, height);
  context.textBaseline = "middle";
  context.fillStyle = palette.ink;
  return { canvas, context };
}

function mapOf(cells, size, palette) {
  const canvas = document.createElement("canvas");
  const largest = scaleEnd(largestOf(cells), size);
  drawSmall(canvas, cells, largest, palette);
  return { canvas, largest };
}

function source({ head }) {
  const { model, document: about } = head.weights;
  return `${about.prediction.label}, ${percent(about.prediction.score)}; ${model.name} ${model.version}`;
}

/** PNG of the pictures of a panel that are on screen, with a title and a scale. */
export function drawImage(panel) {
  const { head, name, palette, picture } = panel;
  const plans = picture.visible.map(({ plan }) => plan);
  const width = plans.reduce((sum, plan) => sum + plan.width + MARGIN, MARGIN);
  const height = HEADER + Math.max(...plans.map((plan) => plan.height)) + FOOTER;
  const scale = Math.min(SCALE, 16000 / Math.max(width, height));
  const { canvas, context } = sheet(width, height, scale, palette);
  context.font = font(16, { weight: "600" });
  context.fillText(name, MARGIN, 26);
  context.font = font(12);
  drawScale(context, MARGIN, 52, head.largest, palette);
  context.fillText(source(panel), MARGIN, height - FOOTER / 2);
  let left = MARGIN;
  for (const { plan, draw } of picture.visible) {
    context.save();
    context.translate(left, HEADER);
    draw(context, plan, head, picture.chosen, palette);
    context.restore();
    left += plan.width + MARGIN;
  }
  return pngOf(canvas);
}

/** PNG of all maps of the grid, each on a scale of its own. */
export function drawGrid(panel) {
  const { head, view, palette } = panel;
  const { weights, shown } = head;
  const bold = font(12, { weight: "600" });
  const note = `${source(panel)}. Each map is on a scale of its own.`;
  const places = weights.places();
  const names = places.map(({ row, column }) => placeName(weights, row, column, view.reduce));
  const { context: measure } = sheet(1, 1, 1, palette);
  measure.font = bold;
  const wide = (text) => measure.measureText(text).width;
  const pitch = Math.max(SMALL, ...names.map(wide)) + MARGIN;
  const width = Math.ceil(Math.max(weights.columns * pitch, wide(note) + MARGIN) + MARGIN);
  const height = weights.rows * (SMALL + TITLE + MARGIN) + MARGIN + FOOTER;
  const { canvas, context } = sheet(width, height, 1, palette);
  context.imageSmoothingEnabled = false;
  context.strokeStyle = palette.line;
  context.font = bold;
  places.forEach(({ row, column }, at) => {
    const [x, y] = [MARGIN + column * pitch, MARGIN + row * (SMALL + TITLE + MARGIN)];
    context.fillText(names[at], x, y + TITLE / 2);
    context.drawImage(mapOf(weights.cells(row, column, shown), weights.size, palette).canvas, x, y + TITLE, SMALL, SMALL);
    context.strokeRect(x + 0.5, y + TITLE + 0.5, SMALL - 1, SMALL - 1);
  });
  context.fillStyle = palette.quiet;
  context.font = font(12);
  context.fillText(note, MARGIN, height - FOOTER / 2 - 6);
  return pngOf(canvas);
}

/** Makes the file at once: busy browsers can delay `toBlob` for seconds. */
function pngOf(canvas) {
  const bytes = Uint8Array.from(atob(encodedPng(canvas)), (character) => character.charCodeAt(0));
  return new Blob([bytes], { type: "image/png" });
}

const encodedPng = (canvas) => canvas.toDataURL("image/png").split(",")[1];

const SIDE = 480; // of a single map, in pixels; those of a grid are a quarter
const GAP = 24;
const TOP = 64;
const CHARACTER = 7; // pixels, of the monospaced font

/**
 * SVG with a picture of each map: a square for each weight of a long text would make a file that
 * hardly opens. It has only the chosen map, or all maps of the grid as thumbnails.
 */
export function rasterSvg(panel, isOne) {
  const { head, view, palette } = panel;
  const { weights, shown } = head;
  const places = isOne ? [{ row: head.row, column: head.column }] : weights.places();
  const side = isOne ? SIDE : SIDE / 4;
  const columns = isOne ? 1 : weights.columns;
  const notes = [source(panel), sizeNote(shown.length, isOne)];
  const titles = places.map(({ row, column }) => placeName(weights, row, column, view.reduce));
  const wide = (text) => CHARACTER * text.length;
  const pitch = Math.max(side, ...titles.map(wide)) + GAP;
  const maps = places.map(({ row, column }, at) => {
    const cells = isOne ? shownCells(head) : weights.cells(row, column, shown);
    const [x, y] = [GAP + (at % columns) * pitch, TOP + Math.floor(at / columns) * (side + GAP + 36)];
    return mapElement(mapOf(cells, weights.size, palette), titles[at], x, y, side);
  });
  const width = Math.ceil(Math.max(columns * pitch, ...notes.map(wide))) + 2 * GAP;
  const height = TOP + Math.ceil(places.length / columns) * (side + GAP + 36) + GAP;
  const lines = notes.map((line, at) => `<text x="${GAP}" y="${24 + 18 * at}">${escaped(line)}</text>`);
  const root =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" role="img" font-family="ui-monospace, monospace" font-size="11">`;
  const paper = `<rect width="100%" height="100%" fill="${palette.paper}"/>`;
  const ink = `<g fill="${palette.ink}">`;
  const file = [root, "<title>Attention weights</title>", paper, ink, ...lines, ...maps, "</g></svg>\n"];
  return new Blob(file, { type: "image/svg+xml" });
}

function mapElement({ canvas, largest }, title, x, y, side) {
  return (
    `<g transform="translate(${x} ${y})"><text y="11" font-weight="bold">${escaped(title)}</text>` +
    `<text y="${side + 34}" fill="#666666">0 to ${short(largest)}</text>` +
    `<image y="18" width="${side}" height="${side}" image-rendering="pixelated" ` +
    `href="data:image/png;base64,${encodedPng(canvas)}"/></g>`
  );
}

function sizeNote(tokens, isOne) {
  const count = `${tokens} × ${tokens}`;
  if (isOne) return `${count} weights: each row looks, each column is looked at.`;
  return `Thumbnails of ${count} weights: each cell is the largest of several.`;
}

const NAMES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const escaped = (text) => text.replaceAll(/[&<>]/g, (character) => NAMES[character]);
