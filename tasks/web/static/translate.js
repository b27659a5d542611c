// Translation: as one types, sentence by sentence, with alternatives and attention.

import { $, ServiceError, Task, make, request } from "./client.js";
import { say } from "./strings.js";

const CHOICES = 5;
const CHUNK = 600; // characters in a request: long texts show their progress
const PAUSE = 600; // milliseconds without a key before a request

let sentences = []; // { input, space, hypotheses, chosen }
let options = { n_best: CHOICES };
let most = CHUNK; // characters in a request of a single sentence
let timer;
let selected = -1;
let maps; // the attention that is shown

export const task = new Task("translate", "translate-text", run);

export function offer(model, limits) {
  const beam = Math.min(Math.max(model.defaults.beam, CHOICES), limits.max_beam);
  options = { n_best: Math.min(CHOICES, beam), beam };
  most = limits.max_text;
  const names = new Intl.DisplayNames([document.documentElement.lang], { type: "language" });
  const name = code => { try { return names.of(code); } catch { return code; } };
  $("source-language").textContent = name(model.source);
  $("target-language").textContent = name(model.target);
  $("translate-text").lang = model.source;
  $("translation").lang = model.target;
  if (selected >= 0) select(selected, { focus: false });
}

async function run(text, signal) {
  const chunks = chunked(text);
  const found = [];
  const chosen = task.fields.chosen?.split(".").map(Number) ?? [];
  task.progress.value = 0;
  for (const [number, chunk] of chunks.entries()) {
    const { results } = await request("translate", { texts: [chunk], sentences: true, ...options }, signal).catch(error => {
      if (error instanceof ServiceError && !found.length) show([]); // no translation of another text
      throw error;
    });
    for (const sentence of results[0].sentences) found.push({ ...sentence, chosen: 0 });
    task.progress.value = (number + 1) / chunks.length;
    show(found.map((s, i) => ({ ...s, chosen: s.hypotheses[chosen[i]] ? chosen[i] : 0 })));
  }
}

function show(found) {
  sentences = found;
  selected = -1;
  draw();
}

// Splits a text into requests: after lines, and where a sentence surely ends, not after an abbreviation or a date. The
// service divides long sentences; only those that it does not accept are cut here, at a space.
function chunked(text) {
  const chunks = [""];
  for (let part of text.split(/(?<=\n|(?:\p{L}{5,}[.]|[!?…])["'”’“»)]*\s)(?=\S)/u)) {
    while (part.length > most) {
      const end = part.lastIndexOf(" ", most - 1) + 1 || most - /[\ud800-\udbff]/.test(part[most - 1]);
      chunks.push(part.slice(0, end), "");
      part = part.slice(end);
    }
    if (chunks.at(-1).length + part.length > Math.min(CHUNK, most)) chunks.push("");
    chunks[chunks.length - 1] += part;
  }
  return chunks.filter(chunk => chunk);
}

const translationOf = sentence => sentence.hypotheses[sentence.chosen].translation;

function draw() {
  const buttons = sentences.map((sentence, i) => {
    if (!sentence.input) return sentence.space;
    const button = make("button", { type: "button", className: "sentence", textContent: translationOf(sentence), onclick: () => select(i) });
    button.setAttribute("aria-pressed", i === selected);
    const isWrong = mark(button, confidenceOf(sentence));
    return make("span", {}, button, ...(isWrong ? [" ", make("small", { className: "doubt", textContent: `(${say("probablyWrong")})` })] : []), sentence.space);
  });
  $("translation").replaceChildren(...buttons);
  task.show(sentences.map(s => translationOf(s) + s.space).join(""));
  $("sentence").hidden = selected < 0;
  $("legend").hidden = sentences.every(sentence => !sentence.input || confidenceOf(sentence) === null);
}

const confidenceOf = sentence => sentence.hypotheses[sentence.chosen].confidence ?? sentence.confidence ?? null;
const inWords = confidence => confidence === null ? "" : `${say("confidence")} ${Math.round(100 * confidence)}%`;

// Underlines a sentence by its confidence, and returns whether it is probably wrong.
function mark(button, confidence) {
  if (confidence === null) return false;
  button.classList.add(confidence < 0.4 ? "unsure" : confidence < 0.8 ? "fair" : "sure");
  button.title = inWords(confidence);
  return confidence < 0.4;
}

async function select(i, { focus = true } = {}) {
  selected = i;
  draw();
  const sentence = sentences[i];
  if (focus) $("translation").querySelector('[aria-pressed="true"]').focus();
  $("sentence-source").replaceChildren(sentence.input, " ", make("small", { textContent: inWords(confidenceOf(sentence)) }));
  $("alternatives").replaceChildren(...sentence.hypotheses.map((hypothesis, rank) => {
    const button = make("button", { type: "button", textContent: hypothesis.translation, lang: $("translation").lang, onclick: () => pick(i, rank) });
    button.setAttribute("aria-pressed", rank === sentence.chosen);
    return make("li", {}, button, make("small", {}, ` ${say("score")} ${hypothesis.score.toFixed(2)}`));
  }));
  await attend();
}

async function pick(i, rank) {
  sentences[i].chosen = rank;
  task.fields.chosen = sentences.map(s => s.chosen).join(".");
  task.remember();
  await select(i);
  $("alternatives").children[rank].firstChild.focus();
}

async function attend(layer) {
  const sentence = sentences[selected];
  const body = { task: "translation", source: sentence.input, target: translationOf(sentence), ...(layer && { layer }) };
  $("attention").replaceChildren();
  try {
    maps = await request("attention", body);
  } catch (error) {
    $("attention").textContent = error.message;
    return;
  }
  if (sentence !== sentences[selected]) return;
  fill($("layer"), maps.layers, [], maps.layer);
  fill($("head"), maps.heads, [[0, say("mean")]], Number($("head").value) || 0);
  const row = (tokens, lang) => make("p", { className: "tokens", lang }, ...tokens.map(token => make("span", { textContent: label(token) })));
  const source = row(maps.source, $("translate-text").lang);
  const target = row(maps.target, $("translation").lang);
  [...target.children].forEach((token, t) => {
    token.tabIndex = 0;
    token.onmouseenter = token.onfocus = () => color(source, target, t);
  });
  $("attention").replaceChildren(source, target);
  color(source, target, 0);
}

const label = token => token.replaceAll("▁", " ").trim() || "·";

function fill(select, count, first, value) {
  const numbers = Array.from({ length: count }, (_, i) => [i + 1, String(i + 1)]);
  select.replaceChildren(...[...first, ...numbers].map(([number, text]) => make("option", { value: number, textContent: text })));
  select.value = String(value);
}

// Colors the source words that the model looked at when it wrote target word number t.
function color(source, target, t) {
  const head = Number($("head").value);
  const heads = head ? [maps.weights[head - 1]] : maps.weights;
  [...source.children].forEach((token, s) => {
    const weight = heads.reduce((sum, rows) => sum + rows[t][s], 0) / heads.length;
    token.style.setProperty("--weight", `${Math.round(100 * weight)}%`);
    token.title = weight.toFixed(2);
  });
  [...target.children].forEach((token, i) => token.classList.toggle("current", i === t));
}

$("layer").onchange = () => attend(Number($("layer").value));
$("head").onchange = () => {
  const [source, target] = $("attention").children;
  if (target) color(source, target, Math.max(0, [...target.children].findIndex(token => token.classList.contains("current"))));
};
$("translate-text").oninput = () => {
  clearTimeout(timer);
  delete task.fields.chosen;
  timer = setTimeout(() => task.start({ quietly: true }), PAUSE);
};
