/**
 * Shows *A text*: its verdict first, then what leaving out each word or sentence changes, and what
 * the reader tries. Each part is asked for by itself, so that one that fails takes nothing with it.
 */

import { askPredictions, isSameModel, post, requireModel } from "./api.js";
import { readPalette, sidesOf, tint } from "./canvas.js";
import { Bars, byId, isSame, Latest, ProblemAt, Segments, useRoving } from "./parts.js";
import { html } from "./preact.js";
import { announce, change, describe, fail, learn, remember, state } from "./store.js";
import { grouped, outcomeOf, percent, plain, POINT, quoted, reliability } from "./words.js";

const LONG = 80; // words of a text whose sentences come first
const MOST_CHECKED = 32; // parts whose verdict is asked for
const MOST_NAMED = 4; // parts that turn the verdict
const MOST_TRIED = 20;
const NAMED = 60; // characters of a part in a sentence
const LEAST_SCALE = 0.05; // change of a probability: on a smaller scale, nothing would look like much
const PRESS = POINT === "Tap" ? "Tap" : "Press";
const WHOLE = { truncation: "window" };
const NOT_ENGLISH =
  "This does not look like English. The model learned from English texts, so it may well be wrong here.";
const UNTRIED = { trial: [], undone: [], tried: [], outcome: "", now: null };

state.reading = {
  text: null, // that was asked about
  isBusy: false,
  shown: null, // the answer: { model, prediction }
  level: "word", // of the parts
  units: [], // parts to leave out, in the order of the text
  reasons: null, // what leaving out each of them changes
  because: "",
  how: "",
  which: 0, // part that is replaced
  ...UNTRIED, // edits that are tried: [start, end, text in its place], in code points and in order
};

const asking = new Latest();
const explaining = new Latest();
const trying = new Latest();

const set = (fields) => change("reading", fields);
const isForeign = ({ warnings }) => Boolean(warnings?.includes("not-english"));

/** The words of a text, with their places in code points. */
function wordsOf(text) {
  let end = 0;
  return text.split(/(\s+)/u).flatMap((part, at) => {
    const start = end;
    end += [...part].length;
    return at % 2 === 1 || part === "" ? [] : [{ start, end, text: part }];
  });
}

function edited(text, edits) {
  const characters = [...text];
  let from = 0;
  const parts = edits.flatMap(([start, end, by]) => {
    const kept = characters.slice(from, start).join("");
    from = end;
    return [kept, by];
  });
  return [...parts, characters.slice(from).join("")].join("");
}

/** A part of a text, quoted; a long one is shortened. */
function named(text) {
  const characters = [...text];
  return quoted({ text: characters.length > NAMED ? `${characters.slice(0, NAMED).join("")}…` : text });
}

/** Asks about a text; returns whether its verdict is shown. The page asks for an example itself. */
export async function read(text, isExample = false) {
  explaining.stop();
  const signal = asking.begin();
  set({ text, isBusy: true });
  announce("Asking …");
  try {
    let model = await describe(signal);
    const answer = await askPredictions([text], WHOLE, signal);
    if (!isSameModel(answer.model, model)) model = await learn(signal);
    requireModel(answer, model);
    if (signal.aborted) return false;
    show(model, answer.predictions[0], isExample);
  } catch (problem) {
    if (signal.aborted) return false;
    set({ text: null, shown: null });
    announce("");
    if (!isExample) fail(problem, () => read(text));
    return false;
  } finally {
    if (!signal.aborted) set({ isBusy: false });
  }
  explain();
  restore();
  remember(false);
  return true;
}

function show(model, prediction, isExample) {
  const { text, shown } = state.reading;
  const isKnown = shown?.text === text && isSameModel(shown.model, model);
  if (!isKnown) trying.stop();
  const level = wordsOf(text).length > LONG ? "sentence" : "word";
  set({ shown: { text, model, prediction }, level, ...(isKnown ? {} : UNTRIED) });
  announce(`${isExample ? "An example: " : ""}${prediction.label}, ${plain(prediction.score)}.`);
  if (isExample) return;
  // Leads to the verdict, which a reader may have to scroll to.
  const verdict = document.querySelector("#answer .verdict"); // none, if another tab is open by now
  /** @type {HTMLElement} */ (verdict)?.focus({ preventScroll: true });
  verdict?.scrollIntoView({ block: "nearest" });
}

