/** Runs the page: its tabs, the form that two of them share, and its addresses. */

import { useKey } from "./api.js";
import { byId, grouped, percent, ProblemAt } from "./parts.js";
import { html } from "./preact.js";
import { read, Reading } from "./reading.js";
import { change, dropAddress, fail, readFragment, remember, settle, show, state, writeFragment } from "./store.js";

// The tabs: their names, and what some of them load when they are opened.
const TABS = {
  review: ["One review"],
  file: ["A file", () => import("./many.js"), "many.css"],
  model: ["Inside the model", () => import("./heads.js"), "panel.css"],
};

const EXAMPLES = ["Not bad at all.", "The soup came cold.", "The plot drags, but the cast is superb."];

const set = (fields) => change("page", fields);
const modules = {}; // of tabs that are loaded
const loading = {};

/** Loads what a tab needs; returns whether it is there and the tab is still open. */
async function load(tab) {
  const [, module, style] = TABS[tab];
  try {
    if (module) [modules[tab]] = await (loading[tab] ??= Promise.all([module(), loadStyle(style)]));
  } catch {
    delete loading[tab];
    const message = "Check your connection and try again, or reload the page.";
    fail({ title: "This part of the page did not load", message }, () => enter(tab));
    return false;
  }
  set({});
  return state.page.tab === tab;
}

const loadStyle = (name) => new Promise((resolve, reject) => {
  const [href, rel] = [new URL(name, import.meta.url).href, "stylesheet"];
  document.head.append(Object.assign(document.createElement("link"), { href, rel, onload: resolve, onerror: reject }));
});

/** Whether the answer on the screen belongs to another text than the one in the field. */
function isOld({ tab, text }) {
  const { reading, heads } = state;
  if (tab === "model") return Boolean(heads?.shown) && text !== heads.shown.text;
  return tab === "review" && reading.shown !== null && text !== reading.text;
}

/** Asks about what is typed, in the tab that is open. */
async function submit(view = {}) {
  const { text, tab } = state.page;
  if (text.trim() === "") {
    byId("sentence").focus();
    fail({ type: "blank" }, null);
    return;
  }
  settle();
  if (tab === "review") read(text);
  else if (await load(tab)) modules.model.ask(text, { ...state.heads.wish, ...view });
}

/** Goes to a tab by its link; what is typed is asked there if its answer is not there yet. */
function goTo(tab) {
  if (tab === state.page.tab) return;
  remember(false);
  set({ tab, problem: null });
  remember(true, tab === "model" && state.heads ? writeFragment(state.heads.wish) : `#${tab}`);
  enter(tab);
}

async function enter(tab) {
  if (!(await load(tab))) return;
  const { reading, heads, page: { text } } = state;
  if (tab === "review" && reading.text !== text) submit();
  if (tab === "model" && heads.shown?.text !== text && !heads.isBusy && text.trim()) submit();
}

/** Shows what the address and the history say: at first, and after a link, a reload, Back or Forward. */
async function restore() {
  const { tab, view, text: linked } = readFragment(window.location.hash);
  dropAddress();
  set({ tab, problem: null });
  if (!(await load(tab))) return;
  const { page, reading, heads } = state;
  const isAsked = tab === "model" && (heads.shown !== null || heads.isBusy);
  const kept = { review: history.state?.text, model: isAsked ? null : history.state?.ofHeads }[tab];
  const text = linked ?? kept;
  const isNew = Boolean(text) && !(tab === "review" && text === reading.text);
  if (isNew) set({ text, back: null });
  // A first visit begins with an example, which would be refused without a key.
  const isOpen = !("keys" in document.documentElement.dataset);
  if (tab === "model") {
    const isBare = isOpen && ["#model", "#heads"].includes(window.location.hash);
    const isOther = writeFragment(view) !== writeFragment(heads.wish);
    if (isNew || (isAsked ? isOther : isBare)) submit(view);
    else if (!isAsked) change("heads", { wish: view });
  } else if (isNew) submit();
  else if (isOpen && tab === "review" && reading.text === null) read(page.text, true);
}

