/** Writes one head's weights as a table, for those who cannot see a picture. */

import { attributes, make } from "./elements.js";
import { full, short } from "./words.js";

const CELLS = 3600;

/** Fills a `details` when it is open; a large table is only in the saved file. */
export function fillTable(details, head, caption) {
  const body = details.querySelector("div");
  if (!details.open) {
    body.replaceChildren();
    return;
  }
  const { weights, shown } = head;
  if (shown.length ** 2 > CELLS) {
    const note = `${shown.length} × ${shown.length} numbers are too many to read here: save them as CSV below.`;
    body.replaceChildren(make("p", { className: "note", textContent: note }));
    return;
  }
  const map = weights.map(head.row, head.column);
  const heading = (position, scope) =>
    attributes(make("th", { textContent: weights.tokens[position].text }), { scope });
  const top = make("tr", {}, make("td"), ...shown.map((key) => heading(key, "col")));
  const lines = shown.map((query) => {
    const cells = shown.map((key) => {
      const weight = map[query * weights.size + key];
      return make("td", { textContent: short(weight), title: full(weight) });
    });
    return make("tr", {}, heading(query, "row"), ...cells);
  });
  const text = `${caption}: a row is a token that looks, a column one that is looked at`;
  body.replaceChildren(
    make(
      "table",
      {},
      make("caption", { textContent: text }),
      make("thead", {}, top),
      make("tbody", {}, ...lines),
    ),
  );
}
