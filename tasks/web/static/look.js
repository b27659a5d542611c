// Looking inside: one prediction, what would have followed another word, and other beams.

import { $, Task, make, request } from "./client.js";
import { show } from "./inside.js";
import { say } from "./strings.js";

const WIDTHS = [1, 2, 3, 4, 5, 6, 7, 8];

let body; // of the request
let trace; // what is shown
let own; // the trace of the model's own output, beside a "what if"

// The model and the prefix of a "what if" are in the address.
export const task = new Task("inside", "inside-text", run);

export function offer(tasks) {
  $("inside-task").replaceChildren(...tasks.map(value => make("option", { value, textContent: say(value) })));
  choose();
  if (trace) draw();
}

// Sets the form to the model of the address.
function choose() {
  const names = [...$("inside-task").options].map(option => option.value);
  $("inside-task").value = names.includes(task.fields.of) ? task.fields.of : names[0];
}

async function run(text, signal) {
  choose();
  const { prefix } = task.fields;
  body = { task: $("inside-task").value, text };
  own = prefix && await request("trace", body, signal);
  if (prefix) body.prefix = prefix;
  trace = await request("trace", body, signal);
  draw();
  $("trace").querySelector(".before")?.focus();
}

function draw() {
  const isPair = trace.task !== "classification";
  const language = document.documentElement.lang.slice(0, 2);
  const whatIf = isPair && (prefix => change({ prefix }));
  show($("trace"), trace, { language, whatIf, compare: isPair && compare, before: own });
  $("inside-back").hidden = !own;
  task.show(trace.output);
}

// Adds greedy search and other beams to what is shown.
async function compare() {
  const shown = trace;
  const others = await Promise.all(WIDTHS.map(beam => request("trace", { ...body, beam }))).catch(error => task.say(error.message));
  if (!others || trace !== shown) return;
  trace.searches.push(...others.map(other => other.searches[0]));
  for (const { words } of others) Object.assign(trace.words, words);
  draw();
}

function change(fields) {
  Object.assign(task.fields, fields);
  if (!task.fields.prefix) delete task.fields.prefix;
  return task.start();
}

$("inside-task").onchange = () => change({ of: $("inside-task").value, prefix: "" });
$("inside-text").oninput = () => { delete task.fields.prefix; };
$("inside-back").onclick = () => change({ prefix: "" });
