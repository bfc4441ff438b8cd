/**
 * Draws PNGs of a panel: the pictures on screen, or all maps of the grid, with titles, a scale and the
 * model.
 */

import { paint } from "./heatmap.js";
import { font } from "./label.js";
import { shadeOf } from "./palette.js";
import { KINDS } from "./picture.js";
import { verdictText } from "./verdict.js";
import { placeName, short } from "./words.js";

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
export const encodedPng = (canvas) => canvas.toDataURL("image/png").split(",")[1];
