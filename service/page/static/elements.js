/** Makes and finds elements; text never becomes markup. */

export const byId = (id) => document.getElementById(id);

/** An element with properties, and with text or children. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Sets several attributes. */
export function attributes(element, values) {
  for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
  return element;
}

/** Lets the Tab key reach one element of a list; the arrow keys lead to the others. */
export function rove(elements, current) {
  elements.forEach((element, at) => {
    element.tabIndex = at === current ? 0 : -1;
  });
}
