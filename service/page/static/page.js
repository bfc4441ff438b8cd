/**
 * Runs the page: holds what is shown, asks the service, and hands answers to the parts that draw.
 */

import { useKey } from "./api.js";
import { Asker } from "./asker.js";
import { Controls } from "./controls.js";
import { byId } from "./elements.js";
import { offerExamples } from "./examples.js";
import { askImportance, hasImportance } from "./importance.js";
import { readFragment } from "./link.js";
import { ProblemBox } from "./problem.js";
import { difference, fitted, withHead } from "./question.js";
import { Share } from "./share.js";
import { Stage } from "./stage.js";
import { beginWaiting, endWaiting, progressOf } from "./waiting.js";
import { verdictText } from "./verdict.js";

const ASKED = ["reduce", "level", "layers", "heads", "sentences", "whole", "window"]; // fields of a view that the service computes

const ABOUT_KEYS = ["unauthorized", "key-refused", "key-unsendable"];

let wish = readFragment(window.location.hash).view; // what the user wants to see
let shown = null; // the last good answer: { sentences, model, questions, results, view as drawn }
let asking = null; // the question on its way: { sentences, controller }
let marking = new AbortController();

const announce = (text) => {
  byId("status").textContent = text;
};
const problems = new ProblemBox();
const controls = new Controls(changeView);
const asker = new Asker((model) => controls.offer(model));
const share = new Share(
  () => ({ view: wish, sentences: latest()?.sentences ?? typed() }),
  announce,
);
const stage = new Stage({
  announce,
  onProblem: failBeside,
  onRead: changeView,
  onChoose(weights, row, column) {
    const layer = weights.oneRow ? {} : { layer: weights.layers[row] };
    const head = weights.oneColumn ? {} : { head: weights.heads[column] };
    change({ ...layer, ...head });
    stage.choose(shown.view);
    share.update();
  },
});

/** The last question, on its way or answered. */
function latest() {
  return asking ?? shown;
}

function typed() {
  const fields = byId("compare").checked ? ["sentence", "second"] : ["sentence"];
  return fields.map((id) => byId(id).value);
}

function setCompare(isOn) {
  byId("compare").checked = isOn;
  byId("second-field").hidden = !isOn;
  byId("second").required = isOn;
}

/** Asks for all that a view of some sentences needs; a later question cancels this one. */
async function ask(sentences, view) {
  asking?.controller.abort();
  asking = { sentences, controller: new AbortController() };
  wish = view;
  const { signal } = asking.controller;
  problems.hide();
  beginWaiting(shown === null);
  try {
    const answer = await asker.ask(sentences, view, signal, progressOf(sentences.length));
    if (signal.aborted) return;
    const isNew = shown === null;
    // Takes the wish as it is now, so that what the user changed meanwhile stays.
    const window = Math.max(...answer.questions.map((question) => question.window));
    wish = { ...withHead(fitted(wish, answer.model), answer.results[0]), window };
    shown = { sentences, ...answer, view: wish };
    asking = null;
    draw();
    if (isNew) showResults();
    announce(`${summaries()} The heads are shown below.`);
    mark();
  } catch (problem) {
    if (signal.aborted) return;
    asking = null;
    announce("");
    goBack(sentences, problem);
  } finally {
    if (!signal.aborted) endWaiting();
  }
}

/** What a screen reader hears of the answers. */
function summaries() {
  const told = shown.results.map(({ document: { prediction, windows, window, sentences }, size }) => {
    const verdict = verdictText(prediction, wish.abstain);
    const place = windows > 1 ? `, window ${window} of ${windows}` : "";
    const parts = wish.sentences && sentences.length > 1 ? ` ${sentences.length} sentences.` : "";
    return `${verdict}, ${size} ${wish.level}s${place}.${parts}`;
  });
  return told.join(" ");
}

function draw() {
  byId("results").hidden = false;
  const { name, version } = shown.model;
  byId("model").textContent = `${name} ${version}`;
  controls.set(wish);
  stage.show(shown, shown.view);
  share.update();
}

/** Scrolls to the first answer if it is below the window. */
function showResults() {
  const results = byId("results");
  if (results.getBoundingClientRect().top > window.innerHeight * 0.6) results.scrollIntoView();
}

async function mark() {
  marking.abort();
  marking = new AbortController();
  const { signal } = marking;
  stage.mark(null);
  const { sentences, results, view } = shown;
  if (!view.importance || !hasImportance(view)) return;
  try {
    const marks = await askImportance(sentences, results, signal);
    if (!signal.aborted) stage.mark(marks);
  } catch (problem) {
    if (signal.aborted) return;
    change({ importance: false });
    if (problem.type === "not-found") byId("importance-choice").hidden = true;
    else failBeside(problem, () => changeView({ importance: true }));
    controls.set(wish);
    share.update();
  }
}

/** @param {?function()} retry repeats what failed */
function fail(problem, retry) {
  if (ABOUT_KEYS.includes(problem.type)) {
    byId("key-field").hidden = false;
    byId("key").focus();
  }
  problems.show(problem, retry);
}

/** Handles a failure beside the answer; if the model changed, asks for everything again. */
function failBeside(problem, retry) {
  fail(problem, problem.type === "model-changed" ? () => ask(shown.sentences, wish) : retry);
}

/** After a failure, goes back to the last view, or removes the answer of other sentences. */
function goBack(sentences, problem) {
  let lost = {};
  if (JSON.stringify(sentences) === JSON.stringify(shown?.sentences)) {
    lost = difference(wish, shown.view);
    wish = shown.view;
    controls.set(wish);
    share.update();
  } else {
    shown = null;
    marking.abort();
    byId("results").hidden = true;
  }
  fail(problem, () => ask(sentences, { ...wish, ...lost }));
}

/** Changes the wish and what is shown, where that needs no new answer. */
function change(fields) {
  wish = { ...wish, ...fields };
  shown.view = { ...shown.view, ...fields };
}

function changeView(fields) {
  if (Object.keys(fields).some((name) => ASKED.includes(name))) {
    ask(latest().sentences, { ...wish, ...fields });
    return;
  }
  change(fields);
  draw();
  if ("abstain" in fields) announce(summaries());
  mark();
}

function submit(view = { ...wish, window: 0 }) {
  const sentences = typed();
  if (sentences.some((text) => text.trim() === "")) {
    byId(sentences[0].trim() === "" ? "sentence" : "second").focus();
    fail({ type: "blank" }, null);
    return;
  }
  useKey(byId("key").value);
  ask(sentences, { ...view, compare: byId("compare").checked });
}

/** Restores the view of the address; asks if it has a text, or if an answer is shown. */
function restore() {
  const { view, texts } = readFragment(window.location.hash);
  share.drop();
  setCompare(view.compare);
  if (texts !== null) {
    byId("with-text").checked = true;
    byId("sentence").value = texts[0];
    if (texts[1] !== null) byId("second").value = texts[1];
  }
  if (texts !== null || latest() !== null) submit(view);
  else wish = view;
}

function choose(sentence, second) {
  byId("sentence").value = sentence;
  if (second) byId("second").value = second;
  setCompare(second !== undefined);
  submit();
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
byId("compare").addEventListener("change", () => {
  setCompare(byId("compare").checked);
  if (byId("compare").checked) byId("second").focus();
  else if (latest()) ask(latest().sentences.slice(0, 1), { ...wish, compare: false });
});
window.addEventListener("hashchange", restore);
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
offerExamples(choose);
restore();