async function explain() {
  const signal = explaining.begin();
  const { text, level, shown: { model, prediction: { label } } } = state.reading;
  const because = `Leaving out each ${level}, to see what changes …`;
  set({ reasons: null, units: level === "word" ? wordsOf(text) : [], because, how: "" });
  try {
    const body = { sentence: text, method: "leave_out", level, label, ...WHOLE };
    const answer = await post("/attributions", body, signal);
    requireModel(answer, model);
    const turning = await turningOf(answer, signal).catch(() => null);
    if (!signal.aborted) set({ reasons: answer, units: answer.units, ...said(answer, turning, level) });
  } catch (problem) {
    if (signal.aborted) return;
    const how = `What leaving out changes is not computed: ${problem.message}`;
    set({ units: wordsOf(text), because: "", how });
  }
}

/** The parts without which the verdict is another, with that verdict; null if not all are known. */
async function turningOf({ units, label, partial }, signal) {
  const { text, shown: { model } } = state.reading;
  // Above one half the label keeps the verdict.
  const near = units
    .filter(({ probability }) => probability < 0.5)
    .sort((one, other) => one.probability - other.probability)
    .map((unit) => ({ unit, left: edited(text, [[unit.start, unit.end, ""]]) }))
    .filter(({ left }) => left.trim() !== "");
  const asked = near.slice(0, Math.min(MOST_CHECKED, model.limits.max_sentences));
  if (asked.length === 0) return partial ? null : [];
  const answer = await post("/predict", { sentences: asked.map(({ left }) => left), ...WHOLE }, signal);
  requireModel(answer, model);
  const turned = asked
    .map(({ unit }, at) => ({ unit, label: answer.predictions[at].label }))
    .filter((each) => each.label !== label);
  return turned.length === 0 && (partial || asked.length < near.length) ? null : turned;
}

/** What leaving out changes most, and what the numbers and colours are. */
function said({ units, label, partial }, turning, asked) {
  // Where there is no time for the words of a long text, its sentences come instead.
  const noun = units.some(({ text }) => /\s/u.test(text.trim())) ? "sentence" : asked;
  const size = ({ probability_change: moved }) => Math.abs(moved);
  const [most] = [...units].sort((one, other) => size(other) - size(one));
  const parts = [];
  if (most && size(most) >= 0.01) {
    const verb = most.probability_change > 0 ? "falls" : "rises";
    const [from, to] = [most.probability + most.probability_change, most.probability].map(plain);
    parts.push(`Without ${placed(most, units)}, ${label} ${verb} from ${from} to ${to}.`);
  } else if (partial) parts.push(`None of the ${units.length} ${noun}s that were tried changes ${label} by 1 point.`);
  else parts.push(`Leaving out any one ${noun} changes ${label} by less than 1 point.`);
  const [first, ...others] = turning ?? [];
  if (first && others.length === 0) {
    const it = first.unit === most ? "It" : placed(first.unit, units);
    parts.push(`${it} decided the verdict, which turns to ${first.label} without it.`);
  } else if (first) {
    const some = turning.slice(0, MOST_NAMED).map(({ unit }) => placed(unit, units));
    const more = turning.length > MOST_NAMED ? ` and ${turning.length - MOST_NAMED} more` : "";
    parts.push(`Each of these ${noun}s decided it: ${some.join(", ")}${more}. Without any one of them, the verdict turns.`);
  } else if (turning) parts.push(`No single ${noun} decided it: without any one, the verdict stays.`);
  const [[, own], [, other]] = sidesOf(label);
  const how = [
    partial && `Partial: there was no time for every ${asked}.`,
    `Marked in ${own}, a ${noun} speaks for ${label}: without it the probability falls. In ${other}, it speaks against it.`,
    `${PRESS} one to leave it out, and again to bring it back.`,
  ];
  return { because: parts.join(" "), how: how.filter(Boolean).join(" ") };
}

