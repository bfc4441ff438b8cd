/** Shows *Inside the model*: asks for the weights of a text, from one version of the model, and shows them. */

import { post, requireModel } from "./api.js";
import { Panel } from "./panel.js";
import { byId, Latest, outcomeOf, percent, range } from "./parts.js";
import { html } from "./preact.js";
import { announce, change, describe, fail, keepInAddress, learn, readFragment, remember, settle, state } from "./store.js";
import { askMap, askWeights, groupsOf, NOTHING } from "./weights.js";

const AT_ONCE = 4; // requests

state.heads = {
  wish: readFragment("#model").view, // what the user wants to see
  asked: "", // text of the latest question
  isBusy: false,
  shown: null, // the last good answer: { text, question, weights, view as drawn }
  marks: null, // importance of the heads, [row][column]
  marking: "", // how far the search for it is
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

const placeOf = ({ layer, head }) => ({ row: layer, column: head });

/** The place of a view, if the model has it; otherwise the head that looks most clearly at one word. */
function fitted(view, { weights }) {
  const one = (number, count) => (number !== null && number < count ? number : null);
  const [layer, head] = [one(view.layer, weights.rows), one(view.head, weights.columns)];
  if (layer !== null && head !== null) return { layer, head };
  const [first] = groupsOf(weights.patterns(weights.shown(view.special)));
  const { row, column } = first?.heads[0] ?? { row: 0, column: 0 };
  return { layer: layer ?? row, head: head ?? column };
}

/** The question of a text and its Weights. */
async function askOnce(sentence, { level, special }, signal) {
  const question = { sentence, level, special, model: await describe(signal) };
  return { question, weights: await askWeights(question, signal) };
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
    if (!isChosen) set({ wish: { ...wish, ...place } });
    const shownLarge = () => placeOf(state.heads.wish);
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
  const { weights: { tokens, prediction }, view } = next;
  const isOther = next.text !== shown?.text || next.question.model !== shown.question.model;
  if (isOther) [switching, marking].forEach((each) => each.stop());
  set({
    shown: next,
    isBusy: false,
    pinned: NOTHING,
    pointed: NOTHING,
    ...(isOther ? { off: [], outcome: "", marks: null, marking: "" } : {}),
  });
  remember(false);
  keepInAddress(view);
  announce(`${prediction.label}, ${percent(prediction.score)}, ${tokens.length} ${view.level}s. The heads are shown below.`);
  const results = byId("results"); // none, if another tab is open by now
  const isFar = results?.getBoundingClientRect().top > window.innerHeight * 0.6;
  if (shown === null && isFar && byId("ask").contains(document.activeElement)) results.scrollIntoView();
}

/** After a failure, goes back to the last view, or removes the answer of another text. */
function goBack(text, problem) {
  const { shown, wish } = state.heads;
  const isShown = shown?.text === text;
  // The problem appears where the question was asked: at a control or at the form.
  const isOfForm = !isShown || byId("ask")?.contains(document.activeElement);
  set({ isBusy: false, shown: isShown ? shown : null, wish: isShown ? shown.view : wish });
  if (isShown) keepInAddress(shown.view);
  fail(problem, () => ask(text, wish), isOfForm ? "ask" : "view");
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
  if ("level" in fields || ("special" in fields && !shown.weights.isWhole)) {
    ask(asked, { ...wish, ...fields });
    return;
  }
  const signal = choosing.begin();
  try {
    const place = placeOf({ ...shown.view, ...fields });
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

/** Finds by how much the log-odds of the label change without each head: each is switched off in turn. */
async function mark() {
  const signal = marking.begin();
  const { text, weights: { prediction, rows, columns }, question: { model } } = state.heads.shown;
  const oddsOf = ({ probabilities }) => {
    const share = Math.min(Math.max(probabilities[prediction.label], 1e-6), 1 - 1e-6);
    return Math.log(share / (1 - share));
  };
  const marks = range(rows).map(() => []);
  const rest = marks.flatMap((_, layer) => range(columns).map((head) => ({ layer, head })));
  const work = async () => {
    while (rest.length > 0) {
      const one = rest.shift();
      const answer = await post("/predict", { sentences: [text], head_mask: [one] }, signal);
      requireModel(answer, model);
      marks[one.layer][one.head] = Math.abs(oddsOf(prediction) - oddsOf(answer.predictions[0]));
      set({ marking: `${rows * columns - rest.length} of ${rows * columns} switched off …` });
    }
  };
  try {
    await Promise.all(range(AT_ONCE).map(work));
    set({ marks, marking: "" });
    if (document.activeElement === document.body) byId("matter")?.firstChild.focus(); // the button is gone
  } catch (problem) {
    if (signal.aborted) return;
    marking.stop(); // the other requests
    set({ marking: "" });
    failBeside(problem, mark, "matter");
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

const onPoint = (chosen, stays) => set({ pointed: chosen, ...(stays ? { pinned: chosen } : {}) });

/** The tab. */
export function Heads({ heads, layout }) {
  const { shown, isBusy } = heads;
  return html`<section id="heads-tab" aria-label="Inside the model">
    ${shown && html`<section id="results" aria-label="The heads" aria-busy=${isBusy || null}>
      <${Panel} ...${heads} ...${shown} ...${{ changeView, switchHeads, mark, onPoint }} layout=${layout} />
    </section>`}
    ${!shown && html`<p class="empty note">${isBusy ? "Asking …" : "Read a text to see where each head of the model looks."}</p>`}
    <${How} />
  </section>`;
}

const How = () => html`<details id="how">
  <summary><h2>How to read this</h2></summary>
  <p>While the model reads, each token (a word or a piece of one) looks at the others. A head is one way of
    looking. [CLS] and [SEP] are special tokens at both ends, ## begins a piece that goes on with a word.
    A cell of a map is a weight: how much of its looking a token spends on another. 0 is nothing,
    1 is all, and what one token gives adds up to 1. A head matters if the verdict changes without it: a bar
    under its map says by how much the log-odds of the label do.</p>
  <p class="note">Attention weights show where a head looks; they are not an explanation of the
    prediction (Jain and Wallace 2019, <cite>Attention is not explanation</cite>; Wiegreffe and Pinter
    2019, <cite>Attention is not not explanation</cite>).</p>
</details>`;
