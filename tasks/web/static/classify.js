// Classification: a bar for each class, the highest first.

import { $, Task, make, request } from "./client.js";
import { say } from "./strings.js";

export const task = new Task("classify", "classify-text", run);

let result;

export function offer() {
  if (result) draw();
}

async function run(text, signal) {
  ({ results: [result] } = await request("classify", { texts: [text], explain: true }, signal));
  draw();
}

function draw() {
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
  if (result.unfamiliar) parts.push(make("p", { className: "warning", textContent: say("unfamiliar") }));
  if (result.explanation.length) parts.push(make("h2", { textContent: say("explanation") }), words(result.explanation));
  $("classes").replaceChildren(...parts);
  task.show(Object.entries(result.probabilities).map(([label, p]) => `${label}\t${p.toFixed(4)}`).join("\n"));
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
