/** Shows the heads of a text: the chosen one large, what heads do, and the grid of all of them. */

import { post } from "./api.js";
import { captioned, drawSmall, pngOf, Picture } from "./drawing.js";
import { Choice, Foreign, grouped, offer, percent, POINT, ProblemAt, quoted, range } from "./parts.js";
import { html, useLayoutEffect, useMemo, useRef, useState } from "./preact.js";
import { completed, Numbers, Steps } from "./steps.js";
import { announce, fail } from "./store.js";
import {
  fieldsOf, full, gives, groupsOf, isNothing, largestOf, NOTHING, patternText, placeFields, placeName, reader,
  scaleEnd, short, shownCells,
} from "./weights.js";

const NAMED = 4; // tokens that one looks at most
const MOST_CELLS = 3600; // of a table that can be read
const PICTURES = ["svg", "png"];
const [GROUPS, CHIPS] = [5, 2]; // that are shown, and heads in each

const NOTES = {
  all: "Attention shows where a head looks. It does not explain the verdict.",
  word: "Words: what a word's tokens get is summed, what they give is averaged.",
  special: "Special tokens are only hidden: the weights are as before, so the rows drawn need not sum to 1.",
};

/** Everything about one answer. */
export function Panel(panel) {
  const { weights, view, pinned, pointed, changeView, onPoint } = panel;
  const { layer: row, head: column } = view;
  const head = useMemo(() => {
    const one = { weights, row, column, shown: weights.shown(view.special), name: placeName({ row, column }) };
    return { ...one, largest: largestOf(shownCells(one)) };
  }, [weights, row, column, view.special]);
  const { shown, name } = head;
  const patterns = useMemo(() => weights.patterns(shown), [weights, shown]);
  const fit = (position) => (shown.includes(position) ? position : null);
  const inShown = ({ query, key }) => ({ query: fit(query), key: fit(key) });
  const hasSteps = view.level === "token";
  const [wantsSteps, want] = useState(false); // the other side of the picture
  const isTurned = wantsSteps && hasSteps;
  if (wantsSteps && !hasSteps) want(false);
  const button = useRef(null);
  const give = (problem) => {
    want(false);
    fail(problem, () => want(true), "steps");
  };
  const release = ({ key }) => {
    if (key !== "Escape") return;
    if (!isTurned) onPoint(NOTHING, true);
    else button.current.focus();
    want(false);
  };
  // Tells tests that all is drawn and painted.
  useLayoutEffect(() => {
    requestAnimationFrame(() => setTimeout(() => {
      document.documentElement.dataset.drawn = "";
    }));
  }, [weights, view]);
  const kept = inShown(pinned);
  const chosen = isTurned ? completed(head, kept) : inShown(isNothing(pointed) ? pinned : pointed);
  const words = patternText(patterns[row * weights.columns + column], view.level);
  const onChoose = (place) => changeView({ layer: place.row, head: place.column });
  const part = { ...panel, head, patterns, isTurned, chosen, kept: isTurned ? chosen : kept, words, onChoose };
  return html`<article class="panel" onKeyDown=${release}>
    <${Prediction} ...${part} />
    <div class="columns">
      <section class="pictures" aria-label="The chosen head">
        <div class="top-line"><h2 class="place">${name}</h2>
          <div class="row"><${View} ...${part} /><${Save} ...${part} /></div></div>
        <${ProblemAt} place="view" />
        <p class="pattern">${words}</p>
        <div class="row"><${Pair} ...${part} />${hasSteps && html`
          <button type="button" class="quiet how-made" ref=${button} aria-expanded=${isTurned}
            onClick=${() => want(!isTurned)}>${isTurned ? "Back to the picture" : "How this weight was made"}</button>`}</div>
        <${ProblemAt} place="steps" />
        ${isTurned ? html`<${Steps} ...${part} pair=${chosen} onProblem=${give} />`
          : html`<${Picture} ...${part} /><${Readout} ...${part} />`}
        <${Switch} ...${part} />
        ${!isTurned && html`<${Table} head=${head} />`}
        <p id="view-note" class="note">${["all", view.level, !view.special && "special"].map((each) => NOTES[each]).filter(Boolean).join(" ")}</p>
      </section>
      <section class="overview" aria-label="All heads">
        <${Groups} ...${part} /><${Grid} ...${part} /><${ProblemAt} place="overview" />
      </section>
    </div>
  </article>`;
}

/** Label, probability of every class, how much of the text was read. */
function Prediction({ weights: { prediction } }) {
  const { label, score, probabilities, truncated, token_count: count } = prediction;
  const others = Object.entries(probabilities).filter(([name]) => name !== label);
  return html`<div class="prediction">
    <p class="verdict"><strong class="label">${label}</strong>${" "}
      <span class="score" title=${score}>${percent(score)}</span></p>
    <p class="others note">${others.map(([name, share]) => `${name} ${percent(share)}`).join(", ")}</p>
    <${Foreign} ...${prediction} />
    ${truncated && html`<p class="cut note">The text is longer than the model reads at once: this is about its
      first ${count} tokens. One review reads all of it.</p>`}
  </div>`;
}

