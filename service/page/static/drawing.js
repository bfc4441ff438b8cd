/** Draws heat maps, small and large, and the head view: a line from each query to each key. */

import { labels, prepare, shadeOf, tint, widest } from "./canvas.js";
import { html, useLayoutEffect, useRef } from "./preact.js";
import { isNothing, NOTHING, reader, shownCells } from "./weights.js";
import { grouped } from "./words.js";

const CELL = [3, 26]; // CSS pixels
const LARGEST_FONT = 13;
const NAMED = 30; // tokens of a map
const LABELLED = 10; // the smallest cell beside which a token can be read

export function drawSmall(canvas, cells, largest, palette) {
  const pixelAt = (cell) => palette.pixels[shadeOf(cells[cell], largest)];
  const side = Math.sqrt(cells.length);
  paint(canvas, side, side, pixelAt);
}

/** Fills a canvas, one pixel a cell. */
export function paint(canvas, width, height, pixelAt) {
  Object.assign(canvas, { width, height });
  // Kept in memory: it is only ever filled from there.
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let cell = 0; cell < pixels.length; cell += 1) pixels[cell] = pixelAt(cell);
  context.putImageData(image, 0, 0);
}

export function mapLayout(context, weights, shown, room) {
  // Where no token is named, it fits into one view with the grid.
  const width = shown.length > NAMED ? Math.min(room, Math.max(320, window.innerHeight - 520)) : room;
  const tokens = shown.map((at) => weights.tokens[at]);
  const label = Math.ceil(Math.min(widest(context, labels(tokens, LARGEST_FONT)) + 10, 110, width * 0.3));
  const fit = (gutter) => Math.floor((width - gutter) / shown.length);
  const hasLabels = fit(label) >= LABELLED;
  const gutter = hasLabels ? label : 0;
  const cell = Math.max(CELL[0], Math.min(CELL[1], fit(gutter)));
  const texts = hasLabels ? labels(tokens, Math.min(LARGEST_FONT, cell + 1)) : null;
  const side = cell * shown.length;
  const extent = gutter + side + 1;
  return { cell, gutter, side, texts, width: extent, height: extent };
}

function drawTokens(context, layout, shown, chosen, palette) {
  const { cell, gutter, texts } = layout;
  context.textBaseline = "middle";
  shown.forEach((position, at) => {
    const [text, font] = texts[at];
    context.font = font;
    const middle = gutter + (at + 0.5) * cell;
    context.fillStyle = position === chosen.query ? tint(palette.out, 1) : palette.ink;
    context.textAlign = "right";
    context.fillText(text, gutter - 5, middle, gutter - 8);
    context.save();
    context.translate(middle, gutter - 5);
    context.rotate(-Math.PI / 2);
    context.fillStyle = position === chosen.key ? tint(palette.into, 1) : palette.ink;
    context.textAlign = "left";
    context.fillText(text, 0, 0, gutter - 8);
    context.restore();
  });
}

/** Draws the large map from (0, 0) on; its parameters are those of the head view. */
export function drawMap(context, layout, head, chosen, palette) {
  const { shown, largest } = head;
  const { cell, gutter, side } = layout;
  const small = document.createElement("canvas");
  drawSmall(small, shownCells(head), largest, palette);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, gutter, gutter, side, side);
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  context.strokeRect(gutter + 0.5, gutter + 0.5, side - 1, side - 1);
  if (layout.texts) drawTokens(context, layout, shown, chosen, palette);
  context.lineWidth = 2;
  const frame = (position, colour, isRow) => {
    const at = gutter + shown.indexOf(position) * cell;
    context.strokeStyle = tint(colour, 1);
    if (isRow) context.strokeRect(gutter + 1, at, side - 2, cell);
    else context.strokeRect(at, gutter + 1, cell, side - 2);
  };
  if (chosen.key !== null) frame(chosen.key, palette.into, false);
  if (chosen.query !== null) frame(chosen.query, palette.out, true);
}

export function mapAt(layout, shown, x, y) {
  const place = (distance) => shown[Math.floor((distance - layout.gutter) / layout.cell)] ?? null;
  const [query, key] = [place(y), place(x)];
  return { query, key };
}

const LINES = 3600; // nobody can tell more apart: then only the strongest are drawn
const FAINT = 0.02; // share of the largest weight below which a line cannot be seen
const LEVELS = 16;

export function headLayout(context, weights, shown, width) {
  const row = shown.length > NAMED ? 16 : 24; // CSS pixels
  const size = row > 20 ? 14 : 12;
  const tokens = shown.map((at) => weights.tokens[at]);
  const texts = labels(tokens, size);
  const label = Math.ceil(Math.min(widest(context, texts) + 16, width * 0.36));
  return { row, label, width, height: row * shown.length, texts };
}

/** The strongest lines of a head: [row of query, row of key, weight]. */
function strongest(head) {
  const { shown: { length }, largest } = head;
  const cells = shownCells(head);
  const enough = length ** 2 > LINES ? Float64Array.from(cells).sort().at(-LINES) : 0;
  const least = Math.max(enough, FAINT * largest, Number.MIN_VALUE);
  return cells.flatMap((weight, at) => (weight < least ? [] : [[Math.floor(at / length), at % length, weight]]));
}

