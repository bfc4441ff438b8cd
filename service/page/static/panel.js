/** Shows the heads of a text: its prediction, its grid of heads, and the chosen head in full. */

import { post } from "./api.js";
import { readPalette, tint } from "./canvas.js";
import { drawSmall, Picture } from "./drawing.js";
import { Bars, isSame, offer, ProblemAt, range, useRoving } from "./parts.js";
import { html, useLayoutEffect, useMemo, useRef, useState } from "./preact.js";
import { Steps } from "./steps.js";
import { announce, fail } from "./store.js";
import {
  fieldsOf, isNothing, largestOf, NOTHING, pairsOf, placeFields, ranked, reader, scaleEnd, shownCells,
} from "./weights.js";
import { full, gives, pattern, patternText, percent, placeName, POINT, quoted, short } from "./words.js";

const HINT = POINT === "Tap" ? "Tap a token." : "Point at a token, or go there with Tab and the arrow keys.";
const LISTED = 5;
const SPOKEN = 3;
const MOST_CELLS = 3600; // of a table that can be read

let drawn = 0;

/** All of an answer. */
export function Panel(panel) {
  const { weights, question, view, pinned, pointed, layout, lacksSteps, changeView, onLack, onPoint } = panel;
  const palette = readPalette();
  const { row, column } = weights.find(view);
  const head = useMemo(() => {
    const one = { weights, row, column, shown: weights.shown(view.special), name: placeName(weights, row, column) };
    return { ...one, largest: scaleEnd(largestOf(shownCells(one)), weights.size) };
  }, [weights, row, column, view.special]);
  const { shown, name } = head;
  const fit = (position) => (shown.includes(position) ? position : null);
  const inShown = ({ query, key }) => ({ query: fit(query), key: fit(key) });
  const chosen = inShown(isNothing(pointed) ? pinned : pointed);
  const words = patternText(pattern(weights, row, column, shown), view.level);
  const isOne = !weights.oneColumn;
  const [isOpen, open] = useState(false);
  const button = useRef(null);
  const hasSteps = isOne && view.level === "token" && !lacksSteps;
  if (isOpen && !hasSteps) open(false);
  const close = () => {
    open(false);
    button.current.focus();
  };
  const give = (problem) => {
    close();
    if (problem.type === "not-found") onLack();
    else fail(problem, () => open(true), "steps");
  };
  // Tells tests that all is drawn and painted.
  useLayoutEffect(() => {
    requestAnimationFrame(() => setTimeout(() => {
      document.documentElement.dataset.drawn = String((drawn += 1));
    }));
  }, [weights, view]);
  const part = { ...panel, head, palette, chosen, words, onChoose: (layer, one) => changeView({
    ...(weights.oneRow ? {} : { layer }), ...(weights.oneColumn ? {} : { head: one }),
  }) };
  return html`<article class="panel" onKeyDown=${({ key }) => key === "Escape" && onPoint(NOTHING, true)}>
    <h2 class="unseen">Prediction</h2>
    <${Prediction} ...${part} />
    <div class="columns">
      <section class="overview"><${Grid} ...${part} /><${ProblemAt} place="overview" /></section>
      <section class="pictures">
        <div class="row"><h3 class="place">${name}</h3><p class="pattern">${words}</p></div>
        <${Scale} ...${head} />
        <${Picture} ...${part} causes=${[head, view.picture, palette, layout]} />
        <${Strip} ...${part} />
        <div class="row"><${Readout} ...${part} />
          ${hasSteps && html`<button type="button" class="quiet how-made" ref=${button} aria-expanded=${isOpen}
            onClick=${() => open(true)}>How this weight was made</button>`}</div>
        <${ProblemAt} place="steps" />
        <${TableOf} head=${head} />
        <${Save} ...${part} />
      </section>
      <section class="lists"><${Lists} ...${part} /></section>
    </div>
    ${isOne && question.windows === 1 && html`<${Switches} ...${part} />`}
    ${isOpen && hasSteps && html`<${Steps} ...${part} pinned=${inShown(pinned)} onClose=${close} onProblem=${give} />`}
  </article>`;
}

