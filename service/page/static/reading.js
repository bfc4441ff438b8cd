/**
 * Shows *One review*: its verdict first, then why, and what the reader changes. A reason is a part
 * without which the text is read otherwise: a sentence, or a word where there is only one. Reasons
 * are shown as they come.
 */

import { isSameModel, patiently, post, Problem, requireModel } from "./api.js";
import { byId, Foreign, grouped, isForeign, Latest, outcomeOf, plain, POINT, ProblemAt, quoted, sidesOf, tinted } from "./parts.js";
import { html } from "./preact.js";
import { announce, change, describe, fail, learn, remember, state } from "./store.js";

const AT_ONCE = 4000; // tokens of the texts that are asked about together
const LEAST = 0.03; // change of the probability that is shown
const LEAST_SHARE = 0.2; // of the largest change
const MOST_SHOWN = 5;
const MOST_AGAINST = 2; // of them
const QUOTED = 160; // characters
const ENOUGH = 50; // texts that a statement about the record needs
const WHOLE = { truncation: "window" };
const RATHER = 0.6; // a verdict of less is named with a doubt
// Words that name no reason by themselves, unless the verdict turns without them.
const SMALL = /^(?:an?|the|this|that|these|those|it|its|i|we|he|she|they|you|my|our|his|her|their|am|is|are|was|were|be|been|has|have|had|do|does|did|and|or|as|at|by|for|from|in|of|on|to|with)$/iu;

const UNEXPLAINED = { label: "", noun: "", score: 0, parts: [], note: "" };

state.reading = {
  text: null, // that was asked about
  isBusy: false,
  waiting: "", // why there is no answer yet
  shown: null, // the answer: { text, model, prediction }
  whole: UNEXPLAINED, // the parts of the text, and what the verdict is without each
  chosen: null, // number of the sentence that is looked into
  inner: UNEXPLAINED, // its words
  code: null, // this answer for programs: { name, text }
  trial: "", // the text with a change
  outcome: "", // what it came to
};

const asking = new Latest();
const explaining = { whole: new Latest(), inner: new Latest() };
const trying = new Latest();

const set = (fields) => change("reading", fields);
const titled = (label) => `${label[0].toUpperCase()}${label.slice(1)}`;
const points = (share) => plain(share).replace(" %", "");

/** How often verdicts of about this score are right, by the model's record; empty without one. */
export function reliability(thresholds, score) {
  const steps = thresholds?.by_threshold ?? [];
  const above = steps.findIndex(({ threshold }) => threshold > score);
  const rights = steps.map(({ rows, accuracy }) => Math.round(rows * (accuracy ?? 0)));
  const end = above < 0 ? steps.length : above;
  const [over, right] = [steps[end]?.rows ?? 0, rights[end] ?? 0];
  for (let at = end - 1; at >= 0; at -= 1) {
    const rows = steps[at].rows - over;
    if (rows < ENOUGH) continue;
    const share = (rights[at] - right) / rows;
    const tens = Math.round(10 * share);
    const [of, often] = tens < 10 ? [10, tens] : [100, Math.min(99, Math.round(100 * share))];
    return `of ${of} verdicts this sure, about ${often} were right`;
  }
  return "";
}

/** The words of a text without the full stop, and their places. */
const wordsOf = (text) => [...text.matchAll(/\S+/gu)].flatMap(({ 0: found, index: start }) => {
  const word = found.replace(/[.…]+$/u, "");
  return /[\p{L}\p{N}\p{S}]/u.test(word) ? [{ start, end: start + word.length, text: word }] : [];
});

/** The sentences that the service found; it counts in code points, and browsers in UTF-16. */
function sentencesOf(text, sentences) {
  const places = [0];
  for (const character of text) places.push(places.at(-1) + character.length);
  return sentences.map((each) => {
    const [start, end] = [places[each.start], places[each.end]];
    return { ...each, start, end, text: text.slice(start, end) };
  });
}

/** A part of a text, quoted; a long one is shortened. */
function named(text) {
  const characters = [...text.replace(/[,;:]+$/u, "")];
  return quoted({ text: characters.slice(0, QUOTED).join("") + (characters.length > QUOTED ? "…" : "") });
}

/** The question about a text: its verdict, and the verdict of each sentence. */
const questionOf = (text) => ({ sentences: [text], ...WHOLE, granularity: "sentence" });