/** A part, quoted; one that comes several times with what stands beside it. */
function placed(unit, units) {
  const at = units.indexOf(unit);
  const isOnly = units.filter(({ text }) => text === unit.text).length === 1;
  const near = units.slice(Math.max(at - 1, 0), at + 2).map(({ text }) => text);
  return isOnly ? named(unit.text) : `${named(unit.text)} (in ${named(near.join(" "))})`;
}

/** Tries again what the history of this tab has of the text. */
export function restore() {
  const { text, shown, trial } = state.reading;
  if (!shown || history.state?.text !== text) return;
  const kept = Array.isArray(history.state.trial) ? history.state.trial : [];
  if (!isSame(kept, trial)) goTo(kept, []);
}

/** Puts a text in the place of a part; nothing leaves it out, or brings it back. */
function put(at, by) {
  const { units, trial } = state.reading;
  const { start, end } = units[at];
  set({ which: at });
  const others = trial.filter(([from, to]) => to <= start || from >= end);
  const isBack = by === "" && trial.some((edit) => isSame(edit, [start, end, ""]));
  const edits = isBack ? others : [...others, [start, end, by]];
  attempt(edits.sort(([one], [other]) => one - other));
}

/** Tries something else, and keeps what was tried before it for Undo. */
function attempt(trial, undone = [...state.reading.undone, state.reading.trial]) {
  goTo(trial, undone);
  remember(true);
}

async function goTo(trial, undone) {
  const signal = trying.begin();
  const { text, shown: { model, prediction: was }, trial: before, undone: undoneBefore } = state.reading;
  set({ trial, undone });
  if (trial.length === 0) {
    set({ now: null, outcome: "" });
    return;
  }
  try {
    const answer = await post("/predict", { sentences: [edited(text, trial)], ...WHOLE }, signal);
    requireModel(answer, model);
    const [now] = answer.predictions;
    const name = nameOf(trial, text);
    const outcome = `${name[0].toUpperCase()}${name.slice(1)}: ${outcomeOf(was, now)}`;
    const others = state.reading.tried.filter((each) => each.outcome !== outcome);
    set({ now, outcome, tried: [{ trial, outcome }, ...others].slice(0, MOST_TRIED) });
    announce(outcome);
  } catch (problem) {
    if (signal.aborted) return;
    set({ trial: before, undone: undoneBefore });
    fail(problem, () => goTo(trial, undone), "outcome");
  }
}

function nameOf(edits, text) {
  const characters = [...text];
  const was = ([start, end]) => named(characters.slice(start, end).join(""));
  const others = edits.filter(([, , by]) => by).map((edit) => `${named(edit[2])} for ${was(edit)}`);
  const left = edits.filter(([, , by]) => !by).map(was);
  return [others.join(", "), left.length > 0 && `without ${left.join(", ")}`].filter(Boolean).join("; ");
}

/** The tab; `back` leads to the row that was opened, `onBack` goes there. */
export function Reading({ reading, page, back, onBack }) {
  const { text, shown, isBusy, now, level, because, how, outcome } = reading;
  const offer = back !== null && html`<button type="button" id="back" class="quiet" onClick=${onBack}>
    Back to row ${grouped(back)} of the table</button>`;
  if (shown === null) return html`<section id="text-tab" aria-label="A text">${offer}</section>`;
  const { prediction, model } = shown;
  const labels = Object.keys(prediction.probabilities);
  const figures = now ?? prediction;
  const by = (value) => {
    set({ level: value });
    explain();
  };
  return html`<section id="text-tab" aria-label="A text">${offer}
    <article id="answer" class=${page.text === text ? "" : "old"} aria-busy=${isBusy ? "true" : null}>
      <div class="prediction">
        <div>
          <p class="verdict" tabindex="-1"><strong class="label">${prediction.label}</strong>${" "}
            <span class="score" title=${prediction.score}>${plain(prediction.score)}</span>${" "}
            <span class="now">${now && `→ ${now.label}, ${plain(now.score)}`}</span></p>
          <p class="reliable note">${
            // The record is that of English texts.
            isSame(labels, model.labels) && !isForeign(figures) && reliability(model.thresholds, figures.score)
          }</p>
        </div>
        <${Bars} probabilities=${figures.probabilities} />
        ${isForeign(prediction) && html`<p class="warning error">${NOT_ENGLISH}</p>`}
        ${prediction.windows > 1 && html`<p class="extent note">A long text, read whole
          in ${prediction.windows} overlapping parts (${grouped(prediction.token_count)} tokens).</p>`}
      </div>
      <section class="reasons">
        <div class="top-line"><h2>Why</h2><${Segments} legend="By" name="unit" value=${level} onChoose=${by}
          choices=${[["word", "word"], ["sentence", "sentence"]]} /></div>
        <p class="because" aria-live="polite">${because}</p>
        <${Passage} ...${reading} />
        <p class="how note">${how}</p>
        <p class="outcome">${outcome}</p>
        <${ProblemAt} place="outcome" />
        <${Attempts} ...${reading} />
      </section>
    </article></section>`;
}

