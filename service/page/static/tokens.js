/**
 * Shows the tokens of a head: as a row to point at, as lists of the largest weights, as a table.
 */

import { tint } from "./canvas.js";
import { moveFocus, rove } from "./elements.js";
import { h, html, render } from "./preact.js";
import { isNothing, pairsOf, ranked, reader } from "./weights.js";
import { full, quoted, short } from "./words.js";

export class Strip {
  /** `onPoint` gets a position or null, and whether the choice stays when the pointer leaves. */
  constructor(element, onPoint) {
    this.element = element;
    this.shown = [];
    const positionOf = ({ target }) => this.shown[this.buttons.indexOf(target)] ?? null;
    element.addEventListener("pointerover", (event) => onPoint(positionOf(event), false));
    element.addEventListener("pointerleave", () => onPoint(null, false));
    element.addEventListener("click", (event) => {
      if (positionOf(event) !== null) onPoint(positionOf(event), true);
    });
    element.addEventListener("focusin", (event) => {
      if (!event.target.matches(":focus-visible")) return; // a click follows, and is handled there
      rove(this.buttons, this.buttons.indexOf(event.target));
      onPoint(positionOf(event), true);
    });
    element.addEventListener("keydown", (event) => moveFocus(event, this.buttons));
  }

  get buttons() {
    return [...this.element.children];
  }

  /**
   * Colours the tokens by what the chosen one gives them, and marks that one; `changed` are the
   * positions whose token differs in the other sentence.
   */
  show(head, changed, chosen, palette) {
    const weightOf = reader(head);
    const isNew = head.shown !== this.shown;
    const focused = this.buttons.indexOf(document.activeElement);
    this.shown = head.shown;
    const tokens = this.shown.map((position) => {
      const { text, special } = head.weights.tokens[position];
      const isChanged = changed.has(position);
      const weight = chosen.query === null ? 0 : weightOf(chosen.query, position);
      const share = head.largest > 0 ? weight / head.largest : 0;
      const properties = {
        type: "button",
        class: `${special ? "special" : ""} ${isChanged ? "changed" : ""}`,
        title: isChanged ? "not in the other sentence" : null,
        "aria-pressed": position === (chosen.query ?? chosen.key),
        style: share > 0 ? `background-color: ${tint(palette.out, 0.4 * share)}` : "",
      };
      return h("button", properties, text);
    });
    render(tokens, this.element);
    if (!isNew) return;
    rove(this.buttons, Math.max(focused, 0));
    if (focused >= this.buttons.length) this.buttons.at(-1).focus();
  }
}

const LISTED = 5;
const SPOKEN = 3;

/** The tokens to which one gives most, or from which it gets most: [[position], weight]. */
function ofToken(head, position, isQuery, count = LISTED) {
  const weightOf = reader(head);
  const ofOther = ([other]) => (isQuery ? weightOf(position, other) : weightOf(other, position));
  return ranked(head.shown.map((other) => [other]), ofOther, count);
}

/** The pairs of tokens with the largest weights: [[query, key], weight]. */
function ofHead(head) {
  const weightOf = reader(head);
  return ranked(pairsOf(head.shown, head.shown), ([query, key]) => weightOf(query, key), LISTED);
}

/**
 * A list of tokens or of pairs of them, each with a figure. A query and its key stand in this order
 * also in texts from right to left.
 */
export const List = ({ name, heading, rows }) => html`
  <div class=${name}>${heading}<ol>${rows.map(({ names, figure, title, bar }) => html`
    <li>${bar && html`<span class="bar" aria-hidden="true" style=${bar} />`}
      <span class="name"><bdi>${names[0]}</bdi>${names[1] && [" → ", html`<bdi>${names[1]}</bdi>`]}</span>
      <span class="figure" title=${title}>${figure}</span></li>`)}</ol></div>`;

/** The lists for the token that is pointed at, or else for the whole head. */
export function Lists({ head, chosen: { query, key }, palette }) {
  const { tokens } = head.weights;
  const list = (name, title, found, colour) => {
    const rows = found.map(([positions, weight]) => ({
      names: positions.map((position) => tokens[position].text),
      figure: short(weight),
      title: full(weight),
      bar: { width: `${((100 * weight) / (head.largest || 1)).toFixed(1)}%`, backgroundColor: tint(colour, 0.35) },
    }));
    return html`<${List} name=${name} heading=${html`<h4>${title}</h4>`} rows=${rows} />`;
  };
  if (isNothing({ query, key })) {
    const of = head.drawn.length > 1 ? ` of ${head.name.toLowerCase()}` : "";
    return list("out", `Largest weights${of}`, ofHead(head), palette.out);
  }
  const of = (position, isQuery, words, name) =>
    position !== null &&
    list(name, `${quoted(tokens[position])} ${words}`, ofToken(head, position, isQuery), palette[name]);
  return [of(query, true, "looks most at", "out"), of(key, false, "is looked at most by", "into")];
}

export function spoken(head, position) {
  const { tokens } = head.weights;
  const list = (isQuery) =>
    ofToken(head, position, isQuery, SPOKEN)
      .map(([[other], weight]) => `${quoted(tokens[other])} ${short(weight)}`)
      .join(", ");
  const token = quoted(tokens[position]);
  return `${token} looks most at ${list(true)}; it is looked at most by ${list(false)}.`;
}

const CELLS = 3600;

/** The weights as a table; a large one is only in the saved file. */
export function Table({ head, caption }) {
  const { weights, shown } = head;
  const count = shown.length;
  if (count ** 2 > CELLS) {
    return html`<p class="note">${count} × ${count} numbers are too many to read here: save them as CSV
      below.</p>`;
  }
  const weightOf = reader(head);
  const heading = (scope, position) => html`<th scope=${scope}>${weights.tokens[position].text}</th>`;
  const cell = (weight) => html`<td><span class="figure" title=${full(weight)}>${short(weight)}</span></td>`;
  return html`<table>
    <caption>${caption}: a row is a token that looks, a column one that is looked at</caption>
    <thead><tr><td />${shown.map((key) => heading("col", key))}</tr></thead>
    <tbody>${shown.map((query) => html`
      <tr>${heading("row", query)}${shown.map((key) => cell(weightOf(query, key)))}</tr>`)}</tbody>
  </table>`;
}