async function askOnce(text, signal) {
  // Of very many sentences only the text as a whole can be read.
  const refused = (problem) => {
    if (!(problem instanceof Problem && problem.isFinal) || problem.type.includes("key")) throw problem;
    return post("/predict", { sentences: [text], ...WHOLE }, signal);
  };
  const asked = post("/predict", questionOf(text), signal).catch(refused);
  const [described, answer] = await Promise.all([describe(signal), asked]);
  const model = isSameModel(answer.model, described) ? described : await learn(signal);
  requireModel(answer, model);
  return { text, model, prediction: answer.predictions[0] };
}

/** Asks about a text; about an example without a press of the reader. */
export async function read(text, isExample = false) {
  Object.values(explaining).forEach((each) => each.stop());
  const signal = asking.begin();
  set({ text, isBusy: true, waiting: "" });
  announce("Asking …");
  const onWait = (waiting) => {
    if (waiting === state.reading.waiting) return;
    set({ waiting, shown: null });
    announce(waiting);
  };
  try {
    const shown = await patiently(() => askOnce(text, signal), signal, onWait);
    if (signal.aborted) return;
    show(shown, isExample);
    const kept = history.state?.text;
    remember(Boolean(kept) && kept !== text, "#review");
  } catch (problem) {
    if (signal.aborted) return;
    set({ text: null, shown: null });
    announce("");
    fail(problem, () => read(text));
  } finally {
    if (!signal.aborted) set({ isBusy: false, waiting: "" });
  }
}

function show(shown, isExample) {
  const { text, prediction } = shown;
  const { label, score, sentences } = prediction;
  trying.stop();
  set({ shown, chosen: null, code: null, trial: text, outcome: "", whole: UNEXPLAINED, inner: UNEXPLAINED });
  announce(`${isExample ? "An example: " : ""}${label}, ${plain(score)}.`);
  if (!sentences) set({ whole: { ...UNEXPLAINED, note: "There are too many sentences to leave out each." } });
  else if (sentences.length > 1) explain("whole", text, "sentence", prediction, sentencesOf(text, sentences));
  else explain("whole", text, "word", prediction, wordsOf(text));
  const verdict = byId("verdict"); // none, if another tab is open by now
  if (isExample || !verdict) return;
  verdict.focus({ preventScroll: true });
  if (verdict.getBoundingClientRect().top > window.innerHeight / 2) byId("answer").scrollIntoView();
}

/** Asks for the verdict without each part of a text, and shows them as they come, the clearest first. */
async function explain(name, text, noun, { label, score, token_count: tokens }, parts) {
  const signal = explaining[name].begin();
  const { model } = state.reading.shown;
  const found = new Map();
  const clearly = (part) => part.probabilities?.[label] ?? 0;
  const order = [...parts].sort((one, other) => clearly(other) - clearly(one));
  const put = (note) => {
    const known = parts.map((part) => ({ ...part, ...found.get(part) }));
    set({ [name]: { label, noun, score, parts: known, note } });
  };
  const most = Math.max(1, Math.floor(model.limits.max_work_tokens / tokens));
  const tried = parts.length < 2 ? [] : order.slice(0, most);
  const portion = Math.min(Math.max(1, Math.floor(AT_ONCE / tokens)), model.limits.max_sentences);
  try {
    for (let at = 0; at < tried.length; at += portion) {
      put(`Reading it without each ${noun}: ${at} of ${tried.length} so far.`);
      const some = tried.slice(at, at + portion);
      const body = { sentences: some.map(({ start, end }) => text.slice(0, start) + text.slice(end)), ...WHOLE };
      const answer = await patiently(() => post("/predict", body, signal), signal, put);
      requireModel(answer, model);
      answer.predictions.forEach(({ label: verdict, probabilities }, index) => {
        found.set(some[index], { probability: probabilities[label], moved: score - probabilities[label], verdict });
      });
    }
    if (parts.length < 2) put("There is only one word, so nothing can be left out.");
    else put(tried.length < parts.length ? `There was time to leave out ${tried.length} of ${grouped(parts.length)} ${noun}s.` : "");
    const [first] = telling(state.reading[name]);
    if (first) announce(`${label}, ${plain(score)}. ${first.moved > 0 ? "Because of" : "Against it"} ${named(first.text)}.`);
  } catch (problem) {
    if (!signal.aborted) put(`What leaving out changes is not computed: ${problem.message}`);
  }
}

/** The parts that move the verdict, the most first; few of them speak against it. */
export function telling({ label, parts }) {
  const size = ({ moved = 0, text, verdict }) => (verdict === label && SMALL.test(text) ? 0 : Math.abs(moved));
  const least = Math.max(LEAST, LEAST_SHARE * Math.max(...parts.map(size)));
  const found = parts.filter((part) => size(part) >= least).sort((one, other) => size(other) - size(one));
  const against = found.filter(({ moved }) => moved < 0).slice(0, MOST_AGAINST);
  const most = found.filter(({ moved }) => moved > 0).slice(0, MOST_SHOWN - against.length);
  return found.filter((part) => most.includes(part) || against.includes(part));
}

