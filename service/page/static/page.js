/** Runs the page: its tabs, the form that all of them share, and its addresses. */

import { useKey } from "./api.js";
import { ask, Heads } from "./heads.js";
import { focusRow } from "./ledger.js";
import { dropAddress, readFragment, TABS, writeFragment } from "./link.js";
import { Many } from "./many.js";
import { byId, ProblemAt } from "./parts.js";
import { html } from "./preact.js";
import { read, Reading, restore as restoreTrial } from "./reading.js";
import { change, fail, remember, settle, show, state } from "./store.js";

const NAMES = { text: "A text", many: "Many texts", heads: "Heads" };

const EXAMPLES = [
  ["a change of mind", "The plot drags, but the cast is superb."],
  ["a negation", "It is not bad at all, and I would not miss it."],
  ["a product", "The battery lasts two days, yet the charger broke within a week."],
  ["a restaurant", "We waited an hour for soup that came cold."],
];

Object.assign(state.page, {
  back: null, // number of the row that was opened as a text
  layout: 0, // grows with each other size of the window and other colours
});

const set = (fields) => change("page", fields);

/** Whether the answer that is shown is that of another text than the one in the field. */
function isOld({ tab, text }) {
  const { reading, heads } = state;
  if (tab === "heads") return heads.shown !== null && text !== heads.shown.text;
  return tab === "text" && reading.shown !== null && text !== reading.text;
}

/** Asks about what is typed, in the tab that is open; returns whether a verdict is shown. */
async function submit(view = state.heads.wish) {
  const { text, tab } = state.page;
  if (text.trim() === "") {
    byId("sentence").focus();
    fail({ type: "blank" }, null);
    return false;
  }
  settle();
  if (tab !== "heads") return read(text);
  ask(text, view);
  return false;
}

/** Asks from the first window of a long text on. */
const begin = () => submit({ ...state.heads.wish, window: 0 });

/** Goes to a tab by its link; what is typed is asked there if its answer is not there yet. */
function goTo(tab) {
  if (tab === state.page.tab) return;
  remember(false);
  set({ tab, problem: null });
  const { reading, heads, page: { text } } = state;
  remember(true, tab === "heads" ? writeFragment(heads.wish) : `#${tab}`);
  if (tab === "text" && reading.text !== text) submit();
  if (tab === "heads" && heads.shown?.text !== text && !heads.isBusy && text.trim()) begin();
}

/** Restores what an address says; asks if it has a text, or if an answer is shown. */
function restore() {
  const { tab, view, text } = readFragment(window.location.hash);
  const { reading, heads } = state;
  const isAsked = heads.shown !== null || heads.isBusy;
  dropAddress();
  // After a reload, or Back from another page, the text is in the history.
  const { text: ofText, ofHeads } = history.state ?? {};
  const isFirst = { text: reading.text === null, heads: !isAsked }[tab];
  const kept = text === null && isFirst && { text: ofText, heads: ofHeads }[tab];
  set({ tab, problem: null, text: text ?? (kept || state.page.text) });
  if (tab === "text" && (text !== null || ofText)) {
    if (state.page.text !== reading.text) submit();
  } else if (tab === "text" && reading.text === null && !("keys" in document.documentElement.dataset)) {
    read(state.page.text, true); // a first visit, which begins with an example
  } else if (tab === "heads") {
    const isOther = heads.isBusy || writeFragment(view) !== writeFragment(heads.wish);
    if (text !== null || kept || (isAsked && isOther)) submit(view);
    else if (!isAsked) change("heads", { wish: view });
  }
}

/** Reads a row of the table as a text, and offers the way back to it. */
async function open({ row, text }) {
  set({ tab: "text", text, back: null, problem: null });
  remember(true, "#text");
  if (await begin()) set({ back: row });
}

function goBack() {
  goTo("many");
  focusRow(state.many.opened.row);
}

function Page({ page, reading, heads, many }) {
  const { tab, model, problem } = page;
  const follow = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    goTo(event.target.hash.slice(1));
  };
  return html`
    <header>
      <h1>Headlight</h1>
      <nav aria-label="Views">${TABS.map((name) => html`
        <a href="#${name}" aria-current=${name === tab ? "page" : null} onClick=${follow}>${NAMES[name]}</a>`)}</nav>
      ${model && html`<p id="served" class="note">Model <span id="model">${model.name} ${model.version}</span></p>`}
    </header>
    <main>
      ${page.needsKey && html`<div id="key-field"><label for="key">API key</label>
        <input id="key" form="ask" type="password" autocomplete="off" onInput=${({ target }) => useKey(target.value)} /></div>`}
      ${tab !== "many" && html`<${Form} text=${page.text} />`}
      <${ProblemAt} place="ask" />
      <p id="status" class=${heads.isBusy && heads.shown === null && tab === "heads" && !problem ? "" : "unseen"}
        role="status">${page.status}</p>
      <p id="old" aria-live="polite">${isOld(page) && "This is the answer to the text before your change."}</p>
      ${tab === "text" && html`<${Reading} ...${{ reading, page }} back=${page.back} onBack=${goBack} />`}
      ${tab === "many" && html`<${Many} many=${many} onOpen=${open} />`}
      ${tab === "heads" && html`<${Heads} heads=${heads} isOld=${isOld(page)} layout=${page.layout} />`}
    </main>
    <footer><p>The API is described at <a href="docs">/docs</a>.</p></footer>`;
}

function Form({ text }) {
  const choose = (example) => {
    set({ text: example });
    begin();
  };
  const send = (event) => {
    event.preventDefault();
    begin();
  };
  const press = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && send(event);
  // An example is there to paste over it.
  const focus = ({ target }) => EXAMPLES.some(([, example]) => example === target.value) && target.select();
  return html`<form id="ask" onSubmit=${send}>
    <div><label for="sentence">Text</label><textarea id="sentence" rows="2" dir="auto" required value=${text}
      onInput=${({ target }) => set({ text: target.value })} onKeyDown=${press} onFocus=${focus} /></div>
    <div class="row">
      <button type="submit" class="primary" title="Ctrl+Enter">Analyse</button>
      <div id="examples" class="row" role="group" aria-label="Examples"><span class="note">Or try</span>
        ${EXAMPLES.map(([name, example]) => html`<button type="button" class="quiet" title=${example}
          onClick=${() => choose(example)}>${name}</button>`)}</div>
    </div>
  </form>`;
}

window.addEventListener("hashchange", restore);
window.addEventListener("popstate", () => {
  set({ tab: readFragment(window.location.hash).tab });
  restoreTrial();
});
const lay = () => set({ layout: state.page.layout + 1 });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", lay);
window.addEventListener("resize", lay);
byId("unloaded").remove();
show(Page, byId("page"));
restore();
