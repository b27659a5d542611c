// The page: tabs, languages, colors, and the state in the address.

import * as classify from "./classify.js";
import { $, ServiceError, request } from "./client.js";
import * as couplet from "./couplet.js";
import * as inside from "./look.js";
import { LANGUAGES, choose, say } from "./strings.js";
import * as translate from "./translate.js";

const TABS = { translate, classify, couplet, inside };
const TASKS = { translate: "translation", classify: "classification", couplet: "couplet" };
const THEMES = ["auto", "light", "dark"];
const EXAMPLES = {
  translate: "Zwei Kinder spielen im Schnee und lachen. Ein Hund rennt am Strand.",
  classify: "Oil prices rise as OPEC cuts production",
  couplet: "晚风摇树树还挺",
  inside: "Zwei Kinder spielen im Schnee.",
};

const stored = name => { try { return localStorage.getItem(name); } catch { return null; } };
const store = (name, value) => { try { localStorage.setItem(name, value); } catch { /* private mode */ } };

let offered; // the answer of /v1/models

function useLanguage(language) {
  choose(language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : language;
  $("language").value = language;
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = say(element.dataset.text);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", say(element.dataset.label));
  useTheme(document.documentElement.dataset.theme ?? "auto");
  if (offered) offer();
}

function useTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = `${say("theme")}: ${say(theme)}`;
}

function open(name, { focus = false } = {}) {
  for (const tab of document.querySelectorAll('[role="tab"]')) {
    const isOpen = tab.id === `tab-${name}`;
    tab.setAttribute("aria-selected", isOpen);
    tab.tabIndex = isOpen ? 0 : -1;
    $(tab.getAttribute("aria-controls")).hidden = !isOpen;
    if (isOpen && focus) tab.focus();
  }
  document.title = `${say(name)} – Transformer Suite`;
  if (!location.hash.startsWith(`#${name}`)) TABS[name].task.remember();
}

// Shows what the address says: a tab, a text, and its other fields.
function restore() {
  const [, name = "translate", query = ""] = location.hash.match(/^#(\w+)(?:\?(.*))?$/) ?? [];
  const tab = TABS[name] ? name : "translate";
  const { text, ...fields } = Object.fromEntries(new URLSearchParams(query));
  const { task } = TABS[tab];
  const isNew = text !== task.text || JSON.stringify(fields) !== JSON.stringify(task.fields);
  if (text !== undefined && isNew) {
    $(task.field).value = text;
    task.fields = fields;
    if (offered) task.start({ quietly: true });
  }
  open(tab);
}

function offer() {
  for (const model of offered.models) {
    const name = Object.keys(TASKS).find(key => TASKS[key] === model.task);
    if (!name) continue;
    const knows = TABS[name].task.panel.querySelector(".knows");
    knows.textContent = say(`knows_${name}`);
    knows.hidden = !model.shipped;
    TABS[name].offer(model, offered.limits);
  }
  inside.offer(offered.models.map(model => model.task));
}

async function begin() {
  offered = await request("models");
  $("key-form").hidden = true;
  offer();
  const tasks = offered.models.map(model => model.task);
  for (const [name, { task }] of Object.entries(TABS)) {
    const isOffered = tasks.includes(TASKS[name] ?? tasks[0]);
    task.go.disabled = !isOffered;
    if (!isOffered) task.say(say("noTask"));
  }
  const open = Object.values(TABS).find(({ task }) => !task.panel.hidden && !task.go.disabled);
  await open?.task.start({ quietly: true });
}

$("language").onchange = () => { store("language", $("language").value); useLanguage($("language").value); };
$("theme").onclick = () => {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  store("theme", next);
  useTheme(next);
};
$("key-form").onsubmit = event => {
  event.preventDefault();
  sessionStorage.setItem("key", $("key").value);
  begin().catch(report);
};
document.querySelector('[role="tablist"]').onclick = event => {
  const name = event.target.getAttribute("aria-controls");
  if (name) { open(name); TABS[name].task.remember(); }
};
document.querySelector('[role="tablist"]').onkeydown = event => {
  const names = Object.keys(TABS);
  const now = names.findIndex(name => !$(name).hidden);
  const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: names.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  const name = names.at(next % names.length);
  open(name, { focus: true });
  TABS[name].task.remember();
};
window.onhashchange = restore;
for (const button of document.querySelectorAll(".look")) {
  button.onclick = () => {
    const from = $(button.dataset.from);
    location.hash = `inside?${new URLSearchParams({ of: button.dataset.of, text: (from.value ?? from.firstChild.textContent).split("\n")[0] })}`;
  };
}

function report(error) {
  if (!(error instanceof ServiceError)) throw error;
}

document.documentElement.dataset.theme = THEMES.includes(stored("theme")) ? stored("theme") : "auto";
const wanted = [stored("language"), ...navigator.languages.map(tag => tag.slice(0, 2))];
useLanguage(wanted.find(code => LANGUAGES[code]) ?? "en");
for (const [name, text] of Object.entries(EXAMPLES)) $(TABS[name].task.field).value = text;
restore();
begin().catch(report);
