/** Shows *Heads*: asks for the weights of a text, from one version of the model, and shows them. */

import { askPredictions, post, requireModel } from "./api.js";
import { keepInAddress, readFragment } from "./link.js";
import { Panel } from "./panel.js";
import { byId, isSame, Latest, ProblemAt, Segments } from "./parts.js";
import { html } from "./preact.js";
import { announce, change, describe, fail, learn, remember, settle, state } from "./store.js";
import { askMap, askWeights, NOTHING } from "./weights.js";
import { outcomeOf, pattern, percent, POINT } from "./words.js";

const ASKED = ["reduce", "level", "whole", "window"]; // fields of a view that the service computes

const NOTES = {
  mean: "Mean: the heads of each layer, averaged by the service.",
  rollout: "Rollout: an estimate of how much reaches each token through all layers (Abnar and Zuidema 2020).",
  word: "Words: what a word's tokens get is summed, what they give is averaged.",
  importance:
    "The bar under a map is its head's importance: how much the log-odds of the label change with what the head hands on (Michel et al. 2019), on a scale from 0 to the largest.",
  special: "Special tokens are only hidden: the weights are as before, so the rows drawn need not sum to 1.",
};

state.heads = {
  wish: readFragment("#heads").view, // what the user wants to see
  asked: "", // text of the latest question
  isBusy: false,
  shown: null, // the last good answer: { text, question, weights, view as drawn }
  marks: null, // importance of the heads, [row][column]
  lacksMarks: false, // whether the service does not offer them
  lacksSteps: false,
  off: [], // heads that are switched off: {layer, head}, or {layer} for all of one
  outcome: "", // what the verdict is without them
  pointed: NOTHING, // what is under the pointer
  pinned: NOTHING, // what stays chosen
};

const asking = new Latest();
const choosing = new Latest();
const marking = new Latest();
const switching = new Latest();

const set = (fields) => change("heads", fields);

/** Whether a view shows single heads of the beginning of a text: only these have an importance. */
const hasImportance = ({ reduce, whole, window: part }) => reduce === "none" && !(whole && part > 0);

async function askImportance(sentence, model, signal) {
  const answer = await post("/importance", { sentence }, signal);
  requireModel(answer, model);
  return answer.importance;
}

/**
 * The view with a head that the model has. If it names none, that is the one that matters most, of
 * those that do not merely look at neighbours, themselves, special tokens or everywhere.
 */
async function fitted(view, { weights, question: { sentence, model } }, signal) {
  const one = (number, count) => (number !== null && number < count ? number : null);
  const [layer, head] = [one(view.layer, model.num_layers), one(view.head, model.num_heads)];
  if ((layer !== null && head !== null) || weights.oneColumn) return { layer, head };
  // Without importance the page shows another head.
  const importance = await askImportance(sentence, model, signal).catch(() => null);
  const shown = weights.shown(view.special);
  const worth = ({ row, column }) => importance?.[row][column] ?? 0;
  const places = weights.places();
  const telling = places.filter(({ row, column }) => pattern(weights, row, column, shown).kind === "mixed");
  const [{ row, column }] = (telling.length > 0 ? telling : places).sort((a, b) => worth(b) - worth(a));
  return { layer: layer ?? row, head: head ?? column };
}

/** The question of a text and its Weights. */
async function askOnce(sentence, view, signal) {
  const model = await describe(signal);
  let document = { windows: 1 };
  if (view.whole) {
    // Which window can be asked for is known only then.
    const answer = await askPredictions([sentence], { truncation: "window" }, signal);
    requireModel(answer, model);
    [document] = answer.predictions;
  }
  const { windows } = document;
  const { reduce, level, special } = view;
  const question = { sentence, reduce, level, special, model, windows, window: Math.min(view.window, windows - 1) };
  const weights = await askWeights(question, signal);
  // A text that is not in windows has the prediction that came with its weights, of the same pass.
  if (windows > 1) weights.prediction = document;
  return { question, weights };
}

