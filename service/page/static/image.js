/**
 * Draws PNGs of a panel: the pictures on screen, or all maps of the grid, with titles, a scale and the
 * model.
 */
/**
 * Draws maps of a long text as SVG with a picture of each: a square for each weight would make a
 * file that hardly opens.
 */

import { font, shadeOf } from "./canvas.js";
import { paint } from "./drawing.js";
import { KINDS } from "./picture.js";
import { placeName, short, verdictText } from "./words.js";

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

/**
 * Draws the image.
 * @param {object} panel head, name, palette, and its picture as it is on screen
 * @returns {Blob}
 */
export function drawImage(panel) {
  const { head, name, palette } = panel;
  const { chosen } = panel.picture;
  const plans = panel.picture.views
    .filter(({ frame }) => !frame.hidden)
    .map((view) => ({ plan: view.plan, draw: KINDS[view.name].draw }));
  const width = plans.reduce((sum, { plan }) => sum + plan.width + MARGIN, MARGIN);
  const height = HEADER + Math.max(...plans.map(({ plan }) => plan.height)) + FOOTER;
  const canvas = document.createElement("canvas");
  const scale = Math.min(SCALE, 16000 / Math.max(width, height));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, width, height);
  context.textBaseline = "middle";
  context.fillStyle = palette.ink;
  context.font = font(16, { weight: "600" });
  context.fillText(name, MARGIN, 26);
  context.font = font(12);
  drawScale(context, MARGIN, 52, head.largest, palette);
  const { model, document: told } = head.weights;
  const verdict = verdictText(told.prediction, panel.view.abstain);
  const said = `${verdict}; ${model.name} ${model.version}`;
  context.fillText(said, MARGIN, height - FOOTER / 2);
  let left = MARGIN;
  for (const { plan, draw } of plans) {
    context.save();
    context.translate(left, HEADER);
    draw(context, plan, head, chosen, palette);
    context.restore();
    left += plan.width + MARGIN;
  }
  return pngOf(canvas);
}

/**
 * Draws all maps of the grid, each on a scale of its own.
 * @param {object} panel head, view, palette
 * @returns {Blob}
 */
export function drawGrid({ head, view, palette }) {
  const { weights, shown } = head;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  context.font = font(12, { weight: "600" });
  const names = Array.from({ length: weights.rows * weights.columns }, (_, at) =>
    placeName(weights, Math.floor(at / weights.columns), at % weights.columns, view.reduce),
  );
  const told = `${verdictText(weights.document.prediction, view.abstain)}; ${weights.model.name} ${weights.model.version}. Each map is on a scale of its own.`;
  const pitch = Math.max(SMALL, ...names.map((name) => context.measureText(name).width)) + MARGIN;
  const wide = Math.max(weights.columns * pitch, context.measureText(told).width + MARGIN) + MARGIN;
  canvas.width = Math.ceil(wide);
  canvas.height = weights.rows * (SMALL + TITLE + MARGIN) + MARGIN + FOOTER;
  context.fillStyle = palette.paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.textBaseline = "middle";
  context.imageSmoothingEnabled = false;
  names.forEach((name, at) => {
    const [row, column] = [Math.floor(at / weights.columns), at % weights.columns];
    const [x, y] = [MARGIN + column * pitch, MARGIN + row * (SMALL + TITLE + MARGIN)];
    const cells = weights.cells(row, column, shown);
    const largest = cells.reduce((most, weight) => Math.max(most, weight), 0);
    const map = document.createElement("canvas");
    paint(map, Math.sqrt(cells.length), (cell) => palette.pixels[shadeOf(cells[cell], largest)]);
    context.fillStyle = palette.ink;
    context.font = font(12, { weight: "600" });
    context.fillText(name, x, y + TITLE / 2);
    context.drawImage(map, x, y + TITLE, SMALL, SMALL);
    context.strokeStyle = palette.line;
    context.strokeRect(x + 0.5, y + TITLE + 0.5, SMALL - 1, SMALL - 1);
  });
  context.fillStyle = palette.quiet;
  context.font = font(12);
  context.fillText(told, MARGIN, canvas.height - FOOTER / 2 - 6);
  return pngOf(canvas);
}

