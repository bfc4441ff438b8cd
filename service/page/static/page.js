/**
 * Runs the page: holds what is shown, asks the service, and hands answers to the parts that draw.
 */

import { useKey, usedLabels } from "./api.js";
import { Asker } from "./asker.js";
import { askImportance, hasImportance } from "./attention.js";
import { Classes, Controls } from "./controls.js";
import { byId, make } from "./elements.js";
import { readFragment, Share, TABS, writeFragment } from "./link.js";
import { focusOpened, Many } from "./many.js";
import { beginWaiting, endWaiting, ProblemBox, progressOf } from "./notices.js";
import { html } from "./preact.js";
import { difference, fitted, isSame, withHead } from "./question.js";
import { Reading } from "./reading.js";
import { Stage } from "./stage.js";
import { begin, handlers } from "./store.js";
import { grouped, percent } from "./words.js";

// Fields of a view that the service computes.
const ASKED = ["reduce", "level", "layers", "heads", "whole", "window"];

// What each shows, the sentence, and for a comparison the second one.
const EXAMPLES = [
  ["a change of mind", "The plot drags, but the cast is superb."],
  ["a negation", "It is not bad at all, and I would not miss it."],
  ["a product", "The battery lasts two days, yet the charger broke within a week."],
  ["a restaurant", "We waited an hour for soup that came cold."],
  ["one word changed", "The staff was friendly and quick.", "The staff was rude and quick."],
];

const ABOUT_KEYS = ["unauthorized", "key-refused", "key-unsendable"];

let tab = ""; // the name of the one that is open
let wish = readFragment(window.location.hash).view; // what the user wants to see
let shown = null; // the last good answer: { sentences, changes, model, questions, results, view as drawn }
let asking = null; // the question on its way: { sentences, changes, controller }
let marking = new AbortController();
let choosing = new AbortController();

const announce = (text) => {
  byId("status").textContent = text;
};
const problems = new ProblemBox();
const controls = new Controls(changeView);
const asker = new Asker((model) => {
  controls.offer(model);
  nameModel(model);
});
const reading = new Reading(asker, {
  announce,
  onProblem: fail,
  onTrial: () => remember(true),
});
const classes = new Classes(changeClasses);
const share = new Share(
  () => ({ view: wholeWish(), sentences: latest() ? textsOf(latest()) : typed() }),
  announce,
);
const stage = new Stage({
  announce,
  onProblem: failBeside,
  onRead: changeView,
  onCompare(changes) {
    const sentences = shown.sentences.slice(0, 1);
    const view = { ...wish, compare: false };
    if (changes === null) ask(sentences, view);
    else ask([...sentences, changes.sentence], view, changes);
    setCompare(false);
  },
  onTrial() {
    remember(true);
    // What stands beside it was read with another trial.
    if (latest()?.changes) ask(latest().sentences.slice(0, 1), { ...wish, compare: false });
  },
  onChoose(weights, row, column) {
    const layer = weights.oneRow ? {} : { layer: weights.layers[row] };
    const head = weights.oneColumn ? {} : { head: weights.heads[column] };
    choosePlace({ ...layer, ...head });
  },
});

function latest() {
  return asking ?? shown;
}

function typed() {
  const fields = byId("compare").checked ? ["sentence", "second"] : ["sentence"];
  return fields.map((id) => byId(id).value);
}

/** What the user wants to see, with the classes that answers choose among. */
const wholeWish = () => ({ ...wish, labels: usedLabels() });

/** The texts of a question as they were typed: one that is compared with itself once. */
const textsOf = ({ sentences, changes }) => (changes ? sentences.slice(0, 1) : sentences);

/** Says that the answer is not that of the text in the fields, as soon as one is edited. */
function markOld() {
  const isHeads = tab === "heads";
  const isOld = isHeads
    ? shown !== null && !isSame(typed(), textsOf(shown))
    : reading.shown !== null && byId("sentence").value !== reading.text;
  byId(isHeads ? "results" : "answer").classList.toggle("old", isOld);
  byId("old").textContent = isOld ? "This is the answer to the text before your change." : "";
}

function setCompare(isOn) {
  byId("compare").checked = isOn;
  byId("second-field").hidden = !isOn;
  byId("second").required = isOn;
}

