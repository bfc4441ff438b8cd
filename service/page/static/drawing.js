/**
 * Draws heat maps, small and large. The large map looks as the service draws it for a report, on white
 * paper in a dark window too: so a darker cell is a larger weight everywhere.
 */

import { html, useLayoutEffect, useMemo, useRef, useState } from "./preact.js";
import { NOTHING, shownCells } from "./weights.js";

// As in the service's pictures.
const [INK, FRAME, WEIGHT] = ["#1a1a1a", "#8a8a8a", [11, 92, 173]];
const CHARACTER = 0.61; // width of a character in a font of size 1
const [MARGIN, LINE, FONT] = [16, 16, 11]; // pixels of a caption

const [OUT, INTO] = [[29, 91, 184], [176, 74, 0]];
const tint = (colour, share) => `rgb(${colour.join(" ")} / ${share.toFixed(3)})`;

/** The pixel of a colour on white, as ImageData holds it on little-endian machines; others run no browser. */
function pixelOf(colour, number, largest) {
  const share = largest > 0 ? Math.min(Math.abs(number) / largest, 1) : 0;
  const [red, green, blue] = colour.map((value) => Math.round(255 + share * (value - 255)));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Draws one map, a pixel a cell: weights from white, 0, to `largest`. */
export function drawSmall(canvas, cells, largest) {
  const side = Math.sqrt(cells.length);
  paint(canvas, side, side, (at) => pixelOf(WEIGHT, cells[at], largest));
}

/** Draws numbers as a row of cells: blue above 0, orange below, white at 0. */
export const drawRow = (canvas, numbers, largest) =>
  paint(canvas, numbers.length, 1, (at) => pixelOf(numbers[at] < 0 ? INTO : OUT, numbers[at], largest));

function paint(canvas, width, height, pixelAt) {
  Object.assign(canvas, { width, height });
  // Kept in memory: it is only ever filled from there.
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let cell = 0; cell < pixels.length; cell += 1) pixels[cell] = pixelAt(cell);
  context.putImageData(image, 0, 0);
}

const NAMED = 30; // tokens of a map
const CELL = [1, 26]; // CSS pixels
const LABELLED = 8; // the smallest cell beside which a token can be read

/** A heat map: where its cells are, what is drawn around them, and what is at a point. */
function layMap(shown, tokens, { query, key }, room) {
  // Where no token is named, it fits into one view with what stands above it.
  const width = shown.length > NAMED ? Math.min(room, Math.max(320, window.innerHeight - 410)) : room;
  const longest = Math.max(...tokens.map(({ text }) => text.length));
  const named = Math.min(longest * 13 * CHARACTER + 10, 110, width * 0.3);
  const fit = (gutter) => Math.floor((width - gutter - 10) / shown.length);
  const gutter = fit(named) >= LABELLED ? named : 0;
  const cell = Math.max(CELL[0], Math.min(CELL[1], fit(gutter)));
  const side = cell * shown.length;
  const size = Math.min(13, cell);
  const most = Math.floor((gutter - 8) / size / CHARACTER); // characters of a name
  const names = gutter > 0 && tokens.map(({ text, special }, at) => {
    const middle = gutter + (at + 0.5) * cell;
    const characters = [...text.slice(0, 2 * most + 1)];
    const written = characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : text;
    const name = (fill, place) => html`<text font-size=${size} font-style=${special ? "italic" : "normal"}
      dominant-baseline="central" fill=${fill} ...${place}>${written}</text>`;
    return [
      name(shown[at] === query ? tint(OUT, 1) : INK, { x: gutter - 5, y: middle, "text-anchor": "end" }),
      name(shown[at] === key ? tint(INTO, 1) : INK, { transform: `translate(${middle} ${gutter - 5}) rotate(-90)` }),
    ];
  });
  const frame = (stroke, thick, x, y, across, down) => html`
    <rect x=${x} y=${y} width=${across} height=${down} fill="none" stroke=${stroke} stroke-width=${thick} />`;
  const start = (position) => gutter + shown.indexOf(position) * cell;
  const under = (distance) => shown[Math.floor((distance - gutter) / cell)] ?? null;
  return {
    side: gutter + side + (gutter > 0 ? 10 : 1),
    cells: { left: gutter, top: gutter, width: side, height: side },
    at: (x, y) => ({ query: under(y), key: under(x) }),
    body: [
      names,
      frame(FRAME, 1, gutter + 0.5, gutter + 0.5, side - 1, side - 1),
      key !== null && frame(tint(INTO, 1), 2, start(key), gutter + 1, cell, side - 2),
      query !== null && frame(tint(OUT, 1), 2, gutter + 1, start(query), side - 2, cell),
    ],
  };
}

