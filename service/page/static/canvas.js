/**
 * Prepares what canvases need: colours from the style sheet, fonts, and tokens shortened to fit.
 */

import { range } from "./elements.js";

const STOPS = ["--heat-0", "--heat-1", "--heat-2", "--heat-3"];
const SHADES = 256;

function channels(hex) {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

/**
 * One number a pixel, as ImageData holds it on little-endian machines; browsers run on no others.
 * @type {function(number[]): number}
 */
const pixelOf = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

let known = null;
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  known = null;
});

/** The current colours; read again when the scheme changes. */
export const readPalette = () => (known ??= coloursOf());

function coloursOf() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const stops = STOPS.map((name) => channels(colour(name)));
  const shades = range(SHADES).map((shade) => {
    const place = (shade / (SHADES - 1)) * (stops.length - 1);
    const below = Math.min(Math.floor(place), stops.length - 2);
    return stops[below].map((value, at) => value + (place - below) * (stops[below + 1][at] - value));
  });
  return {
    ink: colour("--ink"),
    quiet: colour("--quiet"),
    line: colour("--line"),
    paper: colour("--paper"),
    out: channels(colour("--out")),
    into: channels(colour("--into")),
    grey: channels(colour("--quiet")),
    violet: channels(colour("--violet")),
    green: channels(colour("--green")),
    head: (at, count) => ofHue((360 * at) / count, Number.parseFloat(colour("--head-light"))),
    pixels: Uint32Array.from(shades, pixelOf),
    shades: shades.map((shade) => `rgb(${shade.map(Math.round).join(", ")})`),
  };
}

/** The index of the shade for a weight on a scale from 0 to `largest`. */
export function shadeOf(weight, largest) {
  return largest > 0 ? Math.min(SHADES - 1, Math.round((weight / largest) * (SHADES - 1))) : 0;
}

/** The pixel of a number on a scale from -`largest` over 0, the paper, to `largest`. */
export function signedPixel(palette, number, largest) {
  const share = largest > 0 ? Math.min(Math.abs(number) / largest, 1) : 0;
  const colour = number < 0 ? palette.into : palette.out;
  return pixelOf(channels(palette.paper).map((from, at) => Math.round(from + share * (colour[at] - from))));
}

export function tint(colour, share) {
  return `rgba(${colour.join(", ")}, ${share.toFixed(3)})`;
}

/** Where an event is on a canvas, in CSS pixels. */
export function pointOn(canvas, { clientX, clientY }) {
  const { left, top } = canvas.getBoundingClientRect();
  return [clientX - left, clientY - top];
}

/** Gives a canvas its size in CSS pixels and its resolution, and returns what to draw with. */
export function prepare(canvas, width, height) {
  // Browsers allow at most 16,384 pixels a side, some fewer.
  const scale = Math.min(window.devicePixelRatio || 1, 16000 / Math.max(width, height));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return context;
}

/** The channels of a hue, after "CSS Color Module Level 4", section 7.1. */
function ofHue(hue, light) {
  const chroma = 0.7 * Math.min(light, 1 - light);
  return [0, 8, 4].map((offset) => {
    const at = (offset + hue / 30) % 12;
    return Math.round(255 * (light - chroma * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  });
}

const NAMED = {
  negative: ["into", "dashed"],
  neutral: ["grey", "dotted"],
  positive: ["out", "solid"],
};
const COLOURS = { into: "orange", out: "blue", grey: "grey", violet: "violet" };
const OTHERS = [
  ["violet", "solid"],
  ["green", "dashed"],
  ["out", "dotted"],
  ["into", "double"],
];
const FAINTEST = 0.08; // opacity at a probability that is chance
const STRONGEST = 0.4;

/** The colours of what speaks for a class and of what speaks against it, with their names. */
export function sidesOf(label) {
  const own = NAMED[label.toLowerCase()]?.[0] ?? "out";
  return [own, { into: "out", out: "into", grey: "violet" }[own]].map((colour) => [colour, COLOURS[colour]]);
}

/** The style of a class: the surer the verdict, the stronger its colour; the line tells it without. */
export function classStyle(label, classes, score, palette) {
  const [colour, line] = NAMED[label.toLowerCase()] ?? OTHERS[classes.indexOf(label) % OTHERS.length];
  const chance = 1 / classes.length;
  const strength = Math.max(0, (score - chance) / (1 - chance));
  return {
    backgroundColor: tint(palette[colour], FAINTEST + (STRONGEST - FAINTEST) * strength),
    textDecoration: `underline 2px ${line} ${tint(palette[colour], 1)}`,
  };
}

const FAMILY = '"Segoe UI", system-ui, sans-serif';
const MOST_CHARACTERS = 200; // characters: more fit on no canvas, and take long to measure

/** A font; special tokens are in italics, because paler ink would not show on a colour. */
export const font = (size, { special = false, weight = "" } = {}) =>
  [special ? "italic" : "", weight, `${size}px ${FAMILY}`].filter(Boolean).join(" ");

/** The first whole characters of a text, and whether they are all of it. */
function start(text) {
  const characters = [...text.slice(0, 2 * MOST_CHARACTERS + 1)].slice(0, MOST_CHARACTERS);
  return { characters, isAll: characters.join("").length === text.length };
}

function shortened(context, text, width) {
  const { characters, isAll } = start(text);
  const isRoom = (part) => context.measureText(part).width <= width;
  if (isAll && isRoom(text)) return text;
  const cut = (count) => `${characters.slice(0, count).join("")}…`;
  let [least, most] = [1, characters.length];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (isRoom(cut(middle))) least = middle;
    else most = middle - 1;
  }
  return cut(least);
}

export function widest(context, tokens, size) {
  return Math.max(
    ...tokens.map(({ text, special }) => {
      context.font = font(size, { special });
      return context.measureText(start(text).characters.join("")).width;
    }),
  );
}

export function labels(context, tokens, size, width) {
  return tokens.map(({ text, special }) => {
    const own = font(size, { special });
    context.font = own;
    return [shortened(context, text, width), own];
  });
}
