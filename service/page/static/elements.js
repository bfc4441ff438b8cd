/** Makes and finds elements; text never becomes markup. */

/**
 * The element of an id.
 * @type {function(string): any} each has members of its own kind
 */
export const byId = (id) => document.getElementById(id);

/**
 * The first element inside another that a selector finds.
 * @type {function(Element, string): any} each has members of its own kind
 */
export const find = (element, selector) => element.querySelector(selector);

/** An element with properties, and with text or children. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Options of a `select`: their texts, with their places as values. */
export const options = (texts) =>
  texts.map((textContent, at) => make("option", { value: String(at), textContent }));

export const range = (count) => Array.from({ length: count }, (_, at) => at);

export const heading = (textContent, scope = "col", more = {}) =>
  make("th", { textContent, scope, ...more });

/**
 * A table whose rows begin with a heading.
 * @param {Element[]} top rows of the head
 * @param {{name: string | Element, cells: (string | Element)[]}[]} rows
 */
export function table(caption, top, rows) {
  const lines = rows.map(({ name, cells }) => {
    const all = cells.map((cell) => make("td", {}, cell));
    return make("tr", {}, make("th", { scope: "row" }, name), ...all);
  });
  const title = caption === null ? [] : [make("caption", { textContent: caption })];
  return make("table", {}, ...title, make("thead", {}, ...top), make("tbody", {}, ...lines));
}

const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

/** Moves the focus along a list of elements, where a key says so. */
export function moveFocus(event, elements) {
  const current = elements.indexOf(document.activeElement);
  if (current < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
  const last = elements.length - 1;
  let next = current + (STEPS[event.key] ?? 0);
  if (event.key === "Home") next = 0;
  else if (event.key === "End") next = last;
  else if (!(event.key in STEPS)) return;
  event.preventDefault();
  elements[Math.min(Math.max(next, 0), last)].focus();
}

/** Lets the Tab key reach one element of a list; the arrow keys lead to the others. */
export function rove(elements, current) {
  elements.forEach((element, at) => {
    element.tabIndex = at === current ? 0 : -1;
  });
}
