/** Shows the heads of a text: the chosen one large, what heads do, and the grid of all of them. */

import { post } from "./api.js";
import { captioned, drawSmall, pngOf, Picture } from "./drawing.js";
import { grouped, isSame, offer, percent, POINT, ProblemAt, quoted, range, Segments, tinted } from "./parts.js";
import { html, useLayoutEffect, useMemo, useRef, useState } from "./preact.js";
import { completed, Numbers, Steps } from "./steps.js";
import { announce, fail } from "./store.js";
import {
  fieldsOf, full, gives, groupsOf, isNothing, largestOf, NOTHING, pairsOf, patternText, placeFields, placeName,
  ranked, reader, scaleEnd, short, shownCells,
} from "./weights.js";

const LISTED = 5;
const SPOKEN = 3;
const MOST_CELLS = 3600; // of a table that can be read
const PICTURES = ["svg", "png"];
const [GROUPS, CHIPS] = [5, 2]; // that are shown, and heads in each

const NOTES = {
  mean: "Mean: the heads of each layer, averaged by the service.",
  rollout: "Rollout: an estimate of how much reaches each token through all layers (Abnar and Zuidema 2020).",
  word: "Words: what a word's tokens get is summed, what they give is averaged.",
  special: "Special tokens are only hidden: the weights are as before, so the rows drawn need not sum to 1.",
};

let drawn = 0;

