"use strict";

const byId = (id) => document.getElementById(id);
let shown = null; // the last answer of /attention

async function ask(sentence, key) {
  const headers = { "Content-Type": "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  const response = await fetch("/attention", {
    method: "POST",
    headers,
    body: JSON.stringify({ sentence }),
  });
  const answer = await response.json();
  if (response.ok) return answer;
  if (response.status === 401) {
    byId("key-field").hidden = false;
    byId("key").focus();
  }
  throw new Error(answer.detail);
}

function percent(probability) {
  return `${(100 * probability).toFixed(1)} %`;
}

function showPrediction({ prediction, model }) {
  byId("label").textContent = prediction.label;
  byId("score").textContent = percent(prediction.score);
  byId("truncated").hidden = !prediction.truncated;
  byId("model").textContent = `${model.name} ${model.version}`;
  const rows = Object.entries(prediction.probabilities).flatMap(([label, probability]) => {
    const term = document.createElement("dt");
    term.textContent = label;
    const bar = document.createElement("dd");
    const meter = document.createElement("meter");
    meter.value = probability;
    meter.setAttribute("aria-label", `${label} ${percent(probability)}`);
    bar.append(meter);
    const figure = document.createElement("dd");
    figure.textContent = percent(probability);
    return [term, bar, figure];
  });
  byId("probabilities").replaceChildren(...rows);
}

function fillChoice(select, numbers) {
  const before = select.value;
  select.replaceChildren(...numbers.map((number) => new Option(number, number)));
  if (numbers.map(String).includes(before)) select.value = before;
}

function headerCell(text, scope) {
  const cell = document.createElement("th");
  cell.scope = scope;
  cell.textContent = text;
  return cell;
}

function weightCell(weight, query, key) {
  const cell = document.createElement("td");
  cell.style.backgroundColor = `rgba(var(--heat), ${weight})`;
  cell.title = `${query.text} to ${key.text}: ${weight.toFixed(4)}`;
  return cell;
}

function showWeights() {
  const { tokens, layers, heads, attention } = shown;
  const layer = layers.indexOf(Number(byId("layer").value));
  const head = heads.indexOf(Number(byId("head").value));
  const top = document.createElement("tr");
  top.append(document.createElement("td"), ...tokens.map((token) => headerCell(token.text, "col")));
  const thead = document.createElement("thead");
  thead.append(top);
  const tbody = document.createElement("tbody");
  attention[layer][head].forEach((row, position) => {
    const query = tokens[position];
    const line = document.createElement("tr");
    line.append(
      headerCell(query.text, "row"),
      ...row.map((weight, place) => weightCell(weight, query, tokens[place])),
    );
    tbody.append(line);
  });
  byId("weights").replaceChildren(thead, tbody);
}

byId("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const problem = byId("problem");
  problem.hidden = true;
  try {
    shown = await ask(byId("sentence").value, byId("key").value);
    showPrediction(shown);
    fillChoice(byId("layer"), shown.layers);
    fillChoice(byId("head"), shown.heads);
    showWeights();
    byId("answer").hidden = false;
  } catch (error) {
    problem.textContent = error instanceof TypeError ? "The service cannot be reached." : error.message;
    problem.hidden = false;
    byId("answer").hidden = true; // it is of another sentence
  }
});
byId("layer").addEventListener("change", showWeights);
byId("head").addEventListener("change", showWeights);
