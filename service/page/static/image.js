/** Draws what a panel shows as a PNG: the pictures on screen, a title, a scale and the model. */

import { font } from "./label.js";
import { KINDS } from "./picture.js";
import { verdictText } from "./verdict.js";
import { short } from "./words.js";

const SCALE = 2; // pixels for each CSS pixel
const MARGIN = 24;
const HEADER = 74;
const FOOTER = 34;

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

/** Makes the file at once: busy browsers can delay `toBlob` for seconds. */
function pngOf(canvas) {
  const [, encoded] = canvas.toDataURL("image/png").split(",");
  const bytes = Uint8Array.from(atob(encoded), (character) => character.charCodeAt(0));
  return new Blob([bytes], { type: "image/png" });
}