/**
 * Asks for all that a view of some sentences needs; a later question cancels this one. With
 * `changes` the second sentence is the first one, read with these. A guided question begins with a
 * head that matters.
 */
async function ask(sentences, view, changes = null, isGuided = false) {
  asking?.controller.abort();
  asking = { sentences, changes, controller: new AbortController() };
  wish = view;
  const { signal } = asking.controller;
  problems.hide();
  beginWaiting(shown === null);
  try {
    const waiting = progressOf(sentences.length);
    const answer = await asker.ask(sentences, view, signal, waiting, [null, changes]);
    if (signal.aborted) return;
    const isNew = shown === null && !isGuided;
    // Without importance the page shows another head.
    const asked = isGuided ? askImportance(sentences, answer.results, signal) : [];
    const [marks = null] = await Promise.resolve(asked).catch(() => []);
    if (signal.aborted) return;
    // Takes the wish as it is now, so that what the user changed meanwhile stays.
    const window = Math.max(...answer.questions.map((question) => question.window));
    do {
      wish = { ...withHead(fitted(wish, answer.model), answer.results[0], marks), window };
      await asker.complete(answer, wish, signal);
      if (signal.aborted) return;
    } while (!Asker.isComplete(answer, wish));
    shown = { sentences, changes, ...answer, view: wish };
    asking = null;
    draw();
    recall();
    remember(false);
    if (isNew) showResults();
    announce(`${summaries()} The heads are shown below.`);
    mark();
  } catch (problem) {
    if (signal.aborted) return;
    asking = null;
    announce("");
    goBack(sentences, changes, problem);
  } finally {
    if (!signal.aborted) endWaiting();
  }
}

/** What a screen reader hears of the answers. */
function summaries() {
  const texts = shown.results.map(({ document: { prediction, windows, window }, size }) => {
    const place = windows > 1 ? `, window ${window} of ${windows}` : "";
    return `${prediction.label}, ${percent(prediction.score)}, ${size} ${wish.level}s${place}.`;
  });
  return texts.join(" ");
}

function nameModel({ name, version, labels }) {
  byId("served").hidden = false;
  byId("model").textContent = `${name} ${version}`;
  classes.offer(labels);
}

/** Asks about what is shown with other classes. */
function changeClasses() {
  if (tab === "many") announce("The next run scores with these classes.");
  else if (tab === "heads" ? latest() : reading.shown) submit(wish);
}

function setControls() {
  controls.set(wish, shown?.results.some(({ document }) => document.prediction?.truncated));
}

function draw() {
  // A hidden canvas has no width to draw in.
  if (tab !== "heads") return;
  byId("results").hidden = false;
  markOld();
  setControls();
  stage.show(shown, shown.view);
  share.update();
}

/** Shows another place of the grid large, or several, once their maps are there. */
async function choosePlace(place) {
  choosing.abort();
  choosing = new AbortController();
  const { signal } = choosing;
  const answer = shown;
  const next = { ...answer.view, ...place };
  try {
    if (!Asker.isComplete(answer, next)) await asker.complete(answer, next, signal);
    if (signal.aborted || shown !== answer) return;
    change(place);
    if ("picture" in place) {
      draw();
      mark();
    } else stage.choose(shown.view);
    share.update();
  } catch (problem) {
    if (!signal.aborted) failBeside(problem, () => choosePlace(place), stage.overview);
  }
}

/**
 * Keeps the texts and what is tried with them in the history of this tab, for Back, Forward and a
 * reload. It does not leave the browser.
 */
function remember(isNew, address = "") {
  const heads = shown && { texts: textsOf(shown), trials: stage.trials };
  const state = { text: reading.text, trial: reading.trials.trial, heads };
  if (isNew) history.pushState(state, "", address);
  else history.replaceState(state, "");
}

/** Tries again what the history has of the texts that are shown. */
function recall() {
  const { state } = history;
  if (state === null) return;
  if (state.text === reading.text && reading.shown) reading.trials.restore(state.trial);
  if (shown === null || asking !== null || shown.changes) return;
  if (isSame(state.heads?.texts, textsOf(shown))) stage.restore(state.heads.trials);
}