/** Makes the file at once: busy browsers can delay `toBlob` for seconds. */
function pngOf(canvas) {
  const bytes = Uint8Array.from(atob(encodedPng(canvas)), (character) => character.charCodeAt(0));
  return new Blob([bytes], { type: "image/png" });
}

/** What a canvas shows as PNG, in Base64. */
const encodedPng = (canvas) => canvas.toDataURL("image/png").split(",")[1];

const SIDE = 480; // of a map that is alone, in pixels; those of a grid are a quarter
const GAP = 24;
const TOP = 64;
const CHARACTER = 7; // pixels, of the monospaced font

/**
 * The file.
 * @param {object} panel what is shown
 * @param {boolean} isOne whether it has the chosen map alone, or all maps of the grid as thumbnails
 */
export function rasterSvg(panel, isOne) {
  const { head, view, palette } = panel;
  const { weights, shown } = head;
  const places = isOne
    ? [[head.row, head.column]]
    : Array.from({ length: weights.rows * weights.columns }, (_, at) => [
        Math.floor(at / weights.columns),
        at % weights.columns,
      ]);
  const side = isOne ? SIDE : SIDE / 4;
  const columns = isOne ? 1 : weights.columns;
  const told = headings(panel, isOne);
  const titles = places.map(([row, column]) => placeName(weights, row, column, view.reduce));
  const pitch = Math.max(side, ...titles.map((title) => CHARACTER * title.length)) + GAP;
  const maps = places.map(([row, column], at) => {
    const cells = isOne ? whole(weights, row, column, shown) : weights.cells(row, column, shown);
    const largest = cells.reduce((most, weight) => Math.max(most, weight), 0);
    const canvas = document.createElement("canvas");
    paint(canvas, Math.sqrt(cells.length), (cell) => palette.pixels[shadeOf(cells[cell], largest)]);
    const [x, y] = [GAP + (at % columns) * pitch, TOP + Math.floor(at / columns) * (side + GAP + 36)];
    const scale = `0 to ${short(largest)}`;
    return (
      `<g transform="translate(${x} ${y})"><text y="11" font-weight="bold">${escaped(titles[at])}</text>` +
      `<text y="${side + 34}" fill="#666666">${scale}</text>` +
      `<image y="18" width="${side}" height="${side}" image-rendering="pixelated" ` +
      `href="data:image/png;base64,${encodedPng(canvas)}"/></g>`
    );
  });
  const rows = Math.ceil(places.length / columns);
  const width = Math.ceil(Math.max(columns * pitch, ...told.map((line) => CHARACTER * line.length))) + 2 * GAP;
  const height = TOP + rows * (side + GAP + 36) + GAP;
  const lines = told.map((line, at) => `<text x="${GAP}" y="${24 + 18 * at}">${escaped(line)}</text>`);
  const root =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" role="img" font-family="ui-monospace, monospace" font-size="11">`;
  const paper = `<rect width="100%" height="100%" fill="${palette.paper}"/>`;
  const ink = `<g fill="${palette.ink}">`;
  const file = [root, "<title>Attention weights</title>", paper, ink, ...lines, ...maps, "</g></svg>\n"];
  return new Blob(file, { type: "image/svg+xml" });
}

function headings(panel, isOne) {
  const { weights, shown } = panel.head;
  const { name, version } = weights.model;
  const count = `${shown.length} × ${shown.length}`;
  return [
    `${verdictText(weights.document.prediction, panel.view.abstain)}; ${name} ${version}`,
    isOne
      ? `${count} weights: each row looks, each column is looked at.`
      : `Thumbnails of ${count} weights: each cell is the largest of several.`,
  ];
}

/** The weights of a map between the tokens that are shown. */
function whole(weights, row, column, shown) {
  const map = weights.map(row, column);
  const cells = new Float64Array(shown.length ** 2);
  shown.forEach((query, at) => {
    shown.forEach((key, its) => {
      cells[at * shown.length + its] = map[query * weights.size + key];
    });
  });
  return cells;
}

const NAMES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const escaped = (text) => text.replaceAll(/[&<>]/g, (character) => NAMES[character]);
