/**
 * Reads the colours for canvases from the style sheet, light or dark.
 */

const STOPS = ["--heat-0", "--heat-1", "--heat-2", "--heat-3"];
const SHADES = 256;

function channels(hex) {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

/** The current colours; read again when the scheme changes. */
export function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const stops = STOPS.map((name) => channels(colour(name)));
  const shades = [];
  for (let shade = 0; shade < SHADES; shade += 1) {
    const place = (shade / (SHADES - 1)) * (stops.length - 1);
    const below = Math.min(Math.floor(place), stops.length - 2);
    const part = place - below;
    shades.push(stops[below].map((value, at) => value + part * (stops[below + 1][at] - value)));
  }
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
    // One number a pixel, as ImageData holds it on little-endian machines; browsers run on no others.
    pixels: Uint32Array.from(
      shades,
      ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0,
    ),
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
  const [red, green, blue] = channels(palette.paper).map((from, at) =>
    Math.round(from + share * (colour[at] - from)),
  );
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** A colour with an opacity. */
export function tint(colour, share) {
  return `rgba(${colour.join(", ")}, ${share.toFixed(3)})`;
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

/**
 * The channels of a hue, after "CSS Color Module Level 4", section 7.1.
 * @param {number} hue in degrees
 * @param {number} light lightness, a share
 */
function ofHue(hue, light) {
  const chroma = 0.7 * Math.min(light, 1 - light);
  return [0, 8, 4].map((offset) => {
    const at = (offset + hue / 30) % 12;
    return Math.round(255 * (light - chroma * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  });
}
