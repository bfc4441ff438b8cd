/**
 * Saves what a panel shows: SVG, JSON, CSV and NPZ as the service writes them, in parts where one
 * answer cannot hold all, and PNG as the page draws it.
 */
/**
 * Joins what the service answers in parts to one file: JSON, CSV, SVG or NPZ.
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

const ATTENTION = '"attention":';

/**
 * Joins parts, in the order of their layers and heads.
 * @param {string} format
 * @param {Blob[]} parts each of some layers, or of some heads of one layer
 * @param {number[]} layers of all parts; likewise `heads`
 * @returns {Promise<Blob>}
 */
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

/** JSON with the members of the first answer, and the weights of all. */
function joinedJson(texts, layers, heads) {
  // The weights come last, and hold numbers alone.
  const start = texts[0].lastIndexOf(ATTENTION);
  const head = JSON.parse(`${texts[0].slice(0, start)}"layers":[]}`);
  const before = JSON.stringify({ ...head, layers, heads }).slice(0, -1);
  const inner = texts.map((text) => {
    const at = text.lastIndexOf(ATTENTION) + ATTENTION.length;
    return text.slice(text.indexOf("[", at) + 1, text.lastIndexOf("]"));
  });
  const lists = inner.map((layersOfPart, at) => (at === 0 ? layersOfPart : `,${layersOfPart}`));
  return [before, ",", ATTENTION, "[", ...ofOneLayer(lists, heads, texts), "]}"];
}

/** Parts with some heads of a layer become lists of that layer. */
function ofOneLayer(lists, heads, texts) {
  const counts = texts.map((text) => JSON.parse(/"heads":(\[[\d,\s]*\])/.exec(text)?.[1] ?? "[]").length);
  if (counts.every((count) => count === heads.length)) return lists;
  let there = 0;
  return lists.map((list, at) => {
    const isFirst = there === 0;
    there = (there + counts[at]) % heads.length;
    const open = isFirst ? list : `,${list.slice(list.indexOf("[") + 1)}`;
    return there === 0 ? open : open.slice(0, open.lastIndexOf("]"));
  });
}

/** One picture of several, below each other. */
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