/** Opens a sentence, or closes it. */
function choose(at) {
  const { chosen, whole: { parts } } = state.reading;
  explaining.inner.stop();
  set({ chosen: at === chosen ? null : at, inner: UNEXPLAINED });
  if (at === chosen) return;
  const { text, probabilities, score, token_count } = parts[at];
  const [label] = Object.entries(probabilities).sort(([, one], [, other]) => other - one)[0];
  explain("inner", text, "word", { label, score, token_count }, wordsOf(text));
}

async function tryChange(text) {
  const signal = trying.begin();
  const { model, prediction } = state.reading.shown;
  set({ trial: text, outcome: "" });
  try {
    const answer = await post("/predict", { sentences: [text], ...WHOLE }, signal);
    requireModel(answer, model);
    const outcome = outcomeOf(prediction, answer.predictions[0]);
    set({ outcome });
    announce(outcome);
  } catch (problem) {
    if (!signal.aborted) fail(problem, () => tryChange(text), "outcome");
  }
}

/** This very answer for programs: how to ask for it, and what came. */
function codeOf(name, { text, model, prediction }) {
  const url = new URL("predict", document.baseURI).href;
  const body = JSON.stringify(questionOf(text));
  const key = state.page.needsKey;
  if (name === "JSON") return JSON.stringify({ model: { name: model.name, version: model.version }, predictions: [prediction] }, null, 2);
  if (name === "curl") {
    const header = key ? ' -H "Authorization: Bearer $HEADLIGHT_API_KEY"' : "";
    return `curl ${url} -H 'Content-Type: application/json'${header} -d '${body.replaceAll("'", "'\\''")}'`;
  }
  const root = JSON.stringify(url.replace(/\/predict$/, ""));
  return `from headlight_client import Client\n
with Client(${root}${key ? ', api_key="…"' : ""}) as client:
    for prediction in client.predict([${JSON.stringify(text)}], truncation="window"):
        print(prediction.label, prediction.score)`;
}

/** Shows something to copy, and copies it where the browser lets a page do so. */
function copy(name, text) {
  set({ code: { name, text } });
  navigator.clipboard?.writeText(text).then(() => {
    set({ code: { name, text, said: `${name} copied.` } });
    announce(`${name} copied.`);
  }, () => {});
}

/** The tab; `back` leads to the row that was opened, `onBack` goes there. */
export function Reading({ reading, back, onBack }) {
  const { shown, isBusy, waiting } = reading;
  return html`<section id="text-tab" aria-label="One review">
    ${back !== null && html`<button type="button" id="back" class="quiet" onClick=${onBack}>
      Back to row ${grouped(back)} of the table</button>`}
    ${shown === null ? isBusy && html`
      <div id="waiting" aria-busy="true"><p>${waiting || "Reading …"}</p><span /><span /><span /></div>` : html`
      <article id="answer" aria-busy=${isBusy ? "true" : null}>
        <${Verdict} ...${shown} />
        <${Reasons} ...${reading.whole} />
        <${Passage} ...${reading} />
        <${Trial} ...${reading} />
        <${Copies} ...${reading} />
      </article>`}</section>`;
}

function Verdict({ model, prediction }) {
  const { label, score, probabilities, windows, token_count: tokens } = prediction;
  // The record counts English texts only.
  const record = !isForeign(prediction) && reliability(model.thresholds, score);
  const about = () => {
    const door = byId("about");
    door.open = true;
    door.firstChild.focus();
    door.scrollIntoView();
  };
  return html`<div class="prediction">
    <h2 id="verdict" class="verdict" tabindex="-1">${score < RATHER ? `Rather ${label}` : titled(label)}</h2>
    ${record && html`<p class="reliable">${record} · <button type="button" class="link" onClick=${about}>on which texts?</button></p>`}
    <${Foreign} ...${prediction} />
    <${Bars} probabilities=${probabilities} />
    ${windows > 1 && html`<p class="extent note">A long text, read whole
      in ${windows} overlapping parts (${grouped(tokens)} tokens).</p>`}
  </div>`;
}

/** The probability of every class, with a bar. */
const Bars = ({ probabilities }) => html`
  <dl>${Object.entries(probabilities).map(([label, probability]) => {
    const style = { width: `${(100 * probability).toFixed(1)}%`, backgroundColor: `var(--${sidesOf(label)[0]})` };
    return html`<dt>${label}</dt><dd class="track" aria-hidden="true"><span class="bar" style=${style} /></dd>
      <dd class="figure" title=${probability}>${plain(probability)}</dd>`;
  })}</dl>`;