/** One head large, as wide as there is room. */
export function Picture({ head, chosen, layout, words, onPoint }) {
  const { weights, name, shown, largest } = head;
  const [frame, canvas, [room, measure]] = [useRef(null), useRef(null), useState(300)];
  useLayoutEffect(() => measure(Math.floor(frame.current.parentElement.clientWidth)), [layout]);
  const { side, cells, at, body } = useMemo(
    () => layMap(shown, shown.map((each) => weights.tokens[each]), chosen, room),
    [head, room, chosen.query, chosen.key],
  );
  useLayoutEffect(() => drawSmall(canvas.current, shownCells(head), largest), [head]);
  // What is larger than its frame can be scrolled with the keys too.
  const scrolled = side > room ? { tabindex: 0, role: "region", "aria-label": "Heat map" } : {};
  const under = ({ currentTarget, clientX, clientY }) => {
    const { left, top } = currentTarget.getBoundingClientRect();
    return at(clientX - left, clientY - top);
  };
  return html`<div ref=${frame} class="map" ...${scrolled}><div class="paper" style=${{ width: side, height: side }}>
    <canvas aria-hidden="true" ref=${canvas} style=${cells} />
    <svg width=${side} height=${side} role="img" aria-label="${name} as a heat map. ${words}"
      onPointerMove=${(event) => onPoint(under(event), false)} onPointerLeave=${() => onPoint(NOTHING, false)}
      onClick=${(event) => onPoint(under(event), true)}>${body}</svg></div></div>`;
}

/** The service's picture with the sentence and the head above it: { blob, width, height }. */
export function captioned(svg, sentence, name) {
  const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  const [width, height] = ["width", "height"].map((side) => Number(picture.getAttribute(side)));
  const room = Math.floor((width - 2 * MARGIN) / FONT / CHARACTER);
  // XML has no way to write the other characters.
  const plain = sentence.replaceAll(/[^\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]+/gu, " ").trim();
  const lines = [...plain.matchAll(new RegExp(`(\\S.{0,${room - 1}})(?=\\s|$)|\\S{${room}}`, "gu")), [name]].map(([line]) => line.trim()).filter(Boolean);
  const top = MARGIN + LINE * lines.length;
  picture.querySelector("rect").setAttribute("y", String(-top));
  for (const [at, text] of lines.entries()) {
    const line = document.createElementNS(picture.namespaceURI, "text");
    for (const [key, value] of Object.entries({ x: MARGIN, y: LINE * (at + 1) - top + 6, fill: INK })) line.setAttribute(key, String(value));
    line.textContent = text;
    picture.append(line);
  }
  picture.setAttribute("height", String(height + top));
  picture.setAttribute("viewBox", `0 ${-top} ${width} ${height + top}`);
  const blob = new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" });
  return { blob, width, height: height + top };
}

/** A picture as pixels, two for one, as far as canvases go. */
export async function pngOf({ blob, width, height }) {
  const image = new Image();
  image.src = URL.createObjectURL(blob);
  try {
    await image.decode();
  } finally {
    URL.revokeObjectURL(image.src);
  }
  const scale = Math.min(2, 8000 / Math.max(width, height));
  const canvas = Object.assign(document.createElement("canvas"), { width: width * scale, height: height * scale });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => {
    canvas.toBlob(resolve);
  });
}