/** The text; each part is coloured by what leaving it out changes, and is left out by a press. */
function Passage({ text, units, reasons, trial }) {
  const { toolbar, tabOf } = useRoving(units.length);
  const characters = [...text];
  const by = new Map(trial.map(([start, end, other]) => [`${start} ${end}`, other]));
  const others = units.map(({ start, end }) => by.get(`${start} ${end}`));
  const left = others.filter((other) => other === "").length;
  const [palette, sides] = [readPalette(), reasons && sidesOf(reasons.label)];
  const largest = units.reduce((most, { probability_change: moved = 0 }) => Math.max(most, Math.abs(moved)), LEAST_SCALE);
  let from = 0;
  const part = ({ start, end, text: was, probability, probability_change: moved }, at) => {
    const gap = characters.slice(from, start).join("");
    from = end;
    const other = others[at];
    // The power lets the second and third word be seen beside a first one that decides.
    const shade = reasons && tint(palette[sides[moved < 0 ? 1 : 0][0]], 0.48 * (Math.abs(moved) / largest) ** 0.6);
    // One part stays: without any there is nothing to read.
    return html`${gap}<button type="button" tabindex=${tabOf(at)} aria-pressed=${other === ""}
      class="${other ? "other" : ""} ${reasons && Math.abs(moved) === largest ? "most" : ""}"
      disabled=${left === units.length - 1 && other !== ""} style=${{ backgroundColor: shade ?? "" }}
      title=${reasons ? `Without it: ${reasons.label} ${percent(probability)}` : null}
      onClick=${() => put(at, "")}>${other ? `${was} → ${other}` : was}</button>`;
  };
  return html`<div class="leave passage" dir="auto" ...${toolbar}
    aria-label="The text; a press leaves a part out, arrow keys go from one to the next">
    ${units.map(part)}${characters.slice(from).join("")}</div>`;
}

function Attempts({ units, trial, undone, tried, which }) {
  const replace = (event) => {
    event.preventDefault();
    const by = byId("by").value.trim();
    if (by !== "") put(which, by);
  };
  return html`
    <div class="row">
      <button type="button" class="quiet undo" disabled=${undone.length === 0}
        onClick=${() => attempt(undone.at(-1), undone.slice(0, -1))}>Undo</button>
      <button type="button" class="quiet reset" disabled=${trial.length === 0} onClick=${() => attempt([])}>As it was</button>
      <form class="row replace" onSubmit=${replace}>
        <label>Replace <select class="which" value=${which} onChange=${({ target }) => set({ which: target.selectedIndex })}>
          ${units.map(({ text }, at) => html`<option value=${at}>${text}</option>`)}</select></label>
        <label>by <input id="by" class="by" maxlength="100" required autocomplete="off" /></label>
        <button class="quiet">Try it</button>
      </form>
    </div>
    ${tried.length > 0 && html`<details class="history"><summary>What was tried</summary><ol class="tried">
      ${tried.map((each) => html`<li><button type="button" class="quiet"
        onClick=${() => attempt(each.trial)}>${each.outcome}</button></li>`)}</ol></details>`}`;
}
