const tasks = {
  translation: { path: "translate", name: "Translate", hint: "German sentences, one a line", example: "Ein Hund rennt am Strand.\nZwei Kinder spielen im Schnee.",
                 show: r => r.translation },
  classification: { path: "classify", name: "Classify", hint: "News texts, one a line", example: "Oil prices rise as OPEC cuts production",
                    show: r => Object.entries(r.probabilities).map(([c, p]) => `${c} ${(100 * p).toFixed(1)}%`).join(" · ") },
  couplet: { path: "couplet", name: "对联", hint: "上联，每行一句", example: "晚风摇树树还挺", show: r => r.second },
};
const $ = id => document.getElementById(id);
let current;
function choose(task) {
  current = task;
  $("hint").textContent = tasks[task].hint;
  $("texts").value = tasks[task].example;
  $("results").replaceChildren();
  for (const button of $("tasks").children) button.setAttribute("aria-pressed", button.value === task);
}
function line(kind, text) {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = text;
  return span;
}
for (const [task, { name }] of Object.entries(tasks)) {
  const button = Object.assign(document.createElement("button"), { value: task, textContent: name, type: "button" });
  button.onclick = () => choose(task);
  $("tasks").append(button);
}
$("form").onsubmit = async event => {
  event.preventDefault();
  const task = current, texts = $("texts").value.split("\n").filter(text => text.trim());
  $("go").disabled = true;
  try {
    const answer = await fetch(`/v1/${tasks[task].path}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ texts }) });
    const { results, error } = await answer.json();
    if (error) throw new Error(error);
    const list = document.createElement("ol");
    for (const result of results) {
      const item = document.createElement("li");
      item.append(line("input", result.input), line("output", tasks[task].show(result)));
      list.append(item);
    }
    $("results").replaceChildren(list);
  } catch (error) {
    $("results").replaceChildren(line("error", error.message));
  } finally {
    $("go").disabled = false;
  }
};
choose("translation");