/** Label, probability of every class, how much of the text was read. */
function Prediction({ weights: { prediction, windows, window: part }, changeView }) {
  const { label, score, probabilities, truncated, token_count: count } = prediction;
  const [select, isAwaited] = [useRef(null), useRef(false)];
  // The button that was pressed is gone once the windows are there.
  useLayoutEffect(() => {
    if (windows > 1 && isAwaited.current) select.current.focus();
    isAwaited.current = false;
  }, [windows]);
  const readWhole = () => {
    isAwaited.current = true;
    changeView({ whole: true, window: 0 });
  };
  return html`<div class="prediction">
    <p class="verdict"><strong class="label">${label}</strong>${" "}
      <span class="score" title=${score}>${percent(score)}</span></p>
    <${Bars} probabilities=${probabilities} />
    ${truncated && html`<p class="cut note">The text is longer than the model reads: its end was cut off
        after ${count} tokens.</p>
      <p class="offer"><button type="button" class="quiet" onClick=${readWhole}>Read it whole</button></p>`}
    ${windows > 1 && html`<p class="windows note"><span class="windows-note">The whole text was read
      in ${windows} overlapping windows. The heads are those of one window, counted from 0.</span>
      <label> Window <select ref=${select} value=${part} onChange=${({ target }) => changeView({ window: target.selectedIndex })}>
        ${range(windows).map((at) => html`<option value=${at}>${at}</option>`)}</select></label></p>`}
  </div>`;
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/**
 * A small map for every layer and head, each a button. Arrow keys go from map to map, and the map with
 * the focus is the chosen one.
 */
function Grid({ weights, view, head: { row: chosenRow, column: chosenColumn, shown }, palette, marks, off, onChoose }) {
  const { oneRow, oneColumn, rows, columns } = weights;
  const grid = useRef(null);
  const titles = useMemo(() => weights.places().map(({ row, column }) =>
    `${placeName(weights, row, column)}. ${patternText(pattern(weights, row, column, shown), view.level)}`), [weights, shown]);
  useLayoutEffect(() => {
    [...grid.current.querySelectorAll("canvas")].forEach((canvas, at) => {
      const cells = weights.cells(Math.floor(at / columns), at % columns, shown);
      drawSmall(canvas, cells, scaleEnd(largestOf(cells), weights.size), palette);
    });
  }, [weights, shown, palette]);
  const most = Math.max(...(marks ?? []).flat(), 0);
  const move = (event) => {
    const buttons = [...grid.current.querySelectorAll("button")];
    const current = buttons.indexOf(event.target);
    if (current < 0 || event.altKey || event.metaKey) return;
    let [row, column] = [Math.floor(current / columns), current % columns];
    const { key, ctrlKey } = event;
    if (key in MOVES && !ctrlKey) {
      const [down, right] = MOVES[key];
      // With one map a layer the grid is a line: both pairs of arrows go along it.
      row = Math.min(Math.max(row + down + (columns > 1 ? 0 : right), 0), rows - 1);
      column = Math.min(Math.max(column + right, 0), columns - 1);
    } else if (key === "Home" || key === "End") {
      column = key === "Home" ? 0 : columns - 1;
      if (ctrlKey) row = key === "Home" ? 0 : rows - 1;
    } else return;
    event.preventDefault();
    buttons[row * columns + column].focus();
    onChoose(row, column);
  };
  const header = (role, unit, name) => html`
    <span class=${role} role=${role}><span class="aside">${unit}</span>${name}</span>`;
  const cell = (row, column) => {
    const value = marks?.[row][column] ?? null;
    const share = value === null || most === 0 ? 0 : Math.max(value, 0) / most;
    const isOff = !oneColumn && off.some(({ layer, head = column }) => layer === row && head === column);
    const figure = value === null ? "" : ` Importance ${full(value)}.`;
    const title = titles[row * columns + column] + figure + (isOff ? " Switched off." : "");
    const isChosen = row === chosenRow && column === chosenColumn;
    return html`<div class="cell" role="gridcell">
      <button type="button" class=${isOff ? "off" : ""} title=${title} aria-label=${title} aria-pressed=${isChosen}
        tabindex=${isChosen ? 0 : -1} onClick=${() => onChoose(row, column)}>
        <canvas aria-hidden="true" /><span class="mark" style=${{ width: `${(100 * share).toFixed(1)}%` }} />
      </button></div>`;
  };
  const cells = useMemo(() => html`
    <div class="top" role="row">
      <span class="corner" role="columnheader"><span class="aside">Layer</span></span>
      ${(oneColumn ? [view.reduce] : range(columns)).map((name) => header("columnheader", "Head ", name))}
    </div>
    ${range(rows).map((row) => html`<div class="row" role="row">
      ${header("rowheader", "Layer ", oneRow ? "all" : row)}${range(columns).map((column) => cell(row, column))}</div>`)}`,
  [titles, chosenRow, chosenColumn, marks, off]);
  const count = rows * columns;
  const title = oneColumn ? (count === 1 ? "One map" : `${count} maps`) : `${count} heads`;
  return html`
    <div class="row"><h3 class="overview-title">${title}</h3><p class="note overview-note">
      ${oneColumn ? "" : "Layers go down, heads go right, from 0. "}Darkest is a map's largest weight, or six even
      shares.</p></div>
    <div ref=${grid} class="grid ${columns === 1 ? "single" : ""} ${marks ? "marked" : ""}" role="grid" onKeyDown=${move}
      style=${{ "--columns": columns }} aria-label="Layers and heads; arrow keys go from map to map">${cells}</div>`;
}

const Scale = ({ largest, weights: { size } }) => html`
  <div class="scale"><span>0</span><span class="ramp" aria-hidden="true">
      <span class="even" style=${{ left: `${100 / size / largest}%` }} /></span>
    <span class="largest" title=${full(largest)}>${short(largest)}</span>
    <span class="even-note note">Mark: an even share, ${short(1 / size)}.</span></div>`;

/** The tokens to point at, coloured by what the chosen one gives them. */
function Strip({ head, chosen, palette, view, onPoint }) {
  const { weights, shown, largest } = head;
  const { toolbar, tabOf } = useRoving(shown.length);
  const weightOf = reader(head);
  const point = (position, stays) => {
    onPoint({ query: position, key: position }, stays);
    if (stays) announce(spoken(head, position));
  };
  const token = (position, at) => {
    const { text, special } = weights.tokens[position];
    const share = chosen.query === null ? 0 : weightOf(chosen.query, position) / (largest || 1);
    return html`<button type="button" class=${special ? "special" : ""} tabindex=${tabOf(at)}
      aria-pressed=${position === (chosen.query ?? chosen.key)}
      style=${{ backgroundColor: share > 0 ? tint(palette.out, 0.4 * share) : "" }}
      onPointerEnter=${() => point(position, false)} onClick=${() => point(position, true)}
      onFocus=${({ target }) => target.matches(":focus-visible") && point(position, true)}>${text}</button>`;
  };
  return html`<div class="strip items" ...${toolbar} onPointerLeave=${() => onPoint(NOTHING, false)}
    aria-label="${view.level === "word" ? "Words" : "Tokens"}; arrow keys go from one to the next">${shown.map(token)}</div>`;
}

function Readout({ head, chosen: { query, key } }) {
  if (isNothing({ query, key })) return html`<p class="readout note">${HINT}</p>`;
  if (query === null || key === null) return html`<p class="readout note" />`;
  const weight = reader(head)(query, key);
  return html`<p class="readout note" title=${full(weight)}>${gives(head.weights.tokens, query, key, weight)}</p>`;
}

/** The tokens to which one gives most, or from which it gets most: [[position], weight]. */
function ofToken(head, position, isQuery, count = LISTED) {
  const weightOf = reader(head);
  const ofOther = ([other]) => (isQuery ? weightOf(position, other) : weightOf(other, position));
  return ranked(head.shown.map((other) => [other]), ofOther, count);
}

/** What a screen reader hears of a token. */
function spoken(head, position) {
  const { tokens } = head.weights;
  const list = (isQuery) =>
    ofToken(head, position, isQuery, SPOKEN)
      .map(([[other], weight]) => `${quoted(tokens[other])} ${short(weight)}`)
      .join(", ");
  return `${quoted(tokens[position])} looks most at ${list(true)}; it is looked at most by ${list(false)}.`;
}

/** The lists for the token that is pointed at, or else for the whole head. */
function Lists({ head, chosen: { query, key }, palette }) {
  const { weights: { tokens }, shown, largest } = head;
  const item = (colour) => ([positions, weight]) => {
    const bar = { width: `${((100 * weight) / (largest || 1)).toFixed(1)}%`, backgroundColor: tint(colour, 0.35) };
    const [from, to] = positions.map((position) => html`<bdi>${tokens[position].text}</bdi>`);
    // A query and its key stand in this order also in texts from right to left.
    return html`<li><span class="bar" aria-hidden="true" style=${bar} /><span class="name">${from}${to && [" → ", to]}</span>
      <span class="figure" title=${full(weight)}>${short(weight)}</span></li>`;
  };
  const list = (kind, title, found) => html`
    <div class=${kind}><h4>${title}</h4><ol>${found.map(item(palette[kind]))}</ol></div>`;
  const pairs = useMemo(() => {
    const weightOf = reader(head);
    return ranked(pairsOf(shown, shown), ([from, to]) => weightOf(from, to), LISTED);
  }, [head]);
  if (isNothing({ query, key })) return list("out", "Largest weights", pairs);
  const of = (position, isQuery, words, kind) =>
    position !== null && list(kind, `${quoted(tokens[position])} ${words}`, ofToken(head, position, isQuery));
  return [of(query, true, "looks most at", "out"), of(key, false, "is looked at most by", "into")];
}

/** The weights as a table, once it is opened; a large one is only in the saved file. */
function TableOf({ head }) {
  const [isOpen, open] = useState(false);
  const table = useMemo(() => isOpen && html`<${Numbers} head=${head} />`, [isOpen, head]);
  return html`<details class="table" onToggle=${({ target }) => open(target.open)}><summary>The numbers as a table</summary>
    <div class="scroll" tabindex="0" role="region" aria-label="Table of weights">${table}</div></details>`;
}

function Numbers({ head }) {
  const { weights: { tokens }, shown, name } = head;
  if (shown.length ** 2 > MOST_CELLS) {
    return html`<p class="note">${shown.length ** 2} numbers are too many to read here: save them as JSON below.</p>`;
  }
  const weightOf = reader(head);
  const heading = (scope, position) => html`<th scope=${scope}>${tokens[position].text}</th>`;
  const cell = (weight) => html`<td><span class="figure" title=${full(weight)}>${short(weight)}</span></td>`;
  return html`<table>
    <caption>${name}: a row is a token that looks, a column one that is looked at</caption>
    <thead><tr><td />${shown.map((key) => heading("col", key))}</tr></thead>
    <tbody>${shown.map((query) => html`
      <tr>${heading("row", query)}${shown.map((key) => cell(weightOf(query, key)))}</tr>`)}</tbody>
  </table>`;
}

const pngOf = (canvas) =>
  new Promise((resolve) => {
    canvas.toBlob(resolve);
  });

/** Saves the chosen map or all of them as the service writes them, or the picture as it is drawn. */
function Save({ question, weights, view, head }) {
  const [isAll, choose] = useState(false);
  const group = useRef(null);
  const save = async (format) => {
    const isPicture = format === "png";
    const what = isAll && !isPicture ? (view.reduce === "none" ? "all" : view.reduce) : head.name;
    const plain = what.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
    const part = question.windows > 1 ? `-window-${question.window}` : "";
    const name = `headlight-${plain}${view.level === "word" ? "-words" : ""}${part}.${format}`;
    announce("Saving …");
    try {
      const body = { ...(isAll ? fieldsOf(question) : placeFields(question, weights, head)), format };
      const canvas = group.current.closest(".panel").querySelector(".pictures canvas");
      offer(await (isPicture ? pngOf(canvas) : post("/attention", body, undefined, "blob")), name);
      announce(`Saved as ${name}.`);
    } catch (problem) {
      fail(problem, () => save(format), "save");
    }
  };
  return html`<div class="save row" role="group" aria-label="Save" ref=${group}>
    <label>Save <select class="scope" value=${isAll ? "all" : "one"} onChange=${({ target }) => choose(target.value === "all")}>
      <option value="one">this map</option><option value="all">all maps of the grid</option></select> as</label>
    ${["svg", "png", "json", "npz"].map((format) => html`
      <button type="button" onClick=${() => save(format)}>${format.toUpperCase()}</button>`)}
  </div><${ProblemAt} place="save" />`;
}

/** Switches the chosen head off, or all of its layer, and says what the verdict is then. */
function Switches({ head: { row: layer, column: head }, off, outcome, switchHeads }) {
  const toggle = (heads, text) => {
    const others = off.filter((each) => !isSame(each, heads));
    const isOff = others.length < off.length;
    return html`<button type="button" class="quiet" onClick=${() => switchHeads(isOff ? others : [...others, heads])}>
      Switch ${isOff ? "on" : "off"} ${text}</button>`;
  };
  return html`<section class="switches" aria-label="Heads that are off">
    <div class="row">${toggle({ layer, head }, `layer ${layer}, head ${head}`)}
      ${toggle({ layer }, `all heads of layer ${layer}`)}
      <button type="button" class="quiet reset" disabled=${off.length === 0} onClick=${() => switchHeads([])}>As it was</button></div>
    <p class="outcome">${outcome}</p>
    <${ProblemAt} place="off" />
  </section>`;
}
