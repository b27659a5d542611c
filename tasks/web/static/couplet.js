// Couplets: candidates on red paper, their rules, characters to keep, and a picture.

import { $, Task, make, request } from "./client.js";
import { say } from "./strings.js";

const CANDIDATES = 5;

const FREE = "？";

let result;
let front = 0; // the number of the candidate that is large

export const task = new Task("couplet", "couplet-text", run);

// The characters that the user has fixed, with FREE for other places, are in the address.
const pattern = () => [...(task.fields.keep ?? "")];
const hasKept = () => pattern().some(character => character !== FREE);

export function offer(model) {
  $("direction-label").hidden = !model.backward;
  if (result) draw();
}

const isBackward = () => Boolean(task.fields.backward);

async function run(text, signal) {
  const { keep, rhyme } = task.fields;
  for (const name of ["backward", "rhyme"]) $(name).value = task.fields[name] ?? "";
  $("couplet-label").dataset.text = isBackward() ? "secondLine" : "firstLine";
  $("couplet-label").textContent = say($("couplet-label").dataset.text);
  const body = { texts: [text], candidates: CANDIDATES, banner: true, backward: isBackward(), ...(hasKept() && { keep }), ...(rhyme && { rhyme }) };
  ({ results: [result] } = await request("couplet", body, signal));
  front = 0;
  draw();
}

function draw() {
  const first = result.input.replace(/\s/g, "");
  const candidates = result.hypotheses.map((hypothesis, rank) => candidate(first, hypothesis, rank));
  candidates.unshift(...candidates.splice(front, 1));
  const hint = make("p", { className: "hint", textContent: say("keepHint") });
  if (hasKept()) {
    hint.textContent = say("kept", task.fields.keep);
    const button = (name, onclick) => make("button", { type: "button", textContent: say(name), onclick });
    hint.append(" ", button("again", () => task.start()), " ", button("release", () => { forget(); task.remember(); draw(); }));
  }
  $("candidates").replaceChildren(hint, make("ol", { className: "papers" }, ...candidates));
  task.show(inOrder(first, result.second).join("\n"));
}

// The first line of the couplet, then the second: when asked for a first line, the answer comes first.
const inOrder = (given, answer) => isBackward() ? [answer, given] : [given, answer];

function candidate(first, { second, rules, broken, score, banner, note }, rank) {
  const kept = pattern();
  const characters = [...second].map((character, i) => {
    const isKept = kept[i] === character;
    const button = make("button", { type: "button", textContent: character, onclick: () => keep(i, isKept ? FREE : character, rank) });
    button.setAttribute("aria-label", say("keep", character));
    button.setAttribute("aria-pressed", isKept);
    button.classList.toggle("kept", isKept);
    return button;
  });
  const given = [...first].map(character => make("span", { textContent: character }));
  const strips = inOrder(given, characters).map(line => make("p", { className: "strip" }, ...line));
  const paper = make("div", { className: "paper", lang: "zh-CN" }, ...strips);
  paper.style.setProperty("--length", first.length);
  // A banner is read from right to left.
  if (banner) paper.prepend(make("p", { className: "banner", title: `${say("banner")}: ${banner}` }, ...[...banner].map(character => make("span", { textContent: character }))));
  const checks = Object.entries(rules ?? {}).map(([name, isKept]) => {
    const state = make("span", { className: "hidden-text", textContent: `: ${say(isKept ? "isKept" : "isBroken")}` });
    const what = broken?.[name] ? ` (${broken[name]})` : "";
    return make("li", { className: isKept ? "kept-rule" : "broken-rule" }, `${isKept ? "✓" : "✗"} ${say(`rule_${name}`)}${what}`, state);
  });
  const lost = Object.keys(broken ?? {}).map(name => say(`rule_${name}`)).join(document.documentElement.lang.startsWith("zh") ? "、" : ", ");
  const summary = make("summary", { textContent: lost ? `✗ ${say("broken", lost)}` : `✓ ${say("allKept", checks.length)}` });
  const heading = make("h2", { textContent: say("candidate", rank + 1), tabIndex: -1 });
  const copy = make("button", { type: "button", textContent: say("copy"), onclick: () => task.write([...inOrder(first, second), ...(banner ? [banner] : [])].join("\n")) });
  const save = make("button", { type: "button", textContent: say("picture"), onclick: () => savePicture(...inOrder(first, second), banner ?? "") });
  const small = make("small", { textContent: `${say("score")} ${score.toFixed(2)}` });
  const enlarge = make("button", { type: "button", textContent: say("enlarge"), hidden: rank === front, onclick: () => putInFront(rank) });
  const list = make("details", { className: "rules" }, summary, make("ul", {}, ...checks));
  const warning = note ? [make("p", { className: "note", lang: "en", textContent: note })] : [];
  const item = make("li", {}, heading, paper, ...warning, ...(checks.length ? [list] : []), small, make("div", { className: "actions" }, copy, save, enlarge));
  item.dataset.rank = rank;
  return item;
}

function putInFront(rank) {
  front = rank;
  draw();
  $("candidates").querySelector("h2").focus();
}

// Fixes the character at place i of the answers, or frees the place.
function keep(i, character, rank) {
  const kept = Array.from(result.second, (_, place) => pattern()[place] ?? FREE);
  kept[i] = character;
  task.fields.keep = kept.join("");
  if (!hasKept()) forget();
  task.remember();
  draw();
  $("candidates").querySelectorAll(`[data-rank="${rank}"] .strip button`)[i].focus();
}

function forget() {
  delete task.fields.keep;
}

async function savePicture(first, second, banner) {
  const size = 72, margin = 40;
  const length = Math.max([...first].length, [...second].length);
  const font = `${size}px ${getComputedStyle($("candidates").querySelector(".strip")).fontFamily}`;
  await document.fonts.load(font, first + second + banner);
  const top = banner ? size + 2 * margin : 0;
  const width = Math.max(2 * (size + 2 * margin) + margin, [...banner].length * (size + 12) + 3 * margin);
  const canvas = make("canvas", { width, height: top + length * (size + 12) + 3 * margin });
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#f7efe2";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.font = font;
  // The first line hangs on the right.
  for (const [line, column] of [[first, 1], [second, 0]]) {
    const left = column ? width - size - 2 * margin : margin;
    pen.fillStyle = "#b3131b";
    pen.fillRect(left, top + margin / 2, size + margin, canvas.height - top - margin);
    pen.fillStyle = "#1a0d00";
    [...line].forEach((character, i) => pen.fillText(character, left + (size + margin) / 2, top + 1.5 * margin + (size + 12) * (i + 0.5)));
  }
  if (banner) {
    const length = [...banner].length * (size + 12) + margin;
    pen.fillStyle = "#b3131b";
    pen.fillRect((width - length) / 2, margin / 2, length, size + margin);
    pen.fillStyle = "#1a0d00";
    [...banner].forEach((character, i) => pen.fillText(character, (width + length - margin) / 2 - (size + 12) * (i + 0.5), margin + size / 2));
  }
  canvas.toBlob(blob => {
    const link = make("a", { href: URL.createObjectURL(blob), download: "couplet.png" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

$("couplet-text").oninput = forget;
for (const name of ["backward", "rhyme"]) {
  $(name).onchange = () => {
    forget();
    if ($(name).value) task.fields[name] = $(name).value; else delete task.fields[name];
    task.start({ quietly: true });
  };
}
