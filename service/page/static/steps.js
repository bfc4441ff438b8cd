/**
 * Shows "How this weight was made": the steps from a query and a key to a weight, and on to the
 * result of the head. Each names its term and the function of the reference.
 */

import { post, Problem, requireModel } from "./api.js";
import { drawRow } from "./drawing.js";
import { quoted, range, tinted } from "./parts.js";
import { html, useEffect, useMemo, useState } from "./preact.js";
import { announce } from "./store.js";
import { fieldsOf, full, gives, largestOf, reader, short } from "./weights.js";

const LEAST = 5e-5; // a difference that four decimals show

/** Completes a pair: what is missing gets the largest weight. */
export function completed(head, pair) {
  const weightOf = reader(head);
  const [queries, keys] = ["query", "key"].map((name) => (pair[name] === null ? head.shown : [pair[name]]));
  let best = { query: queries[0], key: keys[0] };
  for (const query of queries) {
    for (const key of keys) if (weightOf(query, key) > weightOf(best.query, best.key)) best = { query, key };
  }
  return best;
}

/** The steps of a pair; `onProblem` gets what went wrong. */
export function Steps({ question, head, pair: { query, key }, onProblem }) {
  const { model } = question;
  const { weights: { tokens, size }, row: layer, column } = head;
  const [answer, take] = useState(null);
  const isThere = answer?.layer === layer && answer.head === column && answer.query === query;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const ask = async () => {
      try {
        const found = await post("/attention/steps", { ...fieldsOf(question), layer, head: column, query }, signal);
        requireModel(found, model);
        if (found.tokens.length !== size) throw new Problem("unknown", "The answer has other tokens than the map.");
        take(found);
      } catch (problem) {
        if (!signal.aborted) onProblem(problem);
      }
    };
    take(null);
    ask();
    return () => controller.abort();
  }, [head.weights, layer, column, query]);
  const drawn = reader(head)(query, key);
  const isRounded = isThere && Math.abs(answer.weights[key] - drawn) >= LEAST;
  const rounded = isRounded && ` The map shows ${short(drawn)}: the service computes in ${model.dtype}, which rounds more.`;
  const said = isThere ? gives(tokens, query, key, answer.weights[key]) : "";
  useEffect(() => {
    // Later: what draws the page within an effect would run the effect again.
    if (said) setTimeout(() => announce(`Layer ${layer}, head ${column}: ${said}, in five steps.`));
  }, [said, layer, column]);
  return html`<section class="made" aria-label="How this weight was made">
    <p class="made-said">${said}</p>
    <p class="made-note note">${isThere ? `All numbers here are computed in float32.${rounded || ""}` : "Asking …"}</p>
    <ol class="making">${isThere && making({ answer, key, model })}</ol>
  </section>`;
}

/** A number with four decimals and a minus as people write it. */
const number = (value) => value.toFixed(4).replace("-", "−");
const sumOf = (numbers) => numbers.reduce((total, each) => total + each, 0);