/** A button that opens what it holds over the page; Escape, or a focus or a press elsewhere, closes it. */
function Menu({ name, children }) {
  const [isOpen, open] = useState(false);
  const summary = useRef(null);
  const press = (event) => {
    if (event.key !== "Escape" || !isOpen) return;
    event.stopPropagation(); // it would take back the choice of the token too
    open(false);
    summary.current.focus();
  };
  const leave = ({ currentTarget, relatedTarget }) => !currentTarget.contains(relatedTarget) && open(false);
  return html`<details class="menu" open=${isOpen} onKeyDown=${press} onfocusout=${leave}
    onToggle=${({ target }) => open(target.open)}><summary ref=${summary}>${name}</summary>
    ${isOpen && html`<div class="sheet" tabindex="-1">${children}</div>`}</details>`;
}

/** What is shown, and how. */
const View = ({ wish, changeView }) => html`<${Menu} name="View"><div id="controls" role="group" aria-label="View">
  <${Choice} label="By" name="level" value=${wish.level} onChoose=${(level) => changeView({ level })}
    choices=${[["token", "tokens"], ["word", "words"]]} />
  <label class="choice"><input type="checkbox" checked=${wish.special}
    onChange=${({ target }) => changeView({ special: target.checked })} /> Special tokens</label></div><//>`;

/** Saves the chosen map or all of them: as the service writes them, and as a picture with its caption. */
function Save({ question, weights, view, head }) {
  const [isAll, choose] = useState(false);
  const most = question.model.limits.max_svg_weights;
  const count = weights.size ** 2 * (isAll ? weights.rows * weights.columns : 1);
  const isLarge = count > most;
  const save = async (format) => {
    const plain = (isAll ? "all" : head.name).toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
    const name = `headlight-${plain}${view.level === "word" ? "-words" : ""}.${format}`;
    const isPicture = PICTURES.includes(format);
    announce("Saving …");
    try {
      const body = { ...(isAll ? fieldsOf(question) : placeFields(question, head)), format: isPicture ? "svg" : format };
      const answer = await post("/attention", body, undefined, "blob");
      const picture = isPicture && captioned(await answer.text(), question.sentence, isAll ? "" : head.name);
      offer(isPicture ? await (format === "png" ? pngOf(picture) : picture.blob) : answer, name);
      announce(`Saved as ${name}.`);
    } catch (problem) {
      fail(problem, () => save(format), "save");
    }
  };
  return html`<${Menu} name="Save"><div class="save row" role="group" aria-label="Save">
    <${Choice} label="Save" name="scope" value=${isAll ? "all" : "one"} onChoose=${(each) => choose(each === "all")}
      choices=${[["one", "this heat map"], ["all", "all heat maps"]]} /> as
    ${["svg", "png", "json", "npz"].map((format) => html`
      <button type="button" disabled=${isLarge && PICTURES.includes(format)} onClick=${() => save(format)}>${format.toUpperCase()}</button>`)}
    ${isLarge && html`<p class="note">A picture has at most ${grouped(most)} weights; these are ${grouped(count)}.</p>`}
    ${!view.special && html`<p class="note">A file has the special tokens too.</p>`}
  </div><${ProblemAt} place="save" /><//>`;
}

/** Switches the chosen head off, beside those that are off already, or on again. */
function Switch({ head: { row: layer, column: head }, off, outcome, switchHeads }) {
  const others = off.filter((each) => each.layer !== layer || each.head !== head);
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
  const choices = shown.map((at) => [at, `${at}: ${tokens[at].text}`]);
  if (!isTurned) choices.unshift(["", `any ${view.level}`]);
  return [["From", "query"], ["to", "key"]].map(([label, name]) => html`<${Choice} label=${label} class="of-${name}"
    value=${kept[name] ?? ""} choices=${choices} onChoose=${(value) => choose(name, value)} />`);
}

/** What is under the pointer, or how the picture is read. */
const Readout = ({ head, chosen, view: { level } }) => html`<p class="readout">${isNothing(chosen)
  ? `Each row is a ${level} that looks, each column one that is looked at. The darker, the more. ${POINT} a ${level}.`
  : spoken(head, chosen)}</p>`;

const DONE = { before: "the token before", after: "the token after", itself: "themselves" };

