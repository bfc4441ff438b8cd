/** Reads the colours of the style sheet, and gives each class its own. */

const channels = (hex) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const known = new Map();

/** The current colours; read once for each scheme. */
export function readPalette() {
  if (!known.has(dark.matches)) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => [name, channels(style.getPropertyValue(`--${name}`).trim())];
    known.set(dark.matches, Object.fromEntries(["out", "into", "grey", "violet", "green"].map(colour)));
  }
  return known.get(dark.matches);
}

export function tint(colour, share) {
  return `rgba(${colour.join(", ")}, ${share.toFixed(3)})`;
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