/** All of an answer. */
export function Panel(panel) {
  const { weights, question, view, pinned, pointed, marks, lacksSteps, changeView, onLack, onPoint } = panel;
  const { row, column } = weights.find(view);
  const head = useMemo(() => {
    const one = { weights, row, column, shown: weights.shown(view.special), name: placeName(weights, row, column) };
    return { ...one, largest: largestOf(shownCells(one)) };
  }, [weights, row, column, view.special]);
  const { shown, name } = head;
  const patterns = useMemo(() => weights.patterns(shown), [weights, shown]);
  const fit = (position) => (shown.includes(position) ? position : null);
  const inShown = ({ query, key }) => ({ query: fit(query), key: fit(key) });
  const isOne = !weights.oneColumn;
  const hasSteps = isOne && view.level === "token" && !lacksSteps;
  const [wantsSteps, want] = useState(false); // the other side of the picture
  const isTurned = wantsSteps && hasSteps;
  if (wantsSteps && !hasSteps) want(false);
  const button = useRef(null);
  const turn = (isWanted) => {
    want(isWanted);
    setTimeout(() => button.current?.focus()); // it stands elsewhere by then
  };
  const give = (problem) => {
    turn(false);
    if (problem.type === "not-found") onLack();
    else fail(problem, () => turn(true), "steps");
  };
  const release = ({ key }) => {
    if (key !== "Escape") return;
    if (isTurned) turn(false);
    else onPoint(NOTHING, true);
  };
  // Tells tests that all is drawn and painted.
  useLayoutEffect(() => {
    requestAnimationFrame(() => setTimeout(() => {
      document.documentElement.dataset.drawn = String((drawn += 1));
    }));
  }, [weights, view]);
  const kept = inShown(pinned);
  const chosen = isTurned ? completed(head, kept) : inShown(isNothing(pointed) ? pinned : pointed);
  const words = patternText(patterns[row * weights.columns + column], view.level);
  const onChoose = (layer, one) => changeView({
    ...(weights.oneRow ? {} : { layer }), ...(weights.oneColumn ? {} : { head: one }),
  });
  const part = {
    ...panel, head, patterns, isTurned, chosen, kept: isTurned ? chosen : kept, words, onChoose,
    marks: question.windows === 1 && isOne ? marks : null,
  };
  const pair = html`<div class="row"><${Pair} ...${part} />
    ${hasSteps && html`<button type="button" class="quiet how-made" ref=${button} aria-expanded=${isTurned}
      onClick=${() => turn(!isTurned)}>${isTurned ? "Back to the picture" : "How this weight was made"}</button>`}</div>`;
  return html`<article class="panel" onKeyDown=${release}>
    <${Prediction} ...${part} />
    <div class="columns">
      <section class="pictures" aria-label="The chosen head">
        <div class="top-line"><h2 class="place">${name}</h2>
          <div class="row"><${View} ...${part} /><${Save} ...${part} /></div></div>
        <${ProblemAt} place="view" />
        <p class="pattern">${words}</p>
        ${isTurned ? html`${pair}<${Steps} ...${part} pair=${chosen} onProblem=${give} />` : html`
          <div class="front"><${Picture} ...${part} />
            <div class="lists"><${Lists} ...${part} /></div></div>
          <${Readout} ...${part} />${pair}`}
        <${ProblemAt} place="steps" />
        ${isOne && question.windows === 1 && html`<${Switch} ...${part} />`}
        ${!isTurned && html`<${Scale} ...${head} /><${Table} head=${head} />`}
        <p id="view-note" class="note">${[view.reduce, view.level, !view.special && "special"].map((each) => NOTES[each]).filter(Boolean).join(" ")}</p>
      </section>
      <section class="overview" aria-label="All heads">
        ${isOne && html`<${Groups} ...${part} />`}
        <${Grid} ...${part} /><${ProblemAt} place="overview" />
      </section>
    </div>
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
  const others = Object.entries(probabilities).filter(([name]) => name !== label);
  return html`<div class="prediction">
    <p class="verdict"><strong class="label">${label}</strong>${" "}
      <span class="score" title=${score}>${percent(score)}</span></p>
    <p class="others note">${others.map(([name, share]) => `${name} ${percent(share)}`).join(", ")}</p>
    ${truncated && html`<p class="cut note">The text is longer than the model reads: its end was cut off
        after ${count} tokens.</p>
      <p class="offer"><button type="button" class="quiet" onClick=${readWhole}>Read it whole</button></p>`}
    ${windows > 1 && html`<p class="windows note"><span class="windows-note">The whole text was read
      in ${windows} overlapping windows. The heads are those of one window, counted from 0.</span>
      <label> Window <select ref=${select} value=${part} onChange=${({ target }) => changeView({ window: target.selectedIndex })}>
        ${range(windows).map((at) => html`<option value=${at}>${at}</option>`)}</select></label></p>`}
  </div>`;
}

/** A button that opens what it holds over the page; Escape, and a press or a focus elsewhere close it. */
function Menu({ name, children }) {
  const [isOpen, open] = useState(false);
  const summary = useRef(null);
  const press = (event) => {
    if (event.key !== "Escape" || !isOpen) return;
    event.stopPropagation(); // it would take back the choice of the token too
    open(false);
    summary.current.focus();
  };
  const menu = useRef(null);
  useLayoutEffect(() => {
    const leave = ({ target }) => !menu.current.contains(target) && open(false);
    const events = isOpen ? ["pointerdown", "focusin"] : [];
    for (const each of events) document.addEventListener(each, leave);
    return () => events.forEach((each) => document.removeEventListener(each, leave));
  }, [isOpen]);
  return html`<details class="menu" ref=${menu} open=${isOpen} onKeyDown=${press}
    onToggle=${({ target }) => open(target.open)}><summary ref=${summary}>${name}</summary>
    ${isOpen && html`<div class="sheet">${children}</div>`}</details>`;
}

/** What is shown, and how. */
function View({ wish, weights: { prediction }, changeView }) {
  const segments = (legend, name, choices) => html`<${Segments} ...${{ legend, name, choices }} value=${wish[name]}
    onChoose=${(value) => changeView({ [name]: value })} />`;
  const box = (name, text) => html`<label class="choice"><input type="checkbox" name=${name}
    checked=${wish[name]} onChange=${({ target }) => changeView({ [name]: target.checked })} /> ${text}</label>`;
  return html`<${Menu} name="View"><form id="controls" aria-label="View" onSubmit=${(event) => event.preventDefault()}>
    ${segments("Picture", "picture", [["map", "heat map"], ["lines", "lines"]])}
    ${segments("Show", "reduce", [["none", "each head"], ["mean", "mean"], ["rollout", "rollout"]])}
    ${segments("By", "level", [["token", "tokens"], ["word", "words"]])}
    ${box("special", "Special tokens")}
    ${(wish.whole || prediction.truncated) && box("whole", "Read long texts whole")}
  </form><//>`;
}