/** Reads a row of the table as a text, and offers the way back to it. */
function open({ row, text }) {
  set({ tab: "review", text, back: row });
  remember(true, "#review");
  submit();
}

function Page({ page, reading, heads, many }) {
  const { tab, model } = page;
  const choose = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    goTo(event.currentTarget.hash.slice(1));
  };
  const goBack = () => {
    goTo("file");
    modules.file.focusRow(many.opened.row);
  };
  return html`
    <header>
      <h1>Headlight</h1>
      <nav aria-label="Views">${Object.entries(TABS).map(([name, [title]]) => html`
        <a href="#${name}" aria-current=${name === tab ? "page" : null} onClick=${choose}>${title}</a>`)}</nav>
      <a href="docs" class="api" title="The API, to read and to try">${"</> API"}</a>
    </header>
    <main>
      ${page.needsKey && html`<div id="key-field"><label for="key">API key</label>
        <input id="key" form="ask" type="password" autocomplete="off" onInput=${({ target }) => useKey(target.value)} /></div>`}
      ${tab !== "file" && html`<${Form} ...${page} />`}
      <${ProblemAt} place="ask" />
      <p id="status" class="unseen" role="status">${page.status}</p>
      ${isOld(page) && html`<p id="old">This is the answer to the text before your change.</p>`}
      ${tab === "review" && html`<${Reading} reading=${reading} back=${page.back} onBack=${goBack} />`}
      ${tab === "file" && modules.file && html`<${modules.file.Many} many=${many} onOpen=${open} />`}
      ${tab === "model" && modules.model && html`<${modules.model.Heads} heads=${heads} layout=${page.layout} />`}
    </main>
    ${model && html`<footer><${About} ...${model} /></footer>`}`;
}

/** The model, and the texts that it was tested with. */
const About = ({ name, version, labels, metrics, thresholds }) => html`<details id="about">
  <summary>Model <span id="model">${name} ${version}</span>: ${labels.join(", ")}</summary>
  ${thresholds && html`<p>How often it is right was counted on ${grouped(thresholds.rows)} texts
    that it did not learn from (${thresholds.sets.join(", ")}).</p>`}
  ${metrics.length > 0 && html`<table class="table"><thead><tr><th scope="col">Texts</th><th scope="col">How many</th>
    <th scope="col">Right</th></tr></thead><tbody>${metrics.map((each) => html`<tr><th scope="row">${each.name}</th>
    <td>${grouped(each.rows)}</td><td>${percent(each.accuracy)}</td></tr>`)}</tbody></table>`}
</details>`;

function Form({ tab, text }) {
  const choose = (example) => {
    set({ text: example });
    submit();
  };
  const send = (event) => {
    event.preventDefault();
    submit();
  };
  const press = (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && send(event);
  // A reader pastes over an example.
  const focus = ({ target }) => EXAMPLES.includes(target.value) && target.select();
  return html`<form id="ask" onSubmit=${send}>
    ${tab === "review" && html`<p class="lead">Is it praise or complaint, and what in it says so?</p>`}
    <textarea id="sentence" aria-label="Text" rows="2" dir="auto" value=${text}
      onInput=${({ target }) => set({ text: target.value })} onKeyDown=${press} onFocus=${focus} />
    <div class="row">
      <button type="submit" class="primary" title="Ctrl+Enter">Read it</button>
      <div id="examples" class="row" role="group" aria-label="Examples"><span class="note">Try</span>
        ${EXAMPLES.map((example) => html`<button type="button" class="quiet"
          onClick=${() => choose(example)}>“${example}”</button>`)}</div>
    </div>
  </form>`;
}

window.addEventListener("popstate", restore);
window.addEventListener("resize", () => set({ layout: state.page.layout + 1 }));
byId("unloaded").remove();
show(Page, byId("page"));
restore();