/** What speaks for a verdict and, apart, what speaks against it. */
function Reasons({ label, noun, score, parts, note }) {
  const found = telling({ label, parts });
  const list = (title, some) => some.length > 0 && html`<dt>${title}</dt>${some.map(({ text, probability, verdict }) => html`
    <dd><span dir="auto">${named(text)}</span>${" "}<span class="figure">${label} ${points(score)}\u00a0→\u00a0${points(probability)} without\u00a0it${
      verdict !== label && `, then ${verdict}`}</span></dd>`)}`;
  const isNone = !found.some(({ moved }) => moved > 0) && note === "" && parts.length > 1;
  return html`<dl class="reasons">
    ${list("Because of", found.filter(({ moved }) => moved > 0))}
    ${list("Against it", found.filter(({ moved }) => moved < 0))}
    </dl>
    <p class="how note">${isNone ? `No single ${noun} decides it.` : note}</p>`;
}

/** The pieces of a text: its parts, each drawn, and what stands between them. */
const pieces = (text, parts, draw) => [
  ...parts.map((part, at) => html`${text.slice(parts[at - 1]?.end ?? 0, part.start)}${draw(part, at)}`),
  text.slice(parts.at(-1)?.end ?? 0),
];

/** How a part is coloured: not at all, unless it moves the verdict. */
function shadeOf(found, { label }, { start, moved }) {
  if (!found.some((each) => each.start === start)) return "";
  const [own, other] = sidesOf(label);
  return tinted(moved > 0 ? own : other, 12 + 36 * (Math.abs(moved) / Math.abs(found[0].moved)));
}

const marked = (text, reasons) => {
  const found = telling(reasons);
  return pieces(text, reasons.parts, (part) => html`<span class="part" style=${{ backgroundColor: shadeOf(found, reasons, part) }}>${part.text}</span>`);
};

/** The text with its reasons coloured; a sentence opens, and shows which of its words say so. */
function Passage({ shown: { text }, whole, chosen, inner }) {
  if (whole.noun === "word") return html`<p class="passage" dir="auto">${marked(text, whole)}</p>`;
  const found = telling(whole);
  const sentence = (part, at) => html`<button type="button" aria-expanded=${at === chosen}
    style=${{ backgroundColor: at === chosen ? "" : shadeOf(found, whole, part) }} onClick=${() => choose(at)}>${
      at === chosen && inner.parts.length > 0 ? marked(part.text, inner) : part.text}</button>`;
  return html`<div class="passage" dir="auto" role="group" aria-label="The text; a press shows the words of a sentence">
    ${pieces(text, whole.parts, sentence)}</div>
    ${whole.parts.length > 0 && chosen === null && html`<p class="note">${POINT === "Tap" ? POINT : "Press"} a sentence to see its words.</p>`}
    ${chosen !== null && html`<div class="inner"><p>This sentence by itself: <strong>${inner.label}, ${plain(inner.score)}</strong></p>
      <${Reasons} ...${inner} /></div>`}`;
}

/** A door to a copy of the text, in which anything can be changed. */
function Trial({ shown, trial, outcome }) {
  const send = (event) => {
    event.preventDefault();
    if (trial.trim() !== "") tryChange(trial);
  };
  return html`<details class="trial"><summary>Try a change</summary><form onSubmit=${send}>
    <textarea id="trial" aria-label="The text with a change" dir="auto" value=${trial} onInput=${({ target }) => set({ trial: target.value })} />
    <div class="row"><button>Read the change</button>
      <button type="button" class="quiet" disabled=${trial === shown.text} onClick=${() => set({ trial: shown.text, outcome: "" })}>As it was</button></div>
    <p class="outcome">${outcome}</p>
    <${ProblemAt} place="outcome" />
  </form></details>`;
}

function Copies({ shown, code }) {
  const link = `${window.location.href.split("#")[0]}#review&${new URLSearchParams({ text: shown.text })}`;
  return html`<div class="row copies"><button type="button" class="quiet" onClick=${() => copy("Link", link)}>Copy link</button>
    <span class="note">Copy as</span>${["curl", "Python", "JSON"].map((name) => html`
      <button type="button" class="quiet" onClick=${() => copy(name, codeOf(name, shown))}>${name}</button>`)}</div>
    ${code && html`<p class="note">${code.said}</p><pre id="code" class="scroll" tabindex="0" role="region" aria-label=${code.name}>${code.text}</pre>`}`;
}