function drawLines(context, layout, list, largest, colour) {
  const { row, label, width } = layout;
  const levels = Array.from({ length: LEVELS }, () => new Path2D());
  const middle = width / 2;
  for (const [from, to, weight] of list) {
    const path = levels[Math.min(LEVELS - 1, Math.floor((weight / largest) * LEVELS))];
    const [start, end] = [(from + 0.5) * row, (to + 0.5) * row];
    path.moveTo(label, start);
    path.bezierCurveTo(middle, start, middle, end, width - label, end);
  }
  levels.forEach((path, level) => {
    const share = (level + 0.5) / LEVELS;
    context.lineWidth = 0.5 + 3 * share;
    context.strokeStyle = tint(colour, 0.05 + 0.9 * share);
    context.stroke(path);
  });
}

function drawLabels(context, layout, shown, colours, palette) {
  const { row, label, width, texts } = layout;
  context.textBaseline = "middle";
  shown.forEach((position, at) => {
    const [text, font] = texts[at];
    context.font = font;
    const middle = (at + 0.5) * row + 1;
    for (const side of ["query", "key"]) {
      const x = side === "query" ? 0 : width - label;
      const colour = colours[side](position);
      if (colour !== null) {
        context.fillStyle = colour;
        context.fillRect(x, at * row + 1, label, row - 2);
      }
      context.fillStyle = palette.ink;
      context.textAlign = side === "query" ? "right" : "left";
      const edge = side === "query" ? label - 8 : width - label + 8;
      context.fillText(text, edge, middle, label - 14);
    }
  });
}

/** Draws the head view from (0, 0) on, and returns how many lines it has. */
export function drawHead(context, layout, head, chosen, palette) {
  const { shown, largest } = head;
  const { query, key } = chosen;
  const weightOf = reader(head);
  const draw = (lines, colour) => drawLines(context, layout, lines, largest, colour);
  const all = isNothing(chosen) ? strongest(head) : [];
  draw(all, palette.out);
  if (key !== null) draw(shown.map((from, at) => [at, shown.indexOf(key), weightOf(from, key)]), palette.into);
  if (query !== null) draw(shown.map((to, at) => [shown.indexOf(query), at, weightOf(query, to)]), palette.out);
  const shade = (colour, weight) => tint(colour, 0.06 + (0.34 * weight) / largest);
  const colours = {
    query(position) {
      if (position === query) return tint(palette.out, 0.3);
      return key === null ? null : shade(palette.into, weightOf(position, key));
    },
    key(position) {
      if (position === key && query === null) return tint(palette.into, 0.3);
      return query === null ? null : shade(palette.out, weightOf(query, position));
    },
  };
  drawLabels(context, layout, shown, colours, palette);
  return all.length;
}

/** What is under a point of the head view: a position, on the side of queries or of keys. */
export function headAt(layout, shown, x, y) {
  const position = shown[Math.floor(y / layout.row)] ?? null;
  return x < layout.width / 2 ? { query: position, key: null } : { query: null, key: position };
}

const THINNED = 60; // tokens above which only the strongest lines are drawn

/** How each kind of picture is laid out and drawn, and what is at a point of it. */
const KINDS = {
  lines: { lay: headLayout, draw: drawHead, at: headAt },
  map: { lay: mapLayout, draw: drawMap, at: mapAt },
};

/** Lets a picture that is wider than its frame be scrolled, with the keys too. */
function letScroll(frame, isWide, name) {
  for (const attribute of ["tabindex", "role", "aria-label"]) frame.removeAttribute(attribute);
  if (isWide) Object.assign(frame, { tabIndex: 0, role: "region", ariaLabel: name });
}

/** One head large; it is laid out again with each other cause. */
export function Picture({ head, view: { picture: kind }, palette, chosen, causes, words, onPoint }) {
  const { weights, name, shown } = head;
  const { lay, draw, at } = KINDS[kind];
  const [frame, canvas, note, plan] = [useRef(null), useRef(null), useRef(null), useRef(null)];
  useLayoutEffect(() => {
    const width = Math.floor(frame.current.clientWidth);
    plan.current = lay(canvas.current.getContext("2d"), weights, shown, width);
    prepare(canvas.current, plan.current.width, plan.current.height);
    const isHigher = kind !== "map" && frame.current.scrollHeight > frame.current.clientHeight;
    letScroll(frame.current, plan.current.width > width || isHigher, kind === "map" ? "Heat map" : "Lines");
    note.current.hidden = kind === "map" || shown.length <= THINNED;
  }, causes);
  useLayoutEffect(() => {
    const context = canvas.current.getContext("2d");
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, plan.current.width, plan.current.height);
    const lines = draw(context, plan.current, head, chosen, palette);
    if (!lines || !isNothing(chosen)) return;
    note.current.textContent = `The ${grouped(lines)} strongest of ${grouped(shown.length ** 2)} lines.`;
  }, [...causes, chosen.query, chosen.key]);
  const under = ({ clientX, clientY }) => {
    const { left, top } = canvas.current.getBoundingClientRect();
    return at(plan.current, shown, clientX - left, clientY - top);
  };
  return html`<div class=${kind} ref=${frame}>
      ${kind !== "map" && html`<div class="sides note" aria-hidden="true"><span>looks</span><span>is looked at</span></div>`}
      <canvas ref=${canvas} role="img" aria-label="${name} as ${kind === "map" ? "a heat map" : "lines"}. ${words}"
        onPointerMove=${(event) => onPoint(under(event), false)} onPointerLeave=${() => onPoint(NOTHING, false)}
        onClick=${(event) => onPoint(under(event), true)} />
    </div>
    <p class="lines-note note" ref=${note} />`;
}