function showResults() {
  const results = byId("results");
  if (results.getBoundingClientRect().top > window.innerHeight * 0.6) results.scrollIntoView();
}

async function mark() {
  marking.abort();
  marking = new AbortController();
  const { signal } = marking;
  stage.mark(null);
  const { sentences, changes, results, view } = shown;
  if (!view.importance || !hasImportance(view) || changes) return;
  try {
    const marks = await askImportance(sentences, results, signal);
    if (!signal.aborted) stage.mark(marks);
  } catch (problem) {
    if (signal.aborted) return;
    change({ importance: false });
    if (problem.type === "not-found") byId("importance-choice").hidden = true;
    else failBeside(problem, () => changeView({ importance: true }), controls.form);
    setControls();
    share.update();
  }
}

function fail(problem, retry, place) {
  const isOfForm = ABOUT_KEYS.includes(problem.type);
  if (isOfForm) {
    byId("key-field").hidden = false;
    byId("key").focus();
  }
  problems.show(problem, retry, isOfForm ? undefined : place);
}

/** Handles a failure beside the answer; if the model changed, asks for everything again. */
function failBeside(problem, retry, place) {
  const isOld = problem.type === "model-changed";
  fail(problem, isOld ? () => ask(shown.sentences, wish, shown.changes) : retry, place);
}

/** After a failure, goes back to the last view, or removes the answer of other sentences. */
function goBack(sentences, changes, problem) {
  let lost = {};
  const isShown = shown !== null && isSame(textsOf(shown), textsOf({ sentences, changes }));
  if (isShown) {
    lost = difference(wish, shown.view);
    wish = shown.view;
    setControls();
    share.update();
  } else {
    shown = null;
    marking.abort();
    byId("results").hidden = true;
  }
  // What was asked by a control stays there, and what was asked by the form at the form.
  const isOfForm = !isShown || byId("ask").contains(document.activeElement);
  const retry = () => ask(sentences, { ...wish, ...lost }, changes);
  fail(problem, retry, isOfForm ? undefined : controls.form);
}

/** Changes the wish and what is shown, where that needs no new answer. */
function change(fields) {
  wish = { ...wish, ...fields };
  shown.view = { ...shown.view, ...fields };
}

function changeView(fields) {
  const isLong = shown?.results.some(({ isWhole }) => !isWhole);
  const asked = isLong ? [...ASKED, "special"] : ASKED;
  if (Object.keys(fields).some((name) => asked.includes(name))) {
    ask(latest().sentences, { ...wish, ...fields }, latest().changes);
    return;
  }
  if ("picture" in fields || "overlay" in fields) {
    choosePlace(fields);
    return;
  }
  change(fields);
  draw();
  mark();
}

/** Asks about what is typed, in the tab that is open; returns whether it is answered. */
async function submit(view = { ...wish, window: 0 }) {
  const isHeads = tab === "heads";
  const sentences = isHeads ? typed() : [byId("sentence").value];
  if (sentences.some((text) => text.trim() === "")) {
    byId(sentences[0].trim() === "" ? "sentence" : "second").focus();
    fail({ type: "blank" }, null);
    return false;
  }
  useKey(byId("key").value);
  problems.hide();
  if (isHeads) return ask(sentences, { ...view, compare: byId("compare").checked });
  return read(sentences[0]);
}

async function read(text, isExample = false) {
  const isShown = await reading.ask(text, isExample);
  markOld();
  if (!isShown) return false;
  recall();
  remember(false);
  return true;
}

