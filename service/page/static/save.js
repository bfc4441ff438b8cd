/**
 * Saves what a panel shows: SVG, JSON, CSV and NPZ as the service writes them, joined from parts
 * where one answer cannot hold all, and PNG as the page draws it.
 */

import { post } from "./api.js";
import { fields, partsOf } from "./attention.js";
import { drawGrid, drawImage, rasterSvg } from "./image.js";
import { joinNpz } from "./npz.js";

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

/** Saves one map or all of the grid, and returns the name of the file; throws a Problem. */
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
  const { layers, heads } = isOne ? weights.numbersOf(row, column) : weights;
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

async function joinParts(format, parts, layers, heads) {
  if (parts.length === 1) return parts[0];
  if (format === "npz") {
    const archives = await Promise.all(parts.map((part) => part.arrayBuffer()));
    return new Blob(joinNpz(archives, layers, heads), { type: "application/x-npz" });
  }
  const { type } = parts[0];
  if (format === "csv") {
    const header = (await parts[0].slice(0, 1000).text()).indexOf("\r\n") + 2;
    return new Blob([parts[0], ...parts.slice(1).map((part) => part.slice(header))], { type });
  }
  const texts = await Promise.all(parts.map((part) => part.text()));
  return new Blob(format === "svg" ? stacked(texts) : joinedJson(texts, layers, heads), { type });
}

function joinedJson(texts, layers, heads) {
  const answers = texts.map((text) => JSON.parse(text));
  const maps = answers.flatMap(({ attention }) => attention.flat());
  const columns = maps.length / layers.length;
  const attention = layers.map((_, row) => maps.slice(row * columns, (row + 1) * columns));
  return [JSON.stringify({ ...answers[0], layers, heads, attention })];
}

function stacked(texts) {
  const opening = /<svg [^>]*>/;
  const sizes = texts.map((text) => {
    const tag = opening.exec(text)?.[0] ?? "";
    return ["width", "height"].map((name) => Number(new RegExp(` ${name}="(\\d+)"`).exec(tag)?.[1]));
  });
  const width = Math.max(...sizes.map(([wide]) => wide));
  const height = sizes.reduce((sum, [, high]) => sum + high, 0);
  let top = 0;
  const inner = texts.map((text, at) => {
    const placed = text.slice(text.indexOf("<svg ")).replace("<svg ", `<svg x="0" y="${top}" `);
    top += sizes[at][1];
    return placed;
  });
  const root =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" role="img"><title>Attention weights</title>`;
  return [root, '<rect width="100%" height="100%" fill="#ffffff"/>', ...inner, "</svg>\n"];
}