function making({ answer, key, model }) {
  const { query_vector: query, keys, values, scale, scores, weights, result, tokens, layer, head } = answer;
  const size = result.length;
  const causes = [answer, key];
  const heads = model.num_heads;
  const [from, to] = [quoted(tokens[answer.query]), quoted(tokens[key])];
  const vectors = [[`query of ${from}`, query], [`key of ${to}`, keys[key]]];
  const products = query.map((value, at) => value * keys[key][at]);
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const difference = `${number(scores[key])} ${top < 0 ? "+" : "−"} ${number(Math.abs(top))}`;
  const largest = largestOf(weights) || 1;
  const weight = short(weights[key]);
  const parts = [
    [`value of ${to}`, values[key]],
    [`${weight} × value`, values[key].map((each) => each * weights[key])],
    ["result of the head", result],
  ];
  return html`
    <${Step} title="The query and the key" term="Heads" source="split_heads">
      <p>Head ${head} of layer ${layer} has its own projections. They turn the one token into a query and
        the other into a key, each of ${query.length} numbers.</p>
      <${Strips} named=${vectors} />
      <${Numbers} title="The query and the key as a table" columns=${() => vectors} causes=${causes} />
    <//>
    <${Step} title="The score" term="Scaled dot product" source="scaled_dot_product_score">
      <p>The products of both, feature by feature, add up to ${number(sumOf(products))}. Divided
        by √${size} = ${number(1 / scale)} this is the score: ${number(scores[key])}.</p>
      <${Strips} named=${[["query × key", products]]} />
      <${Numbers} title="The products as a table"
        columns=${() => [["query", query], ["key", keys[key]], ["query × key", products]]} causes=${causes} />
    <//>
    <${Step} title="The softmax of the row" term="Softmax" source="softmax">
      <p>${from} has a score for each of ${tokens.length} tokens; the largest is ${number(top)}.
        e^(${difference}) = ${number(powers[key])}, divided by the sum of all such
        powers, ${number(sumOf(powers))}, is the weight: ${weight}. Subtracting the largest score keeps
        the powers small, and changes no weight.</p>
      <div class="scroll" tabindex="0" role="region" aria-label="Weights that ${from} gives"><ol class="chips softmax-row">
        ${tokens.map(({ text }, at) => html`
          <li title="score ${number(scores[at])}" aria-current=${at === key ? "true" : null}
            style=${{ backgroundColor: tinted("out", (40 * weights[at]) / largest) }}>
            <bdi class="name">${text}</bdi><span class="figure">${short(weights[at])}</span></li>`)}
      </ol></div>
      <${Numbers} title="The row as a table" tokens=${tokens} marked=${key}
        columns=${() => [["score", scores], ["power", powers], ["weight", weights]]} causes=${causes} />
    <//>
    <${Step} title="The value’s part in the result" term="Weighted sum" source="multi_head_attention">
      <p>The value of ${to} counts ${weight} times. The result of the head is the sum of such parts over
        all ${tokens.length} tokens.</p>
      <${Strips} named=${parts} />
      <${Numbers} title="The values as a table" columns=${() => parts} causes=${causes} />
    <//>
    <${Step} title="The heads, one after the other" term="Concatenation" source="concatenate_heads">
      <p>The results of all ${heads} heads stand one after the other in ${heads * size} numbers. Those
        of head ${head} have the places ${head * size} to ${(head + 1) * size - 1}, counted from 0.
        The output projection then mixes all of them.</p>
      <ol class="all-heads">${range(heads).map((one) => html`
        <li aria-current=${one === head ? "true" : null}>head ${one}</li>`)}</ol>
    <//>`;
}

/** One step, with its term in the literature and its function in the reference. */
const Step = ({ title, term, source, children }) => html`<li><h3>${title}</h3>${children}
  <p class="note">Term: ${term}. In model/network/reference.py: <code>${source}</code>.</p></li>`;

/** Named vectors as rows of coloured cells on one scale: blue above 0, orange below. */
function Strips({ named }) {
  const largest = Math.max(...named.flatMap(([, numbers]) => numbers.map(Math.abs)));
  return named.map(([name, numbers]) => {
    const draw = (canvas) => canvas && drawRow(canvas, numbers, largest);
    const ends = `from ${number(Math.min(...numbers))} to ${number(Math.max(...numbers))}`;
    return html`<div class="vector"><span class="note">${name}</span>
      <canvas role="img" aria-label="${name}: ${numbers.length} numbers ${ends}" ref=${draw} /></div>`;
  });
}

/**
 * A table that is filled once it is opened, and again for other causes: a column for each list of
 * numbers, with its name, and a row for each token or feature.
 */
export function Numbers({ title, columns, tokens, marked, causes }) {
  const [isOpen, open] = useState(false);
  const table = useMemo(() => {
    const named = isOpen ? columns() : [];
    return isOpen && html`<table>
      <thead><tr>${[tokens ? "token" : "feature", ...named.map(([name]) => name)].map((name) => html`
        <th scope="col">${name}</th>`)}</tr></thead>
      <tbody>${named[0][1].map((_, at) => html`
        <tr aria-current=${at === marked ? "true" : null}><th scope="row">${tokens?.[at].text ?? at}</th>
          ${named.map(([, numbers]) => html`<td title=${full(numbers[at])}>${number(numbers[at])}</td>`)}</tr>`)}</tbody></table>`;
  }, [isOpen, ...causes]);
  return html`<details class="table" onToggle=${({ target }) => open(target.open)}><summary>${title}</summary>
    <div class="scroll" tabindex="0" role="region" aria-label=${title}>${table}</div></details>`;
}
