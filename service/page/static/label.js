/** Prepares texts for canvases: the font, and tokens shortened to fit. */

const FAMILY = '"Segoe UI", system-ui, sans-serif';
const MOST = 200; // characters: more fit on no canvas, and take long to measure

/** A font; special tokens are in italics, because paler ink would not show on a colour. */
export const font = (size, { special = false, weight = "" } = {}) =>
  [special ? "italic" : "", weight, `${size}px ${FAMILY}`].filter(Boolean).join(" ");

/** The first whole characters of a text, and whether they are all of it. */
function start(text) {
  const characters = [...text.slice(0, 2 * MOST + 1)].slice(0, MOST);
  return { characters, isAll: characters.join("").length === text.length };
}

/** A text shortened to a width. */
function fitted(context, text, width) {
  const { characters, isAll } = start(text);
  const isRoom = (shortened) => context.measureText(shortened).width <= width;
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

/** The width of the widest of some tokens. */
export function widest(context, tokens, size) {
  return Math.max(
    ...tokens.map(({ text, special }) => {
      context.font = font(size, { special });
      return context.measureText(start(text).characters.join("")).width;
    }),
  );
}

/** The text and font of each token, shortened to a width. */
export function labels(context, tokens, size, width) {
  return tokens.map(({ text, special }) => {
    const own = font(size, { special });
    context.font = own;
    return [fitted(context, text, width), own];
  });
}