/** Saves the chosen map or all of them: as the service writes them, and as a picture with its caption. */
function Save({ question, weights, view, head }) {
  const [isAll, choose] = useState(false);
  const most = question.model.limits.max_svg_weights;
  const count = weights.size ** 2 * (isAll ? weights.rows * weights.columns : 1);
  const isLarge = count > most;
  const save = async (format) => {
    const what = isAll ? (view.reduce === "none" ? "all" : view.reduce) : head.name;
    const plain = what.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
    const part = question.windows > 1 ? `-window-${question.window}` : "";
    const name = `headlight-${plain}${view.level === "word" ? "-words" : ""}${part}.${format}`;
    const isPicture = PICTURES.includes(format);
    announce("Saving …");
    try {
      const body = { ...(isAll ? fieldsOf(question) : placeFields(question, weights, head)), format: isPicture ? "svg" : format };
      const answer = await post("/attention", body, undefined, "blob");
      const picture = isPicture && captioned(await answer.text(), question.sentence, isAll ? "" : head.name);
      offer(isPicture ? await (format === "png" ? pngOf(picture) : picture.blob) : answer, name);
      announce(`Saved as ${name}.`);
    } catch (problem) {
      fail(problem, () => save(format), "save");
    }
  };
  return html`<${Menu} name="Save"><div class="save row" role="group" aria-label="Save">
    <label>Save <select class="scope" value=${isAll ? "all" : "one"} onChange=${({ target }) => choose(target.value === "all")}>
      <option value="one">this heat map</option><option value="all">all heat maps</option></select> as</label>
    ${["svg", "png", "json", "npz"].map((format) => html`
      <button type="button" disabled=${isLarge && PICTURES.includes(format)} onClick=${() => save(format)}>${format.toUpperCase()}</button>`)}
    ${isLarge && html`<p class="note">A picture has at most ${grouped(most)} weights; these are ${grouped(count)}.</p>`}
    ${!view.special && html`<p class="note">A file has the special tokens too.</p>`}
  </div><${ProblemAt} place="save" /><//>`;
}

/** Switches the chosen head off, beside those that are off already, or on again. */
function Switch({ head: { row: layer, column: head }, off, outcome, switchHeads }) {
  const others = off.filter((each) => !isSame(each, { layer, head }));
  const isOff = others.length < off.length;
  return html`<div class="row"><button type="button" class="quiet switch"
      onClick=${() => switchHeads(isOff ? others : [...others, { layer, head }])}>Switch this head ${isOff ? "on" : "off"}</button>
    ${off.length > (isOff ? 1 : 0) && html`<button type="button" class="quiet reset" onClick=${() => switchHeads([])}>All on</button>`}
    <span class="outcome">${outcome}</span></div><${ProblemAt} place="off" />`;
}

/** Chooses the token that looks and the one that is looked at, without a pointer. */
function Pair({ head, kept, isTurned, view, onPoint }) {
  const { weights: { tokens }, shown } = head;
  const choose = (name, value) => {
    const pair = { ...kept, [name]: value === "" ? null : Number(value) };
    onPoint(pair, true);
    if (!isNothing(pair)) announce(spoken(head, pair));
  };
  const choice = (name) => html`<select class="of-${name}" value=${kept[name] ?? ""} onChange=${({ target }) => choose(name, target.value)}>
    ${!isTurned && html`<option value="">any ${view.level}</option>`}
    ${shown.map((at) => html`<option value=${at}>${at}: ${tokens[at].text}</option>`)}</select>`;
  return html`<label>From ${choice("query")}</label> <label>to ${choice("key")}</label>`;
}

/** What is under the pointer, or how the picture is read. */
function Readout({ head, chosen: { query, key }, view: { picture } }) {
  const isPair = query !== null && key !== null;
  const weight = isPair && reader(head)(query, key);
  const how = picture === "map"
    ? "Each row is a token that looks, each column one that is looked at. The darker, the more."
    : "Left is a token that looks, right one that is looked at. The stronger, the more.";
  return html`<p class="readout" title=${isPair ? full(weight) : null}>
    ${isPair ? gives(head.weights.tokens, query, key, weight) : `${how} ${POINT} a token.`}</p>`;
}

const Scale = ({ largest, weights: { size } }) => html`<p class="scale note">The scale ends
  at${" "}<span class="largest" title=${full(largest)}>${short(largest)}</span>; an even share is ${short(1 / size)}.</p>`;

const DONE = { before: "the token before", after: "the token after", itself: "themselves" };

