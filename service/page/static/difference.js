/**
 * Shows how the chosen head differs between two texts: the weights of the second less those of the
 * first, for tokens that belong together.
 */

import { pointOn, prepare } from "./canvas.js";
import { drawMap, mapAt, mapLayout } from "./drawing.js";
import { byId } from "./elements.js";
import { html, render } from "./preact.js";
import { List, Table } from "./tokens.js";
import { largestOf, NOTHING, ranked, reader } from "./weights.js";
import { full, POINT, quoted, short, signed } from "./words.js";

const LISTED = 5;
const LEGEND =
  "Weights of tokens that belong together, on one scale: blue where the second sentence has more, " +
  "orange where it has less.";

/**
 * Draws the difference.
 * @param {object[]} sides head of each text
 * @param {(number|null)[]} alignment for each position of the first text that of the second
 */
export function showDifference([first, second], alignment, name, palette) {
  const element = byId("difference");
  const pairs = first.shown
    .map((from) => [from, alignment[from]])
    .filter(([, to]) => to !== null && second.shown.includes(to));
  element.hidden = pairs.length === 0;
  if (element.hidden) return;
  const [before, after] = [reader(first), reader(second)];
  const numbers = pairs.flatMap(([query, its]) =>
    pairs.map(([key, other]) => after(its, other) - before(query, key)),
  );
  const tokens = pairs.map(([from, to]) => {
    const [one, other] = [first.weights.tokens[from].text, second.weights.tokens[to].text];
    return { text: one === other ? one : `${one}→${other}` };
  });
  const weights = { tokens, size: tokens.length, map: () => numbers };
  const shown = [...tokens.keys()];
  const head = { weights, row: 0, column: 0, shown, largest: largestOf(numbers.map(Math.abs)), isSigned: true };
  const readout = ({ query, key }) => {
    if (query === null || key === null) return `${POINT} a cell to read both weights.`;
    const was = before(pairs[query][0], pairs[key][0]);
    const change = reader(head)(query, key);
    return (
      `${quoted(tokens[query])} gives ${quoted(tokens[key])} ${short(was)} in the first, ` +
      `${short(was + change)} in the second: ${signed(change, 4)}.`
    );
  };
  const lists = [listOf("more", 1, tokens, numbers), listOf("less", -1, tokens, numbers)];
  const table = html`<${Table} head=${head} caption="${name}, second less first" />`;
  let plan = null;
  const draw = (chosen) => {
    const point = (event) => draw(mapAt(plan, shown, ...pointOn(event.target, event)));
    const part = html`
      <h2 id="difference-title">Second less first: <span class="name">${name}</span></h2>
      <p class="note">${LEGEND}</p>
      <div class="scale"><span>−</span><span class="ramp signed" aria-hidden="true" /><span>+</span>
        <span class="largest" title=${full(head.largest)}>±${short(head.largest)}</span>
        <span class="note">largest difference</span></div>
      <div class="columns">
        <div class="map"><canvas role="img" aria-label="${name}: difference as a heat map. ${LEGEND}"
          onPointerMove=${point} onPointerLeave=${() => draw(NOTHING)} /></div>
        <div class="lists">${lists}</div>
      </div>
      <p class="readout note">${readout(chosen)}</p>
      <details class="table" onToggle=${() => draw(chosen)}><summary>The differences as a table</summary>
        <div class="scroll" tabindex="0" role="region" aria-label="Table of differences">
          ${element.querySelector("details")?.open && table}</div></details>`;
    render(part, element);
  };
  draw(NOTHING);
  const canvas = element.querySelector("canvas");
  const width = Math.floor(canvas.parentElement.clientWidth);
  plan = mapLayout(canvas.getContext("2d"), weights, shown, width);
  drawMap(prepare(canvas, plan.width, plan.height), plan, head, NOTHING, palette);
}

/** The largest differences of one sign. */
function listOf(name, sign, tokens, numbers) {
  const rows = ranked(numbers.keys(), (at) => sign * numbers[at], LISTED)
    .filter(([, worth]) => worth > 0)
    .map(([at, worth]) => ({
      names: [Math.floor(at / tokens.length), at % tokens.length].map((position) => tokens[position].text),
      figure: signed(sign * worth, 4),
      title: signed(sign * worth, 8),
    }));
  const heading = html`<h3>${sign > 0 ? "More" : "Less"} in the second</h3>`;
  return rows.length > 0 && html`<${List} name=${name} heading=${heading} rows=${rows} />`;
}

/**
 * For each position of the first text the one of the second that belongs to it, or null.
 *
 * Tokens of the common subsequence belong together. Between two of them, tokens that were replaced
 * by as many others do too; tokens that were put in or left out belong to none.
 */
export function aligned(first, second) {
  const pairs = [...common(first, second), [first.length, second.length]];
  const found = new Array(first.length).fill(null);
  let [from, to] = [0, 0];
  for (const [one, other] of pairs) {
    if (one - from === other - to) for (let at = from; at < one; at += 1) found[at] = to + at - from;
    if (one < first.length) found[one] = other;
    [from, to] = [one + 1, other + 1];
  }
  return found;
}

function common(first, second) {
  const same = (one, other) => first[one].text === second[other].text;
  const width = second.length + 1;
  // How many pairs the rest of both texts has, from each two places on.
  const counts = new Uint16Array((first.length + 1) * width);
  for (let one = first.length - 1; one >= 0; one -= 1) {
    for (let other = second.length - 1; other >= 0; other -= 1) {
      const longer = Math.max(counts[(one + 1) * width + other], counts[one * width + other + 1]);
      const both = counts[(one + 1) * width + other + 1] + 1;
      counts[one * width + other] = same(one, other) ? both : longer;
    }
  }
  const pairs = [];
  let [one, other] = [0, 0];
  while (one < first.length && other < second.length) {
    if (same(one, other)) {
      pairs.push([one, other]);
      [one, other] = [one + 1, other + 1];
    } else if (counts[(one + 1) * width + other] >= counts[one * width + other + 1]) one += 1;
    else other += 1;
  }
  return pairs;
}
