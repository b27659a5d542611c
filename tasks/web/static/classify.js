// Classification: a bar for each class, the highest first.

import { $, Task, make, request } from "./client.js";
import { say } from "./strings.js";

export const task = new Task("classify", "classify-text", run);

let results;

export function offer() {
  if (results) draw();
}

async function run(text, signal) {
  const texts = text.split("\n").map(line => line.trim()).filter(Boolean); // each line is a text
  ({ results } = await request("classify", { texts, explain: true }, signal));
  draw();
}

function draw() {
  $("classes").replaceChildren(...results.flatMap(shown));
  const rows = ({ probabilities }) => Object.entries(probabilities).map(([label, p]) => `${label}\t${p.toFixed(4)}`).join("\n");
  task.show(results.length > 1 ? results.map(result => `${result.label}\t${result.input}`).join("\n") : rows(results[0]));
}

function shown(result) {
  const rows = Object.entries(result.probabilities).map(([label, probability], rank) => {
    const percent = `${(100 * probability).toFixed(1)}%`;
    const bar = make("span", { className: "bar" });
    bar.style.setProperty("--share", percent);
    const name = make("span", { className: "class", textContent: label });
    if (rank === 0) name.append(make("small", { textContent: ` ✓ ${say("best")}` }));
    const row = make("li", {}, name, bar, make("span", { className: "percent", textContent: percent }));
    row.classList.toggle("best", rank === 0);
    return row;
  });
  const parts = [make("ol", { className: "bars" }, ...rows)];
  if (results.length > 1) parts.unshift(make("h2", { textContent: result.input }));
  if (result.unfamiliar) parts.push(make("p", { className: "warning", textContent: say("unfamiliar") }));
  if (result.explanation.length) parts.push(make(results.length > 1 ? "h3" : "h2", { textContent: say("explanation") }), words(result.explanation));
  return parts;
}

// Words in the color of their contribution to the log-odds of the class: for it or against it.
function words(explanation) {
  const most = Math.max(...explanation.map(({ contribution }) => Math.abs(contribution)), 1e-9);
  return make("p", { className: "words" }, ...explanation.flatMap(({ word, contribution }) => {
    const span = make("span", { textContent: word, title: contribution.toFixed(2), className: contribution < 0 ? "against" : "for" });
    span.style.setProperty("--weight", `${Math.round(70 * Math.abs(contribution) / most)}%`);
    return [span, " "];
  }));
}