/** Asks for all that a view of a text needs; a later question cancels this one. */
export async function ask(text, view) {
  const signal = asking.begin();
  settle();
  set({ wish: view, asked: text, isBusy: true });
  announce("Asking …");
  const askAgain = async (problem) => {
    if (problem.type !== "model-changed") throw problem;
    await learn(signal);
    return askOnce(text, view, signal);
  };
  try {
    const answer = await askOnce(text, view, signal).catch(askAgain);
    const { question, weights } = answer;
    const place = await fitted(view, answer, signal);
    const { wish } = state.heads;
    // What the user chose meanwhile stays.
    const isChosen = wish.layer !== view.layer || wish.head !== view.head;
    set({ wish: { ...wish, ...(isChosen ? {} : place), window: question.window } });
    const shownLarge = () => weights.find(state.heads.wish);
    while (!signal.aborted && !weights.has(shownLarge())) await askMap(question, weights, shownLarge(), signal);
    if (!signal.aborted) draw({ text, ...answer, view: state.heads.wish });
  } catch (problem) {
    if (signal.aborted) return;
    announce("");
    goBack(text, problem);
  }
}

function draw(next) {
  const { shown } = state.heads;
  const { weights: { tokens, prediction, windows, window: part }, view } = next;
  const isOther = next.text !== shown?.text || next.question.model !== shown.question.model;
  const isMoved = !isSame(tokens, shown?.weights.tokens);
  if (isOther) switching.stop();
  set({
    shown: next,
    isBusy: false,
    ...(isOther ? { off: [], outcome: "" } : {}),
    ...(isMoved ? { pinned: NOTHING, pointed: NOTHING } : {}),
  });
  remember(false);
  keepInAddress(view);
  const place = windows > 1 ? `, window ${part} of ${windows}` : "";
  announce(`${prediction.label}, ${percent(prediction.score)}, ${tokens.length} ${view.level}s${place}. The heads are shown below.`);
  mark();
  const results = byId("results"); // none, if another tab is open by now
  const isFar = results?.getBoundingClientRect().top > window.innerHeight * 0.6;
  if (shown === null && isFar && byId("ask").contains(document.activeElement)) results.scrollIntoView();
}

/** After a failure, goes back to the last view, or removes the answer of another text. */
function goBack(text, problem) {
  const { shown, wish } = state.heads;
  const isShown = shown?.text === text;
  const lost = isShown ? Object.entries(wish).filter(([name, value]) => !isSame(value, shown.view[name])) : [];
  // What was asked by a control stays there, and what was asked by the form at the form.
  const isOfForm = !isShown || byId("ask")?.contains(document.activeElement);
  set({ isBusy: false, shown: isShown ? shown : null, wish: isShown ? shown.view : wish });
  if (isShown) keepInAddress(shown.view);
  const retry = () => ask(text, { ...state.heads.wish, ...Object.fromEntries(lost) });
  fail(problem, retry, isOfForm ? "ask" : "controls");
}

/** Handles a failure beside the answer; if the model changed, asks for everything again. */
function failBeside(problem, retry, place) {
  const { shown, wish } = state.heads;
  fail(problem, problem.type === "model-changed" ? () => ask(shown.text, wish) : retry, place);
}

/** Shows the view with other fields, once all that it needs is there. */
async function changeView(fields) {
  const { shown, asked, wish } = state.heads;
  // Of a long text the service also chooses which tokens are there.
  const needed = shown.weights.isWhole ? ASKED : [...ASKED, "special"];
  if (Object.keys(fields).some((name) => needed.includes(name))) {
    ask(asked, { ...wish, ...fields });
    return;
  }
  const signal = choosing.begin();
  try {
    const place = shown.weights.find({ ...shown.view, ...fields });
    if (!shown.weights.has(place)) await askMap(shown.question, shown.weights, place, signal);
  } catch (problem) {
    if (!signal.aborted) failBeside(problem, () => changeView(fields), "overview");
    return;
  }
  if (signal.aborted || state.heads.shown?.weights !== shown.weights) return;
  const { heads } = state;
  set({ wish: { ...heads.wish, ...fields }, shown: { ...heads.shown, view: { ...heads.shown.view, ...fields } } });
  keepInAddress(state.heads.wish);
  if ("importance" in fields) mark();
}

async function mark() {
  const signal = marking.begin();
  const { text, view, question: { model } } = state.heads.shown;
  set({ marks: null });
  if (!view.importance || !hasImportance(view)) return;
  try {
    const marks = await askImportance(text, model, signal);
    if (!signal.aborted) set({ marks });
  } catch (problem) {
    if (signal.aborted) return;
    changeView({ importance: false });
    if (problem.type === "not-found") set({ lacksMarks: true });
    else failBeside(problem, () => changeView({ importance: true }), "controls");
  }
}

