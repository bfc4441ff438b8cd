/**
 * Saves what a panel shows: SVG, JSON, CSV and NPZ as the service writes them, in parts where one
 * answer cannot hold all, and PNG as the page draws it.
 */

import { post } from "./api.js";
import { fields, partsOf } from "./attention.js";
import { drawGrid, drawImage } from "./image.js";
import { joinParts } from "./parts.js";
import { rasterSvg } from "./raster.js";

const LIMITS = {
  json: "max_attention_weights",
  npz: "max_attention_weights",
  csv: "max_csv_weights",
  svg: "max_svg_weights",
};

export function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The name of the file, such as headlight-layer-2-head-5.svg or headlight-mean.csv. */
function fileName(format, scope, { head, name, view, question }) {
  const what = scope === "one" ? name : `${view.reduce === "none" ? "all" : view.reduce}`;
  const plain = what.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const words = view.level === "word" ? "-words" : "";
  const part = question.windows > 1 ? `-window-${question.window}` : "";
  const isCut = head.shown.length < head.weights.size && format === "png";
  const changed = question.changes ? "-changed" : "";
  return `headlight-${plain}${words}${part}${changed}${isCut ? "-plain" : ""}.${format}`;
}

/**
 * Saves, and returns the name of the file; throws a Problem.
 * @param {string} format of the file
 * @param {string} scope `one` for the chosen map, `all` for those of the grid
 * @param {object} panel what is shown
 * @param {AbortSignal} signal ends the saving
 * @param {function(number): void} onProgress gets the share that is there, between 0 and 1
 */
export async function save(format, scope, panel, signal, onProgress) {
  const name = fileName(format, scope, panel);
  if (format === "png") offer(scope === "one" ? drawImage(panel) : drawGrid(panel), name);
  else offer(await fileOf(format, scope, panel, signal, onProgress), name);
  return name;
}

async function fileOf(format, scope, panel, signal, onProgress) {
  const { weights, row, column } = panel.head;
  const { question } = panel;
  const isOne = scope === "one";
  const layers = isOne && !weights.oneRow ? [weights.layers[row]] : weights.layers;
  const heads = isOne && !weights.oneColumn ? [weights.heads[column]] : weights.heads;
  const each = weights.size ** 2;
  const most = question.model.limits[LIMITS[format]];
  // A picture with a square for each weight would be too large to open.
  if (format === "svg" && each > most) return rasterSvg(panel, isOne);
  const ranges = partsOf({ ...question, layers, heads }, each, most);
  const parts = [];
  for (const range of ranges) {
    const [someLayers, someHeads] = [layers.slice(...range.layers), heads.slice(...range.heads)];
    const body = { ...fields(question, someLayers, someHeads), format };
    parts.push(await post("/attention", body, signal, "blob"));
    onProgress(parts.length / ranges.length);
  }
  return joinParts(format, parts, layers, heads);
}
