/**
 * Draws maps of a long text as SVG with a picture of each: a square for each weight would make a
 * file that hardly opens.
 */

import { encodedPng } from "./image.js";
import { paint } from "./heatmap.js";
import { shadeOf } from "./palette.js";
import { verdictText } from "./verdict.js";
import { placeName, short } from "./words.js";

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