/** Opens a tab; what is typed is asked there if its answer is not there yet. */
function openTab(name) {
  tab = name;
  document.body.dataset.tab = name;
  for (const each of TABS) {
    byId(`${each}-tab`).hidden = each !== name;
    const link = document.querySelector(`nav a[href="#${each}"]`);
    if (each === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  byId("ask").hidden = name === "many";
  problems.hide();
}

/** Goes to a tab by its link. */
function goTo(name) {
  if (name === tab) return;
  remember(false);
  openTab(name);
  remember(true, name === "heads" ? writeFragment(wholeWish()) : `#${name}`);
  if (name === "text" && reading.text !== byId("sentence").value) submit();
  if (name !== "heads") return;
  if (shown !== null && isSame(typed(), textsOf(shown))) draw();
  else if (asking === null && byId("sentence").value.trim()) {
    useKey(byId("key").value);
    ask(typed(), { ...wish, compare: byId("compare").checked, window: 0 }, null, true);
  }
}

/** Restores what an address says; asks if it has a text, or if an answer is shown. */
function restore() {
  const { tab: name, view, texts } = readFragment(window.location.hash);
  share.drop();
  openTab(name);
  const { state } = history;
  if (texts !== null) {
    byId("with-text").checked = true;
    byId("sentence").value = texts[0];
    if (texts[1] !== null) byId("second").value = texts[1];
  }
  if (name === "heads") restoreHeads(view, texts, state?.heads?.texts);
  else if (name === "text") restoreText(texts, state?.text);
}

function restoreText(texts, kept) {
  if (texts === null && kept && reading.text === null) byId("sentence").value = kept;
  if (texts !== null || kept) {
    if (byId("sentence").value !== reading.text) submit();
  } else if (reading.text === null && !("keys" in document.documentElement.dataset)) {
    // A first visit, which begins with an example.
    read(byId("sentence").value, true);
  }
}

function restoreHeads(view, texts, kept) {
  setCompare(view.compare);
  const isShown = writeFragment(view) === writeFragment(wholeWish());
  classes.choose(view.labels);
  if (texts === null && latest() === null && kept && kept.length === (view.compare ? 2 : 1)) {
    // A reload, or Back from another page.
    [byId("sentence").value, byId("second").value = ""] = kept;
    submit(view);
  } else if (texts !== null) submit(view);
  else if (latest() === null) wish = view;
  else if (asking === null && isShown) draw();
  else submit(view);
}

function choose(sentence, second = undefined) {
  byId("sentence").value = sentence;
  if (second) byId("second").value = second;
  setCompare(second !== undefined);
  return submit();
}

/** Reads a row of the table as a text, and offers the way back to it. */
async function open({ row, text }) {
  byId("back").hidden = true;
  byId("sentence").value = text;
  openTab("text");
  remember(true, "#text");
  if (!(await submit())) return;
  byId("back").textContent = `Back to row ${grouped(row)} of the table`;
  byId("back").hidden = false;
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (tab !== "many") submit();
});
document.querySelector("nav").addEventListener("click", (event) => {
  const { hash } = /** @type {HTMLAnchorElement} */ (event.target);
  if (!hash || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  goTo(hash.slice(1));
});
for (const id of ["sentence", "second"]) {
  byId(id).addEventListener("input", markOld);
  byId(id).addEventListener("focus", ({ target }) => {
    if (EXAMPLES.some((each) => each.slice(1).includes(target.value))) target.select(); // to paste over it
  });
  byId(id).addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    submit();
  });
}
byId("compare").addEventListener("change", () => {
  setCompare(byId("compare").checked);
  if (byId("compare").checked) byId("second").focus();
  else if (latest()) ask(latest().sentences.slice(0, 1), { ...wish, compare: false });
});
window.addEventListener("hashchange", restore);
window.addEventListener("popstate", () => {
  openTab(readFragment(window.location.hash).tab);
  recall();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (!shown) return;
  draw();
  mark();
});
let resizing = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(resizing);
  resizing = requestAnimationFrame(() => shown && stage.choose(shown.view));
});
byId("unloaded").remove();
byId("how").open = window.matchMedia("(min-height: 64rem)").matches;
for (const [name, ...texts] of EXAMPLES) {
  const button = make("button", { type: "button", className: "quiet", title: texts.join(" / ") }, name);
  button.addEventListener("click", () => choose(...texts));
  byId("examples").append(button);
}
byId("back").addEventListener("click", () => {
  goTo("many");
  focusOpened();
});
Object.assign(handlers, {
  settle() {
    problems.hide();
    useKey(byId("key").value);
  },
  describe: (signal) => asker.describe(signal),
  fail: (problem, retry) => fail(problem, retry, byId("many-form")),
});
begin(({ many }) => html`<${Many} many=${many} onOpen=${open} />`, byId("many-holder"));
restore();
