/**
 * Saves what a panel shows: SVG, JSON and CSV as the service writes them, PNG as the page draws
 * it.
 */

import { post } from "./api.js";
import { fields } from "./attention.js";
import { drawImage } from "./image.js";

function offer(blob, name) {
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
  return `headlight-${plain}${words}${part}${head.shown.length < head.weights.size && format === "png" ? "-plain" : ""}.${format}`;
}

/** Saves, and returns the name of the file; throws a Problem. */
export async function save(format, scope, panel) {
  const { weights, row, column } = panel.head;
  const name = fileName(format, format === "png" ? "one" : scope, panel);
  if (format === "png") {
    offer(drawImage(panel), name);
    return name;
  }
  const isOne = scope === "one";
  const layers = isOne && !weights.oneRow ? [weights.layers[row]] : weights.layers;
  const heads = isOne && !weights.oneColumn ? [weights.heads[column]] : weights.heads;
  const body = { ...fields(panel.question, layers, heads), format };
  offer(await post("/attention", body, undefined, "blob"), name);
  return name;
}
