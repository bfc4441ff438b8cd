/** Prepares what canvases need: colours from the style sheet, fonts, and tokens shortened to fit. */

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

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const known = new Map();

/** The current colours; read once for each scheme. */
export function readPalette() {
  if (!known.has(dark.matches)) known.set(dark.matches, coloursOf());
  return known.get(dark.matches);
}

function coloursOf() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const stops = STOPS.map((name) => channels(colour(name)));
  const shades = Array.from({ length: SHADES }, (_, shade) => {
    const place = (shade / (SHADES - 1)) * (stops.length - 1);
    const below = Math.min(Math.floor(place), stops.length - 2);
    return stops[below].map((value, at) => value + (place - below) * (stops[below + 1][at] - value));
  });
  return {
    ink: colour("--ink"),
    line: colour("--line"),
    paper: colour("--paper"),
    out: channels(colour("--out")),
    into: channels(colour("--into")),
    grey: channels(colour("--quiet")),
    violet: channels(colour("--violet")),
    green: channels(colour("--green")),
    pixels: Uint32Array.from(shades, pixelOf),
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

/** Gives a canvas its size in CSS pixels and its resolution. */
export function prepare(canvas, width, height) {
  // Browsers allow at most 16,384 pixels a side, some fewer.
  const scale = Math.min(window.devicePixelRatio || 1, 16000 / Math.max(width, height));
  Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  canvas.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
}

const NAMED = { negative: ["into", "dashed"], neutral: ["grey", "dotted"], positive: ["out", "solid"] };
const OTHERS = [["violet", "solid"], ["green", "dashed"], ["out", "dotted"], ["into", "double"]];
const COLOURS = { into: "orange", out: "blue", grey: "grey", violet: "violet" };
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
const MOST_CHARACTERS = 40; // of a token that is drawn; a wider one is squeezed

/** A font; special tokens are in italics, because paler ink would not show on a colour. */
const font = (size, special) => `${special ? "italic " : ""}${size}px ${FAMILY}`;

/** Tokens as canvases write them: [text, font]. */
export const labels = (tokens, size) =>
  tokens.map(({ text, special }) => {
    const characters = [...text.slice(0, 2 * MOST_CHARACTERS + 1)];
    const isLong = characters.length > MOST_CHARACTERS;
    return [isLong ? `${characters.slice(0, MOST_CHARACTERS).join("")}…` : text, font(size, special)];
  });

export const widest = (context, texts) =>
  Math.max(...texts.map(([text, itsFont]) => {
    context.font = itsFont;
    return context.measureText(text).width;
  }));