/** Heads by what they do in this text, and those that matter most. */
function Groups({ patterns, head: { row, column }, marks, marking, view, weights, onChoose, mark }) {
  const chips = (places) => places.slice(0, CHIPS).map((each) => html`
    <button type="button" class="quiet chip" title=${placeName(each)} onClick=${() => onChoose(each)}
      aria-pressed=${each.row === row && each.column === column}>${each.row}.${each.column}</button>`);
  const most = marks && weights.places().sort((a, b) => marks[b.row][b.column] - marks[a.row][a.column]);
  const count = (places) => places.length > CHIPS && html`<span class="note">and ${places.length - CHIPS} more</span>`;
  return html`<div class="row"><h3>Heads by what they do</h3><p class="note">A head is one way of looking; 3.8 is head 8 of layer 3.</p></div>
    <dl class="groups">
      ${groupsOf(patterns).slice(0, GROUPS).map(({ kind, heads }) => html`
        <dt>look at ${(DONE[kind] ?? kind).replace("token", view.level)}</dt><dd>${chips(heads)}${count(heads)}</dd>`)}
      <dt>matter most here</dt><dd id="matter" aria-live="polite">${most ? chips(most) : marking
        || html`<button type="button" class="quiet find" onClick=${mark}>Switch each off in turn</button>`}</dd>
    </dl><${ProblemAt} place="matter" />`;
}

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/**
 * A small map for every layer and head, each a button. Arrow keys go from map to map, and the map with
 * the focus is the chosen one.
 */
function Grid({ weights, view, head: { row: chosenRow, column: chosenColumn, shown }, patterns, marks, off, onChoose }) {
  const { rows, columns } = weights;
  const grid = useRef(null);
  const titles = useMemo(() => patterns.map((each) => `${placeName(each)}. ${patternText(each, view.level)}`), [patterns]);
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
      row = Math.min(Math.max(row + down, 0), rows - 1);
      column = Math.min(Math.max(column + right, 0), columns - 1);
    } else if (key === "Home" || key === "End") {
      column = key === "Home" ? 0 : columns - 1;
      if (ctrlKey) row = key === "Home" ? 0 : rows - 1;
    } else return;
    event.preventDefault();
    buttons[row * columns + column].focus();
    onChoose({ row, column });
  };
  const header = (role, unit, name) => html`
    <span role=${role}><span class="aside">${unit}</span>${name}</span>`;
  const cell = (row, column) => {
    const value = marks?.[row][column] ?? null;
    const share = value === null || most === 0 ? 0 : Math.max(value, 0) / most;
    const isOff = off.some(({ layer, head }) => layer === row && head === column);
    const figure = value === null ? "" : ` Importance ${full(value)}.`;
    const title = titles[row * columns + column] + figure + (isOff ? " Switched off." : "");
    const isChosen = row === chosenRow && column === chosenColumn;
    return html`<div class="cell" role="gridcell">
      <button type="button" class=${isOff ? "off" : ""} title=${title} aria-label=${title} aria-pressed=${isChosen}
        tabindex=${isChosen ? 0 : -1} onClick=${() => onChoose({ row, column })}>
        <canvas aria-hidden="true" /><span class="mark" style=${{ width: `${(100 * share).toFixed(1)}%` }} />
      </button></div>`;
  };
  const cells = useMemo(() => html`
    <div role="row">
      <span role="columnheader"><span class="aside">Layer</span></span>
      ${range(columns).map((name) => header("columnheader", "Head ", name))}
    </div>
    ${range(rows).map((row) => html`<div role="row">
      ${header("rowheader", "Layer ", row)}${range(columns).map((column) => cell(row, column))}</div>`)}`,
  [titles, chosenRow, chosenColumn, marks, off]);
  return html`
    <div class="row"><h3 class="overview-title">${rows * columns} heads</h3>
      <p class="note">Layers down, heads right. The largest weight of a map is dark, an even map pale.</p></div>
    <div ref=${grid} class="grid ${marks ? "marked" : ""}" role="grid" onKeyDown=${move}
      style=${{ "--columns": columns }} aria-label="Layers and heads; arrow keys go from map to map">${cells}</div>`;
}

/** What is said of the tokens that are chosen: the weight of a pair, or the largest weights of a token. */
function spoken(head, { query, key }) {
  const { weights: { tokens }, shown } = head;
  const weightOf = reader(head);
  if (query !== null && key !== null) return `${gives(tokens, query, key, weightOf(query, key))}.`;
  const [position, isQuery] = query === null ? [key, false] : [query, true];
  const most = shown.map((other) => [other, isQuery ? weightOf(position, other) : weightOf(other, position)])
    .sort(([, one], [, other]) => other - one).slice(0, NAMED);
  const list = most.map(([other, weight]) => `${quoted(tokens[other])} ${short(weight)}`);
  return `${quoted(tokens[position])} ${isQuery ? "looks most at" : "is looked at most by"} ${list.join(", ")}.`;
}

/** The scale, and the weights as a table; a large one is only in the saved file. */
function Table({ head }) {
  const { weights: { tokens, size }, shown, largest } = head;
  const count = shown.length ** 2;
  const weightOf = reader(head);
  const columns = () => shown.map((key) => [tokens[key].text, shown.map((query) => weightOf(query, key))]);
  return html`<p class="note">The scale ends at${" "}<span class="largest" title=${full(largest)}>${short(largest)}</span>;
      an even share is ${short(1 / size)}. ${count > MOST_CELLS && `${grouped(count)} numbers are too many for a table: save them as JSON.`}</p>
    ${count <= MOST_CELLS && html`<${Numbers} title="The numbers as a table" columns=${columns}
      tokens=${shown.map((at) => tokens[at])} causes=${[head]} />`}`;
}