/** Heads by what they do in this text, and those that matter most. */
function Groups({ patterns, head: { row, column }, marks, marking, question, view, weights, onChoose, onMark }) {
  const chips = (places) => places.slice(0, CHIPS).map((each) => html`
    <button type="button" class="quiet chip" title=${placeName(weights, each.row, each.column)}
      aria-pressed=${each.row === row && each.column === column}
      onClick=${() => onChoose(each.row, each.column)}>${each.row}.${each.column}</button>`);
  const most = marks && weights.places().sort((a, b) => marks[b.row][b.column] - marks[a.row][a.column]);
  const count = (places) => places.length > CHIPS && html`<span class="note">of ${places.length}</span>`;
  return html`<div class="row"><h3>Heads by what they do</h3><p class="note">A head is one way of looking; 3.8 is head 8 of layer 3.</p></div>
    <dl class="groups">
      ${groupsOf(patterns).slice(0, GROUPS).map(({ kind, heads }) => html`
        <dt>look at ${(DONE[kind] ?? kind).replace("token", view.level)}</dt><dd>${chips(heads)}${count(heads)}</dd>`)}
      ${question.windows === 1 && html`<dt>matter most here</dt><dd class="matter" aria-live="polite">${most ? chips(most) : marking
        || html`<button type="button" class="quiet find" onClick=${onMark}>Switch each off in turn</button>`}</dd>`}
    </dl><${ProblemAt} place="matter" />`;
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/**
 * A small map for every layer and head, each a button. Arrow keys go from map to map, and the map with
 * the focus is the chosen one.
 */
function Grid({ weights, view, head: { row: chosenRow, column: chosenColumn, shown }, patterns, marks, off, onChoose }) {
  const { oneRow, oneColumn, rows, columns } = weights;
  const grid = useRef(null);
  const titles = useMemo(() => patterns.map((each) =>
    `${placeName(weights, each.row, each.column)}. ${patternText(each, view.level)}`), [patterns]);
  useLayoutEffect(() => {
    [...grid.current.querySelectorAll("canvas")].forEach((canvas, at) => {
      const cells = weights.cells(Math.floor(at / columns), at % columns, shown);
      drawSmall(canvas, cells, scaleEnd(largestOf(cells), weights.size));
    });
  }, [weights, shown]);
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
    const isOff = !oneColumn && off.some(({ layer, head }) => layer === row && head === column);
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
      ${oneColumn ? "" : "Layers down, heads right. "}Darkest: a map's largest, or six even shares.</p></div>
    <div ref=${grid} class="grid ${columns === 1 ? "single" : ""} ${marks ? "marked" : ""}" role="grid" onKeyDown=${move}
      style=${{ "--columns": columns }} aria-label="Layers and heads; arrow keys go from map to map">${cells}</div>`;
}

/** The tokens to which one gives most, or from which it gets most: [[position], weight]. */
function ofToken(head, position, isQuery, count = LISTED) {
  const weightOf = reader(head);
  const ofOther = ([other]) => (isQuery ? weightOf(position, other) : weightOf(other, position));
  return ranked(head.shown.map((other) => [other]), ofOther, count);
}

/** What a screen reader hears of the tokens that are chosen. */
function spoken(head, { query, key }) {
  const { tokens } = head.weights;
  if (query !== null && key !== null) return `${gives(tokens, query, key, reader(head)(query, key))}.`;
  const [position, isQuery] = query === null ? [key, false] : [query, true];
  const list = ofToken(head, position, isQuery, SPOKEN).map(([[other], weight]) => `${quoted(tokens[other])} ${short(weight)}`);
  return `${quoted(tokens[position])} ${isQuery ? "looks most at" : "is looked at most by"} ${list.join(", ")}.`;
}

/** The lists for the token that is pointed at, or else for the whole head. */
function Lists({ head, chosen: { query, key } }) {
  const { weights: { tokens }, shown, largest } = head;
  const item = (colour) => ([positions, weight]) => {
    const bar = { width: `${((100 * weight) / (largest || 1)).toFixed(1)}%`, backgroundColor: tinted(colour, 35) };
    const [from, to] = positions.map((position) => html`<bdi>${tokens[position].text}</bdi>`);
    // A query and its key stand in this order also in texts from right to left.
    return html`<li><span class="bar" aria-hidden="true" style=${bar} /><span class="name">${from}${to && [" → ", to]}</span>
      <span class="figure" title=${full(weight)}>${short(weight)}</span></li>`;
  };
  const list = (kind, title, found) => html`
    <div class=${kind}><h3>${title}</h3><ol>${found.map(item(kind))}</ol></div>`;
  const pairs = useMemo(() => {
    const weightOf = reader(head);
    return ranked(pairsOf(shown, shown), ([from, to]) => weightOf(from, to), LISTED);
  }, [head]);
  if (isNothing({ query, key })) return list("out", "Largest weights", pairs);
  const of = (position, isQuery, words, kind) =>
    position !== null && list(kind, `${quoted(tokens[position])} ${words}`, ofToken(head, position, isQuery));
  return [of(query, true, "looks most at", "out"), of(key, false, "is looked at most by", "into")];
}

/** The weights as a table; a large one is only in the saved file. */
function Table({ head }) {
  const { weights: { tokens }, shown } = head;
  const count = shown.length ** 2;
  if (count > MOST_CELLS) return html`<p class="note">${grouped(count)} numbers are too many for a table: save them as JSON.</p>`;
  const weightOf = reader(head);
  const columns = () => shown.map((key) => [tokens[key].text, shown.map((query) => weightOf(query, key))]);
  return html`<${Numbers} title="The numbers as a table" columns=${columns} tokens=${shown.map((at) => tokens[at])} causes=${[head]} />`;
}
