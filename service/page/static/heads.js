/** Shows *Heads*: asks for the weights of a text, from one version of the model, and shows them. */

import { post, requireModel } from "./api.js";
import { Panel } from "./panel.js";
import { byId, isSame, Latest, outcomeOf, percent, POINT, range } from "./parts.js";
import { html } from "./preact.js";
import { announce, change, describe, fail, keepInAddress, learn, readFragment, remember, settle, state } from "./store.js";
import { askMap, askWeights, groupsOf, NOTHING } from "./weights.js";

const ASKED = ["reduce", "level", "whole", "window"]; // fields of a view that the service computes
const AT_ONCE = 4; // requests

state.heads = {
  wish: readFragment("#model").view, // what the user wants to see
  asked: "", // text of the latest question
  isBusy: false,
  shown: null, // the last good answer: { text, question, weights, view as drawn }
  marks: null, // importance of the heads, [row][column]
  marking: "", // how far the search for it is
  lacksSteps: false,
  off: [], // heads that are switched off: {layer, head}
  outcome: "", // what the verdict is without them
  pointed: NOTHING, // what is under the pointer
  pinned: NOTHING, // what stays chosen
};

const asking = new Latest();
const choosing = new Latest();
const marking = new Latest();
const switching = new Latest();

const set = (fields) => change("heads", fields);

/** The view with a place that the model has. If it names none, that is of the head that looks most clearly at one word. */
function fitted(view, { weights, question: { model } }) {
  const one = (number, count) => (number !== null && number < count ? number : null);
  const [layer, head] = [one(view.layer, model.num_layers), one(view.head, model.num_heads)];
  if ((layer !== null && head !== null) || weights.oneColumn) return { layer, head };
  const [first] = groupsOf(weights.patterns(weights.shown(view.special)));
  const { row, column } = first?.heads[0] ?? { row: 0, column: 0 };
  return { layer: layer ?? row, head: head ?? column };
}

/** The question of a text and its Weights. */
async function askOnce(sentence, view, signal) {
  const model = await describe(signal);
  let document = { windows: 1 };
  if (view.whole) {
    // Which window can be asked for is known only then.
    const answer = await post("/predict", { sentences: [sentence], truncation: "window" }, signal);
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
    const place = fitted(view, answer);
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
    ...(isOther ? { off: [], outcome: "", marks: null } : {}),
    ...(isMoved ? { pinned: NOTHING, pointed: NOTHING } : {}),
  });
  remember(false);
  keepInAddress(view);
  const place = windows > 1 ? `, window ${part} of ${windows}` : "";
  announce(`${prediction.label}, ${percent(prediction.score)}, ${tokens.length} ${view.level}s${place}. The heads are shown below.`);
  if (isOther) mark();
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
  fail(problem, retry, isOfForm ? "ask" : "view");
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
}

/** How much the log-odds of the label change without each head, which is switched off for it. */
async function leaveOut({ text, weights: { prediction }, question: { model } }, signal) {
  const { label } = prediction;
  const oddsOf = ({ probabilities }) => {
    const share = Math.min(Math.max(probabilities[label], 1e-6), 1 - 1e-6);
    return Math.log(share / (1 - share));
  };
  const marks = range(model.num_layers).map(() => []);
  const rest = marks.flatMap((_, layer) => range(model.num_heads).map((head) => ({ layer, head })));
  const count = rest.length;
  const work = async () => {
    while (rest.length > 0) {
      const one = rest.shift();
      const answer = await post("/predict", { sentences: [text], head_mask: [one] }, signal);
      requireModel(answer, model);
      marks[one.layer][one.head] = Math.abs(oddsOf(prediction) - oddsOf(answer.predictions[0]));
      if (!signal.aborted) set({ marking: `${count - rest.length} of ${count} switched off …` });
    }
  };
  try {
    await Promise.all(range(AT_ONCE).map(work));
  } finally {
    rest.length = 0; // after a failure the others stop too
  }
  return marks;
}

/**
 * Asks which heads matter most for the label. The service's importance (Michel et al. 2019) is asked
 * for at once where the service is ready for it; where it would first have to import what computes it,
 * each head is switched off in turn, once the user wants to know.
 */
async function mark(isWanted = false) {
  const signal = marking.begin();
  const { shown } = state.heads;
  const { text, question: { model, windows } } = shown;
  const isReady = model.methods?.includes("importance") ?? false;
  set({ marking: "" });
  if (windows > 1 || !(isReady || isWanted)) return;
  try {
    let marks;
    if (isReady) {
      const answer = await post("/importance", { sentence: text }, signal);
      requireModel(answer, model);
      marks = answer.importance;
    } else marks = await leaveOut(shown, signal);
    if (!signal.aborted) set({ marks });
  } catch (problem) {
    if (!signal.aborted && isWanted) failBeside(problem, () => mark(true), "matter");
  } finally {
    if (!signal.aborted) set({ marking: "" });
  }
}

/** Switches heads off, all others on again, and asks what the verdict is then. */
async function switchHeads(off) {
  const signal = switching.begin();
  const { shown: { text, question: { model }, weights }, off: before } = state.heads;
  set({ off, outcome: "" });
  if (off.length === 0) return;
  try {
    const answer = await post("/predict", { sentences: [text], head_mask: off }, signal);
    requireModel(answer, model);
    const names = off.map(({ layer, head }) => `layer ${layer}, head ${head}`);
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
  onMark: () => mark(true),
  onPoint: (chosen, stays) => set({ pointed: chosen, ...(stays ? { pinned: chosen } : {}) }),
  onLack: () => set({ lacksSteps: true }),
};

/** The tab. */
export function Heads({ heads, isOld, layout }) {
  const { shown, isBusy } = heads;
  return html`<section id="heads-tab" aria-label="Inside the model">
    ${shown && html`<section id="results" aria-label="The heads" class=${isOld ? "old" : ""} aria-busy=${isBusy || null}>
      <${Panel} ...${heads} ...${shown} ...${EVENTS} layout=${layout} />
    </section>`}
    ${!shown && !isBusy && html`<p class="empty note">Read a text to see where each head of the model looks.</p>`}
    <${How} />
  </section>`;
}

const How = () => html`<details id="how">
  <summary><h2>How to read this</h2></summary>
  <ol class="steps">
    <li><strong>A head is one way of looking.</strong> While the model reads, each token (a word or a
      piece of one) looks at the others. Each head decides for itself at which, and how much.</li>
    <li><strong>A cell or a line is a weight.</strong> It says how much of its looking a token spends on
      another: 0 is nothing, 1 is all. What one token gives adds up to 1.</li>
    <li><strong>Choose a head, then ${POINT.toLowerCase()} a token.</strong> Blue is what the token looks
      at, orange is what looks at it.</li>
    <li><strong>A head matters</strong> if the verdict changes without it: by how much the log-odds of the
      label do, as estimated by gradients (Michel et al. 2019) or found by switching each head off. A bar
      under its map says how much.</li>
  </ol>
  <p class="note">Attention weights show where a head looks; they are not an explanation of the
    prediction (Jain and Wallace 2019, <cite>Attention is not explanation</cite>; Wiegreffe and Pinter
    2019, <cite>Attention is not not explanation</cite>).</p>
</details>`;
