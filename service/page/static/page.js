/**
 * The page: holds what is shown, asks the service, and hands the answers to the parts that draw.
 */

import { get, useKey } from "./api.js";
import { askAttention } from "./attention.js";
import { Controls } from "./controls.js";
import { byId } from "./elements.js";
import { offerExamples } from "./examples.js";
import { askImportance } from "./importance.js";
import { readFragment } from "./link.js";
import { ProblemBox } from "./problem.js";
import { fitted, questionOf, withHead } from "./question.js";
import { Share } from "./share.js";
import { Stage } from "./stage.js";
import { percent } from "./words.js";

const ASKED = ["reduce", "level", "layers", "heads"]; // of a view: what the service computes

let { view } = readFragment(window.location.hash);
let shown = null; // the last good answer: { sentences, questions, results }
let wanted = null; // the last question: { sentences, view }
let model = null;
let controller = new AbortController();

const announce = (text) => {
  byId("status").textContent = text;
};
const problems = new ProblemBox(() => ask(wanted.sentences, wanted.view));
const controls = new Controls(changeView);
const share = new Share(() => ({ view, sentences: shown?.sentences ?? typed() }), announce);
const stage = new Stage({
  announce,
  onProblem: (problem) => fail(problem),
  onChoose(weights, row, column) {
    const layer = weights.oneRow ? view.layer : weights.layers[row];
    view = { ...view, layer, head: weights.oneColumn ? view.head : weights.heads[column] };
    stage.choose(view);
    share.update();
  },
});

function typed() {
  const fields = byId("compare").checked ? ["sentence", "second"] : ["sentence"];
  return fields.map((id) => byId(id).value);
}

function setCompare(isOn) {
  byId("compare").checked = isOn;
  byId("second-field").hidden = !isOn;
  byId("second").required = isOn;
}

/** Asks for all that a view of some sentences needs; a later question drops this one. */
async function ask(sentences, asked) {
  controller.abort();
  controller = new AbortController();
  const { signal } = controller;
  wanted = { sentences, view: asked };
  problems.hide();
  byId("results").setAttribute("aria-busy", "true");
  try {
    if (model === null) {
      model = await get("/model", signal);
      controls.offer(model);
    }
    const next = fitted(asked, model);
    const questions = sentences.map((sentence) => questionOf(sentence, next, model));
    const onProgress = progressOf(questions.length);
    const results = await Promise.all(
      questions.map((question, at) =>
        askAttention(question, signal, (part) => onProgress(at, part)),
      ),
    );
    if (signal.aborted) return;
    const isNew = shown === null;
    shown = { sentences, questions, results };
    view = withHead(next, results[0]);
    draw();
    if (isNew) showResults();
    announce(`${results.map(summary).join(" ")} The heads are shown below.`);
    await mark();
  } catch (problem) {
    if (problem.name === "AbortError") return;
    fail(problem);
    forgetOthers(sentences);
  } finally {
    if (controller.signal === signal) {
      byId("progress").hidden = true;
      byId("results").removeAttribute("aria-busy");
    }
  }
}

/** Tells how far a question is that comes in parts, by the sentence that is behind. */
function progressOf(count) {
  const parts = new Array(count).fill(0);
  return (at, part) => {
    parts[at] = part;
    byId("share").value = Math.min(...parts);
    byId("progress").hidden = false;
  };
}

const summary = ({ prediction, size }) =>
  `${prediction.label}, ${percent(prediction.score)}, ${size} ${view.level}s.`;

function draw() {
  byId("results").hidden = false;
  const { name, version } = shown.results[0].model;
  byId("model").textContent = `${name} ${version}`;
  controls.set(view);
  stage.show(shown, view);
  share.update();
}

/** Brings the first answer into sight where the window is too low for it. */
function showResults() {
  const results = byId("results");
  if (results.getBoundingClientRect().top > window.innerHeight * 0.6) results.scrollIntoView();
}

async function mark() {
  const isWanted = view.importance && view.reduce === "none";
  stage.mark(null);
  if (!isWanted) return;
  const { sentences, results } = shown;
  try {
    const marks = await askImportance(sentences, results, controller.signal);
    if (results === shown?.results && view.importance) stage.mark(marks);
  } catch (problem) {
    if (problem.name === "AbortError") return;
    view = { ...view, importance: false };
    if (problem.type === "not-found") byId("importance-choice").hidden = true;
    else fail(problem);
    controls.set(view);
    share.update();
  }
}

function fail(problem) {
  if (problem.type === "unauthorized") {
    byId("key-field").hidden = false;
    byId("key").focus();
  }
  problems.show(problem);
}

/** After a failure: takes away an answer of other sentences, or goes back to the view in hand. */
function forgetOthers(sentences) {
  if (shown === null) return;
  if (JSON.stringify(sentences) === JSON.stringify(shown.sentences)) controls.set(view);
  else {
    shown = null;
    byId("results").hidden = true;
  }
}

function changeView(change) {
  const next = { ...view, ...change };
  if (Object.keys(change).some((name) => ASKED.includes(name))) {
    ask(shown.sentences, next);
    return;
  }
  view = next;
  draw();
  mark();
}

function submit() {
  const sentences = typed();
  if (sentences.some((text) => text.trim() === "")) {
    fail({ type: "blank" });
    byId(sentences[0].trim() === "" ? "sentence" : "second").focus();
    return;
  }
  useKey(byId("key").value);
  ask(sentences, { ...view, compare: byId("compare").checked });
}

/** Goes to the view that the address names; asks if it names a sentence, or one is shown. */
function restore() {
  const { view: named, texts } = readFragment(window.location.hash);
  view = named;
  setCompare(view.compare);
  if (texts !== null) {
    byId("with-text").checked = true;
    byId("sentence").value = texts[0];
    if (texts[1] !== null) byId("second").value = texts[1];
  }
  if (texts !== null || shown !== null) submit();
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
  else if (shown) ask(shown.sentences.slice(0, 1), { ...view, compare: false });
});
window.addEventListener("hashchange", restore);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (shown) draw();
});
let resizing = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(resizing);
  resizing = requestAnimationFrame(() => shown && stage.choose(view));
});
offerExamples(choose);
restore();