/** Switches a head, or a layer of them, off or on again, and asks what the verdict is then. */
async function switchHeads(off) {
  const signal = switching.begin();
  const { shown: { text, question: { model }, weights }, off: before } = state.heads;
  set({ off, outcome: "" });
  if (off.length === 0) return;
  try {
    const answer = await askPredictions([text], { head_mask: off }, signal);
    requireModel(answer, model);
    const names = off.map(({ layer, head }) =>
      head === undefined ? `all heads of layer ${layer}` : `layer ${layer}, head ${head}`);
    const outcome = `Off: ${names.join("; ")}: ${outcomeOf(weights.prediction, answer.predictions[0])}`;
    set({ outcome });
    announce(outcome);
  } catch (problem) {
    if (signal.aborted) return;
    set({ off: before });
    failBeside(problem, () => switchHeads(off), "off");
  }
}

const EVENTS = {
  changeView,
  switchHeads,
  onPoint: (chosen, stays) => set({ pointed: chosen, ...(stays ? { pinned: chosen } : {}) }),
  onLack: () => set({ lacksSteps: true }),
};

/** The tab. */
export function Heads({ heads, isOld, layout }) {
  const { shown, isBusy } = heads;
  return html`<section id="heads-tab" aria-label="Heads">
    <${How} />
    ${shown && html`<section id="results" aria-label="Prediction and heads" class=${isOld ? "old" : ""} aria-busy=${isBusy || null}>
      <${Controls} ...${heads} />
      <${ProblemAt} place="controls" />
      <${Panel} ...${heads} ...${shown} ...${EVENTS} layout=${layout} />
    </section>`}
    ${!shown && !isBusy && html`<p class="empty note">Press <em>Analyse</em> to see its heads.</p>`}
  </section>`;
}

const isHigh = window.matchMedia("(min-height: 64rem)").matches;

const How = () => html`<details id="how" open=${isHigh}>
  <summary><h2>How to read this</h2></summary>
  <ol class="steps">
    <li><strong>A head is one way of looking.</strong> While the model reads, each token (a word or a
      piece of one) looks at the others. Each head decides for itself at which, and how much.</li>
    <li><strong>A line or a cell is a weight.</strong> It says how much of its looking a token spends on
      another: 0 is nothing, 1 is all. What one token gives adds up to 1.</li>
    <li><strong>Choose a head, then ${POINT.toLowerCase()} a token.</strong> Blue is what the token looks
      at, orange is what looks at it.</li>
  </ol>
  <p class="note">Attention weights show where a head looks; they are not an explanation of the
    prediction (Jain and Wallace 2019, <cite>Attention is not explanation</cite>; Wiegreffe and Pinter
    2019, <cite>Attention is not not explanation</cite>).</p>
</details>`;

/** What is shown, and how. */
function Controls({ wish, shown: { weights: { prediction } }, lacksMarks }) {
  const segments = (legend, name, choices) => html`<${Segments} ...${{ legend, name, choices }} value=${wish[name]}
    onChoose=${(value) => changeView({ [name]: value })} />`;
  const box = (name, text, disabled = false) => html`<label class="choice"><input type="checkbox" name=${name}
    checked=${wish[name]} disabled=${disabled} onChange=${({ target }) => changeView({ [name]: target.checked })} /> ${text}</label>`;
  const notes = [wish.reduce, wish.level, wish.importance && hasImportance(wish) && "importance", !wish.special && "special"];
  return html`<form id="controls" aria-label="What is shown" onSubmit=${(event) => event.preventDefault()}>
    ${segments("Show", "reduce", [["none", "each head"], ["mean", "mean"], ["rollout", "rollout"]])}
    ${!lacksMarks && box("importance", "Mark importance", !hasImportance(wish))}
    ${segments("By", "level", [["token", "tokens"], ["word", "words"]])}
    ${box("special", "Special tokens")}
    ${(wish.whole || prediction.truncated) && box("whole", "Read long texts whole")}
    ${segments("As", "picture", [["lines", "lines"], ["map", "heat map"]])}
    <p id="view-note" class="note">${notes.map((name) => NOTES[name]).filter(Boolean).join(" ")}</p>
  </form>`;
}
