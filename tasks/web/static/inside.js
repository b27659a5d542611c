// Looking inside: draws one prediction from its trace (tasks/inside.py). This file needs no other, and no network.

const WORDS = {
  en: {
    way: "The way of the data", attention: "Attention", search: "The search", form: "The form of the couplet", decision: "The decision",
    open: "Open a station: its equation, its sizes for this text, and where it is computed.", guide: "guide", computed: "computed in",
    text: "Text", tokens: "Tokens", ids: "Numbers (ids)", embedding: "Embedding and positions", encoder: "Encoder layers", memory: "Memory",
    alignment: "Alignment", decoder: "Decoder layers", probabilities: "Probabilities", word: "Word", pooling: "Pooling", scores: "Scores", class: "Class",
    characters: "{0} characters", marks: "▁ stands for the space before a word; <eos>, if there is one, ends the text.", token: "token", id: "id", position: "position",
    learned: "learned vectors", sinusoidal: "sines and cosines", rotary: "by turning queries and keys in each layer, so nothing is added here",
    layers: "Layers, one after another, each with weights of its own: {0}.", future: "The causal mask hides later positions.",
    aligned: "Character i of the first line is added where character i of the second is written.",
    likely: "The likeliest next word at each step. The search, below, chooses among them.",
    pooled: "Pooling over {0} positions; there is no padding.", avg: "Their mean: each has the weight {0}.", sum: "Their sum.", last: "The last one.",
    kind: "Who looks where", cross: "the output at the source", self_encoder: "the source at itself", self_decoder: "the output at itself",
    layer: "layer {0}", head: "head {0}", mean: "mean", pick: "Point at a word on the left, or move there with the arrow keys: it shows where it looks.",
    writes: "word to write", source_word: "word of the source", reads: "word written before", looks: "{0} looks at {1}.",
    hidden: "hidden: position {0} is later than {1}, which the causal mask forbids",
    grey: "Grey: later words, which are not written yet. The causal mask hides them: their weight is 0.",
    no_mask: "Nothing is hidden here: every word may look at all words of the source. The text is alone, so there is no padding to mask.",
    all_heads: "All layers and heads. Choose one.", no_weights: "An ensemble has no attention of its own.",
    beam: "Beam search of width {0}, length penalty {1}.", greedy: "Greedy search.", sample: "{0} outputs drawn at random (temperature {1}), then ranked.",
    stop_ended: "It stopped because no output went on.", stop_length: "It stopped because the output has the most tokens that are allowed, {1}.",
    stop_stuck: "It stopped because the rules forbid every next token.",
    stop_overtaken: "It stopped because no unfinished output can win any more: the best of them has log P {0}, and even with {1} tokens its score would be {2}; the finished one has {3}.",
    step: "Step", happened: "Step {0}: {1} kept, {2} pruned, {3} ended.", start: "The search begins with <bos>.", tree: "Tree of the search; move with the arrow keys",
    kept: "kept", pruned: "pruned", ended: "ended", chosen: "the result", of_model: "{0} of the model", log_p: "log P", length: "length",
    score: "score", without: "without length penalty", penalty: "score with length penalty {0}", output: "Output", why: "Why it lost",
    kept_because: "Kept: it is number {0} of the outputs that go on; the beam has room for {1}.",
    pruned_because: "Pruned: it is number {0} of the outputs that go on, and the beam has room for {1}. The last one kept has log P {2}, this one {3}.",
    pruned_end: "Pruned: an end counts only among the best {0} candidates of its step.", ended_because: "Ended with <eos>. Its score is {0}.",
    drawn_because: "Drawn at random.", greedy_because: "Kept: it is the likeliest token.",
    next: "The best next words", temperature: "Temperature", go: "go on", whatif: "what if?", forbidden: "forbidden", forced: "another one was chosen",
    model_form: "{0} of the model; the rules leave {1}", finished: "Finished outputs", won: "won", more: "{0} more have finished; they are in the tree.", parted: "They part at step {0}: {1} ({2}) instead of {3} ({4}).",
    less: "log P {0} instead of {1}; score {2} instead of {3}.", ranked: "The ranking gives it {0} instead of {1}.", ranking: "score of the ranking", left: "left",
    unlike: "With another length penalty, another one would win: without it, “{0}”", beside: "Greedy search and beams beside each other", width: "width",
    steps: "steps", show: "show", compare: "Compare greedy search and beams of 1 to 8", before: "The model's own output was “{0}” (log P {1}); now it is “{2}” (log P {3}).",
    place: "place", first: "first line", second: "second line", rule_length: "length", rule_punctuation: "punctuation", rule_given: "given by you", rule_letters: "letter or none",
    rule_repetition: "repetition", rule_characters: "in the first line", rule_avoided: "rude word", rule_ending: "tone of the end",
    rule_tones: "tones", rule_parallels: "parallel halves", rule_rhyme: "rhyme", form_hint: "How many characters the form leaves at each place, the likeliest of them, how many each rule forbids, and likely ones that are lost.",
    likeliest: "the likeliest of these", forbids: "forbidden", lost: "likely, but forbidden",
    part_encoder: "encoder", part_ngrams: "n-grams", part_together: "together", divided: "divided by {0}", probability: "probability",
    added: "What each word adds to the log-odds of the class: green speaks for it, red against it.",
  },
  zh: {
    way: "数据的路径", attention: "注意力", search: "搜索", form: "对联的格律", decision: "分类依据",
    open: "点开任意一步，可以看到公式、这段文字对应的张量形状和相应的源文件。", guide: "教程", computed: "源代码：",
    text: "文字", tokens: "词元", ids: "编号（id）", embedding: "词嵌入与位置", encoder: "编码器各层", memory: "记忆",
    alignment: "对齐", decoder: "解码器各层", probabilities: "概率", word: "词", pooling: "池化", scores: "得分", class: "类别",
    characters: "{0} 个字符", marks: "▁ 表示词前的空格；如果有 <eos>，它表示结束。", token: "词元", id: "编号", position: "位置",
    learned: "学到的向量", sinusoidal: "正弦与余弦", rotary: "在每层旋转查询和键，所以这里什么也不加",
    layers: "共 {0} 层，依次计算，每层有自己的权重。", future: "因果掩码遮住后面的位置。",
    aligned: "生成下联的第 i 个字时，解码器的输入里加入上联的第 i 个字。", likely: "每一步概率最大的下一个词。下面的搜索在其中选择。",
    pooled: "对 {0} 个位置池化，没有填充。", avg: "取平均：每个位置的权重是 {0}。", sum: "求和。", last: "取最后一个。",
    kind: "谁看哪里", cross: "输出看原文", self_encoder: "原文看原文", self_decoder: "输出看输出",
    layer: "第 {0} 层", head: "第 {0} 头", mean: "平均", pick: "把鼠标移到左边的词上，或用方向键移动：可以看到它关注哪里。",
    writes: "要写的词", source_word: "原文的词", reads: "已经写出的词", looks: "{0} 关注 {1}。",
    hidden: "遮住了：位置 {0} 在 {1} 之后，因果掩码不许看", grey: "灰色：后面的词还没有写出来，因果掩码遮住它们，权重是 0。",
    no_mask: "这里什么也没有遮住：每个词都可以看原文的所有词。只有一段文字，所以没有填充要遮。",
    all_heads: "所有层和头，选一个。", no_weights: "集成模型没有自己的注意力。",
    beam: "束搜索，宽度 {0}，长度惩罚 {1}。", greedy: "贪心搜索。", sample: "随机抽取 {0} 个输出（温度 {1}），再排名。",
    stop_ended: "搜索结束：没有未完成的输出。", stop_length: "搜索结束：输出达到最大长度 {1}。", stop_stuck: "搜索结束：规则不允许任何下一个词元。",
    stop_overtaken: "搜索结束：未完成的输出不可能再胜出。其中最好的 log P 是 {0}，即使写到 {1} 个词元，得分也只有 {2}；已完成的得分是 {3}。",
    step: "步", happened: "第 {0} 步：保留 {1} 个，剪去 {2} 个，结束 {3} 个。", start: "搜索从 <bos> 开始。", tree: "搜索树；用方向键移动",
    kept: "保留", pruned: "剪去", ended: "结束", chosen: "结果", of_model: "模型概率 {0}", log_p: "log P", length: "长度",
    score: "得分", without: "不用长度惩罚", penalty: "用长度惩罚 {0} 的得分", output: "输出", why: "为什么落选",
    kept_because: "保留：在继续的输出中排第 {0}，束的宽度是 {1}。",
    pruned_because: "剪去：在继续的输出中排第 {0}，而束的宽度是 {1}。最后一个保留的 log P 是 {2}，这一个是 {3}。",
    pruned_end: "剪去：<eos> 只有排进这一步的前 {0} 个候选才有效。", ended_because: "以 <eos> 结束，得分 {0}。",
    drawn_because: "随机抽到。", greedy_because: "保留：概率最大的词元。",
    next: "最可能的下一个词", temperature: "温度", go: "继续", whatif: "如果是它？", forbidden: "禁止", forced: "指定了别的",
    model_form: "模型给出的概率是 {0}；按规则排除后是 {1}", finished: "完成的输出", won: "胜出", more: "另外完成的 {0} 个在树中。", parted: "从第 {0} 步起与胜者不同：这里是 {1}（{2}），胜者是 {3}（{4}）。",
    less: "log P {0}，胜者 {1}；得分 {2}，胜者 {3}。", ranked: "排名得分 {0}，胜者 {1}。", ranking: "排名得分", left: "可选字数",
    unlike: "换一个长度惩罚，胜出的就不同：不用惩罚时是“{0}”", beside: "贪心搜索与各种束宽并列", width: "宽度",
    steps: "步数", show: "显示", compare: "比较贪心搜索和宽度 1 到 8", before: "模型自己的输出是“{0}”（log P {1}），现在是“{2}”（log P {3}）。",
    place: "位置", first: "上联", second: "下联", rule_length: "字数", rule_punctuation: "标点", rule_given: "你给的字", rule_letters: "字母对字母",
    rule_repetition: "重字", rule_characters: "上联的字", rule_avoided: "粗俗词", rule_ending: "尾字平仄",
    rule_tones: "平仄", rule_parallels: "句中自对", rule_rhyme: "同韵", form_hint: "每个位置上：格律允许多少个字，其中概率最大的字，每条规则禁止多少个字，以及概率高但被禁止的字。",
    likeliest: "其中最可能的", forbids: "禁止", lost: "概率高但被禁止",
    part_encoder: "编码器", part_ngrams: "n 元组", part_together: "合起来", divided: "除以 {0}", probability: "概率",
    added: "每个词给这个类别的对数几率加多少：绿色支持，红色反对。",
  },
};

// Who looks where: a name, and whether the queries and the keys are words of the output.
const KINDS = { cross: ["cross", 1, 0], encoder: ["self_encoder", 0, 0], decoder: ["self_decoder", 1, 1] };
const COLUMN = 10, ROW = 2.2; // of the tree, in rem
const EOS = 3;
const MOST = 6; // finished outputs in the table
const BLUE = [30, 110, 220];

// Characters that cannot be seen, or that turn the direction of a text, are shown by their numbers.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
const visible = text => String(text).replace(UNSEEN, c => `‹U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
const percent = p => p >= 0.0995 ? `${Math.round(100 * p)}%` : p >= 0.001 ? `${(100 * p).toFixed(1)}%` : p > 0 ? "<0.1%" : "0%";
const fixed = number => number.toFixed(2).replace("-", "−");

// Makes an element, of SVG if its name says so; children are elements or texts.
function make(tag, properties = {}, ...children) {
  const isDrawing = tag.startsWith("svg:");
  const element = isDrawing ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (isDrawing || name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter(child => child !== null && child !== undefined && child !== ""));
  return element;
}

addEventListener("beforeprint", () => { for (const part of document.querySelectorAll(".inside details")) part.open = true; });

// Draws a trace into an element. Options: the language; guide, the way to the guide's pages; and where there is a service,
// whatIf(text) and compare(), which ask it for more; and before, the trace without the "what if".
export function show(root, trace, options = {}) {
  root.replaceChildren(new View(trace, options).draw());
}

class View {
  constructor(trace, { language = "en", guide, whatIf, compare, before }) {
    Object.assign(this, { trace, guide, whatIf, compare, before, language: WORDS[language] ? language : "en" });
    this.languages = trace.task === "couplet" ? ["zh", "zh"] : [trace.model.source ?? "", trace.model.target ?? ""];
    this.kind = Object.keys(KINDS).find(kind => trace.weights[kind]);
    this.layer = (trace.weights[this.kind]?.length ?? 1) - 1;
    this.head = -1; // the mean of all
    this.query = 0;
    this.searches = trace.searches.map(prepared);
    this.choose(0);
    this.temperature = trace.temperatures.indexOf(1);
  }

  choose(number) {
    this.search = this.searches[number];
    if (!this.search) return;
    const isGiven = n => this.search.nodes[n].log_prob === 0; // by the "what if"
    this.node = this.search.path.filter(isGiven).at(this.before ? -1 : 1) ?? this.search.path.slice(0, 2).at(-1);
    this.step = this.search.columns.length - 1;
  }

  // A text in the language of the reader. Words that are inserted keep their own direction.
  say(name, ...values) {
    const inserted = value => /^[−<]?[\d.]+%?$/.test(value) ? String(value) : `\u2068${visible(value)}\u2069`;
    return (WORDS[this.language][name] ?? name).replace(/\{(\d)\}/g, (_, i) => inserted(values[i]));
  }

  draw() {
    const { trace } = this;
    const title = make("p", { className: "title" }, this.token(trace.text, 0), " → ", this.token(trace.output, 1));
    const parts = [this.way(), trace.decision && this.decision(), this.attention(), this.search && this.searching()];
    const shown = [...parts, trace.places.length && this.places()].filter(Boolean);
    const links = shown.map(part => make("button", { type: "button", textContent: part.firstChild.textContent, onclick: () => {
      part.scrollIntoView();
      part.firstChild.focus();
    } }));
    const before = this.before && make("p", { className: "before", tabIndex: -1, textContent: this.change() });
    const lang = this.language === "zh" ? "zh-CN" : "en";
    return make("div", { className: "inside", lang }, title, before, make("div", { className: "links" }, ...links), ...shown);
  }

  section(name, ...children) {
    return make("section", {}, make("h2", { textContent: this.say(name), tabIndex: -1 }), ...children);
  }

  // A word or a text of the trace, in its own language and direction.
  token(text, side, properties = {}) {
    return make("bdi", { className: "token", lang: this.languages[side], textContent: visible(text), ...properties });
  }

  way() {
    const chinese = this.language === "zh" ? "zh/" : "";
    const stations = this.stations().map(([name, sizes, equation, file, page, ...extra]) => {
      const summary = make("summary", {}, this.say(name), sizes && make("code", { textContent: sizes }));
      const [place, lesson] = [this.link(file, `source/${file}`), this.link(`docs/${this.language}/${page}.md`, `${chinese}${page}`)];
      const links = make("p", { className: "quiet" }, `${this.say("computed")} `, place, ` · ${this.say("guide")}: `, lesson);
      const formula = equation && make("p", { className: "equation", textContent: equation });
      return make("li", {}, make("details", {}, summary, formula, ...extra, links));
    });
    return this.section("way", make("p", { className: "quiet", textContent: this.say("open") }), make("ol", { className: "way" }, ...stations));
  }

  // The name of a file, and a link to a page of the guide, if there is one.
  link(file, page) {
    const name = make("code", { textContent: file });
    return this.guide ? make("a", { href: `${this.guide}${page}.html`, target: "_top" }, name) : name;
  }

  // Each station: its name, its sizes, its equation, its file, its page of the guide, and what is seen there.
  stations() {
    const { model: sizes, source, target, text, decision } = this.trace;
    const { d_model: D, nhead: H, dim_feedforward: F } = sizes;
    const [S, T, K] = [source.length, target.length, D / H];
    const sub = (x, f) => sizes.norm_first ? `${x} = ${x} + ${f}(LayerNorm(${x}))` : `${x} = LayerNorm(${x} + ${f}(${x}))`;
    const attends = "Attention(Q, K, V) = softmax(Q Kᵀ / √K) V";
    const p = name => make("p", { textContent: name });
    const chips = (tokens, side) => make("p", { className: "chips" }, ...tokens.map(([word]) => this.token(word, side)));
    const numbers = this.table(["position", "token", "id"], source.map(([word, id], i) => [i, this.token(word, 0), id]));
    const found = [
      ["text", "", "", `tasks/${this.trace.task}/predict.py`, `tasks/${this.trace.task}`, p(this.say("characters", [...text].length))],
      ["tokens", `S = ${S}`, "", "data/tokenizers.py", "transformer/embedding", chips(source, 0), p(this.say("marks"))],
      ["ids", `[S, B] = [${S}, 1]`, "", "data/vocabulary.py", "transformer/embedding", numbers],
      ["embedding", `[S, B, D] = [${S}, 1, ${D}]`,
        `x = √D · E[id]${sizes.positions === "rotary" ? "" : " + PE(position)"}, E: [V, D]`,
        "core/model/embedding.py", "transformer/embedding", p(`PE: ${this.say(sizes.positions)}`)],
      ["encoder", `${sizes.num_encoder_layers} × [${S}, 1, ${D}]`, `${sub("x", "SelfAttention")};  ${sub("x", "FFN")};  ${attends};  FFN(x) = W₂ ${sizes.activation}(W₁ x + b₁) + b₂`,
        "core/model/transformer.py", "transformer/layers", p(this.say("layers", sizes.num_encoder_layers)),
        p(`Q, K, V [B, H, S, K] = [1, ${H}, ${S}, ${K}]; Q Kᵀ [B, H, S, S] = [1, ${H}, ${S}, ${S}]; FFN ${D} → ${F} → ${D}`)],
    ];
    if (decision) {
      const how = this.say(sizes.concat_type, `1/${S}`);
      const [model, page] = ["tasks/classification/model.py", "tasks/classification"];
      const pooled = { avg: "x = (x_1 + … + x_S) / S", sum: "x = x_1 + … + x_S", last: "x = x_S" }[sizes.concat_type];
      const w = sizes.ngram_weight;
      const both = decision.scores.ngrams ? `;  scores = ${1 - w} · encoder + ${w} · n-grams` : "";
      return found.concat([
        ["pooling", `[B, D] = [1, ${D}]`, pooled, model, page, p(`${this.say("pooled", S)} ${how}`)],
        ["scores", `[B, C] = [1, ${Object.keys(decision.probabilities).length}]`, `encoder = W₂ ReLU(W₁ x + b₁) + b₂${both}`, model, page],
        ["class", "", "softmax(scores / T)", "tasks/classification/decision.py", page, p(visible(this.trace.output))],
      ]);
    }
    const likely = this.search.path.filter(n => this.search.nodes[n].following.length).map(n => {
      const [token, probability] = this.search.nodes[n].following[0];
      return [this.search.depth[n] + 1, this.token(this.trace.words[token], 1), percent(probability)];
    });
    const ranked = ["score = log P(second | first) + b · log P(first | second) + r · rarity", "tasks/couplet/reranking.py", "tasks/couplet"];
    const normalized = ["score = log P / ((5 + length) / 6)^α", "core/decoding/beam_search.py", "transformer/decoding"];
    const ranking = this.search.options.sample && sizes.aligned !== undefined ? ranked : normalized;
    const memory = [`[S, B, D] = [${S}, 1, ${D}]`, sizes.norm_first ? "memory = LayerNorm(x)" : "memory = x"];
    const aligned = [memory[0], "a_i = W [x_i ; x_(i−1) ; memory_i]", "tasks/couplet/model.py", "tasks/couplet", p(this.say("aligned"))];
    return found.concat([
      ["memory", ...memory, "core/model/sequence_to_sequence.py", "transformer/layers"], ...(sizes.aligned ? [["alignment", ...aligned]] : []),
      ["decoder", `${sizes.num_decoder_layers} × [T, B, D] = [${T}, 1, ${D}]`,
        `${sub("y", "SelfAttention")};  ${sub("y", "Attention to memory")};  ${sub("y", "FFN")}`, "core/model/transformer.py", "transformer/layers",
        chips(target, 1), p(this.say("layers", sizes.num_decoder_layers)), p(this.say("future")),
        p(`Q Kᵀ [B, H, T, T] = [1, ${H}, ${T}, ${T}]; [B, H, T, S] = [1, ${H}, ${T}, ${S}]`)],
      ["probabilities", `[T, B, V] = [${T}, 1, ${sizes.words}]`, "p = softmax(W y + b)", "core/model/sequence_to_sequence.py",
        "transformer/decoding", p(this.say("likely")), this.table(["step", "token", "probability"], likely)],
      ["word", "", ...ranking, p(visible(this.trace.output))],
    ]);
  }

  table(names, rows) {
    const labels = names.map(name => this.say(name));
    const head = make("tr", {}, ...labels.map(label => make("th", { scope: "col" }, label)));
    const body = rows.map(row => make("tr", {}, ...row.map((cell, i) => make("td", { "data-name": labels[i] }, cell instanceof Node ? cell : String(cell)))));
    return make("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": labels.join(", ") },
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  }

  attention() {
    if (!this.kind) return this.section("attention", make("p", { textContent: this.say("no_weights") }));
    const kinds = Object.keys(KINDS).filter(kind => this.trace.weights[kind]).map(kind => {
      const input = make("input", { type: "radio", name: "kind", checked: kind === this.kind, onchange: () => {
        Object.assign(this, { kind, query: 0 });
        this.drawAttention();
      } });
      return make("label", {}, input, " ", this.say(KINDS[kind][0]));
    });
    Object.assign(this, { heads: make("div", { className: "heads" }), large: make("div") });
    const hint = make("p", { className: "quiet", textContent: this.say("all_heads") });
    const part = this.section("attention", make("fieldset", {}, make("legend", {}, this.say("kind")), ...kinds), hint, this.heads, this.large);
    this.drawAttention();
    return part;
  }

  // The weights [queries][keys], from 0 to 1, of a head of a layer, or their mean.
  weightsOf(layer, head) {
    const heads = this.trace.weights[this.kind][layer];
    if (head >= 0) return heads[head].map(row => row.map(weight => weight / 1000));
    return heads[0].map((row, q) => row.map((_, k) => heads.reduce((sum, one) => sum + one[q][k], 0) / heads.length / 1000));
  }

  nameOf(head) { return head < 0 ? this.say("mean") : this.say("head", head + 1); }
  isHidden(q, k) { return this.trace.hidden[this.kind]?.[q][k] ?? false; }

  drawAttention() {
    const layers = this.trace.weights[this.kind];
    this.layer = Math.min(this.layer, layers.length - 1);
    const rows = layers.map((heads, layer) => {
      const buttons = [-1, ...heads.keys()].map(head => {
        const name = this.nameOf(head);
        const isChosen = layer === this.layer && head === this.head;
        const button = make("button", { type: "button", "aria-pressed": isChosen, "aria-label": `${this.say("layer", layer + 1)}, ${name}` },
          this.picture(this.weightsOf(layer, head)), make("small", { textContent: name }));
        button.onclick = () => {
          Object.assign(this, { layer, head });
          for (const other of this.heads.querySelectorAll("button")) other.setAttribute("aria-pressed", other === button);
          this.drawLarge();
        };
        return button;
      });
      return make("div", {}, make("span", { className: "quiet", textContent: this.say("layer", layer + 1) }), ...buttons);
    });
    this.heads.replaceChildren(...rows);
    this.drawLarge();
  }

  // A small picture of weights: a pixel for each, grey where the mask hides.
  picture(weights) {
    const canvas = make("canvas", { width: weights[0].length, height: weights.length });
    const context = canvas.getContext("2d");
    const pixels = context.createImageData(canvas.width, canvas.height);
    weights.forEach((row, q) => row.forEach((weight, k) => {
      const color = this.isHidden(q, k) ? [128, 128, 128, 90] : [...BLUE, Math.round(255 * Math.sqrt(weight))];
      pixels.data.set(color, 4 * (q * canvas.width + k));
    }));
    context.putImageData(pixels, 0, 0);
    return canvas;
  }

  drawLarge() {
    const { source, target } = this.trace;
    const [name, from, to] = KINDS[this.kind];
    const queries = from ? [...target.slice(1), ["<eos>"]] : source;
    const keys = to ? target : source;
    const weights = this.weightsOf(this.layer, this.head);
    const title = `${this.say(name)}: ${this.say("layer", this.layer + 1)}, ${this.nameOf(this.head)}`;
    const rows = Math.max(queries.length, keys.length);
    const lines = make("svg:svg", { viewBox: `0 0 10 ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    const ends = keys.map(([word]) => make("li", {}, this.token(word, to), make("span", { className: "weight" })));
    const says = make("p", { role: "status", className: "says" });
    const options = queries.map(([word], q) => {
      const option = make("li", { role: "option", tabIndex: -1 }, this.token(word, from));
      option.onmouseenter = option.onclick = option.onfocus = () => look(q);
      return option;
    });
    const look = q => {
      this.query = q;
      options.forEach((option, i) => {
        option.setAttribute("aria-selected", i === q);
        option.tabIndex = i === q ? 0 : -1;
      });
      lines.replaceChildren(...weights[q].map((weight, k) => {
        const d = `M0 ${q + 0.5} C5 ${q + 0.5} 5 ${k + 0.5} 10 ${k + 0.5}`;
        return make("svg:path", { d, "stroke-opacity": weight, "stroke-width": 0.06 + 0.25 * weight });
      }));
      ends.forEach((end, k) => {
        const isHidden = this.isHidden(q, k);
        end.classList.toggle("masked", isHidden);
        end.title = isHidden ? this.say("hidden", k, q) : "";
        end.style.setProperty("--weight", `${Math.round(70 * weights[q][k])}%`);
        end.lastChild.textContent = isHidden ? "—" : weights[q][k].toFixed(2);
      });
      const best = [...weights[q].keys()].sort((a, b) => weights[q][b] - weights[q][a]).slice(0, 3);
      const shares = best.map(k => `${keys[k][0]} ${percent(weights[q][k])}`).join(", ");
      says.textContent = this.say("looks", queries[q][0], shares);
    };
    const list = make("ul", { role: "listbox", "aria-label": this.say(from ? "writes" : "source_word"), onkeydown: event => {
      const next = { ArrowDown: this.query + 1, ArrowUp: this.query - 1, Home: 0, End: queries.length - 1 }[event.key];
      if (!options[next]) return;
      event.preventDefault();
      options[next].focus();
    } }, ...options);
    const reads = make("ul", { "aria-label": this.say(to ? "reads" : "source_word") }, ...ends);
    this.large.replaceChildren(
      make("h3", { textContent: title }), make("p", { className: "quiet", textContent: this.say("pick") }),
      says, make("div", { className: "looks" }, list, lines, reads),
      make("p", { className: "quiet", textContent: this.say(to ? "grey" : "no_mask") }));
    look(Math.min(this.query, queries.length - 1));
  }

  searching() {
    this.slider = make("input", { type: "range", min: 0, oninput: () => this.grow(Number(this.slider.value)) });
    this.tree = make("div", { className: "tree", role: "tree", "aria-label": this.say("tree"), onkeydown: event => this.move(event) });
    this.details = make("div", { className: "node" });
    Object.assign(this, { facts: make("p"), happened: make("output"), finished: make("div"), beside: make("div") });
    const steps = make("p", { className: "steps" }, make("label", {}, this.say("step"), " ", this.slider), " ", this.happened);
    const field = make("div", { className: "scroll field" }, this.tree);
    const part = this.section("search", this.facts, steps, field, this.details, this.finished, this.beside);
    this.drawSearch();
    return part;
  }

  drawSearch() {
    const { search, search: { options } } = this;
    const plain = options.beam_size === 1 ? this.say("greedy") : this.say("beam", options.beam_size, options.length_penalty);
    const how = options.sample ? this.say("sample", search.found.length, options.temperature) : plain;
    this.facts.textContent = `${how} ${this.stopped()}`;
    Object.assign(this.slider, { max: search.columns.length - 1, value: this.step });
    const size = [COLUMN * search.columns.length, ROW * Math.max(...search.columns.map(column => column.length))];
    this.tree.style.cssText = `--width: ${size[0]}; width: ${size[0]}rem; height: ${size[1]}rem`;
    const edges = make("svg:svg", { viewBox: `0 0 ${size.join(" ")}`, "aria-hidden": "true" });
    this.items = search.nodes.map((node, n) => {
      const [x, y] = [COLUMN * search.depth[n], ROW * search.row[n]];
      const isBest = search.isBest[n];
      const className = `${node.fate} ${isBest ? "best" : ""}`;
      if (n > 0) {
        const from = [COLUMN * (search.depth[node.parent] + 1) - 1.5, ROW * (search.row[node.parent] + 0.45)];
        const to = [x, y + ROW * 0.45];
        const d = `M${from} C${from[0] + 0.8} ${from[1]} ${to[0] - 0.8} ${to[1]} ${to}`;
        edges.append(make("svg:path", { d, class: className, "data-step": search.depth[n] }));
      }
      const word = this.trace.words[node.token];
      const label = `${visible(word)} ${percent(node.probability)}, ${this.say(node.fate)}${isBest ? `, ${this.say("chosen")}` : ""}`;
      return make("div", { role: "treeitem", tabIndex: -1, className, style: `left: ${x}rem; top: ${y}rem`, "aria-level": search.depth[n] + 1,
        "aria-label": label, title: label, onclick: () => this.select(n) },
      node.fate === "ended" ? "■ " : "", this.token(word, 1), n ? make("small", { textContent: percent(node.probability) }) : "");
    });
    this.tree.replaceChildren(edges, ...this.items);
    this.grow();
    this.drawFinished();
    this.drawBeside();
  }

  // Shows the tree up to a step.
  grow(step = this.step) {
    const { search } = this;
    this.step = step;
    const counts = { kept: 0, pruned: 0, ended: 0 };
    search.columns[step].forEach(n => { counts[search.nodes[n].fate] += 1; });
    this.happened.textContent = step ? this.say("happened", step, counts.kept, counts.pruned, counts.ended) : this.say("start");
    this.slider.setAttribute("aria-valuetext", this.happened.textContent);
    this.items.forEach((item, n) => { item.hidden = search.depth[n] > step; });
    for (const edge of this.tree.querySelectorAll("path")) edge.style.display = Number(edge.dataset.step) > step ? "none" : "";
    while (search.depth[this.node] > step) this.node = search.nodes[this.node].parent;
    this.select(this.node, { focus: false });
  }

  move(event) {
    const { search, node } = this;
    const column = search.columns[search.depth[node]];
    const place = column.indexOf(node);
    const across = { ArrowLeft: search.nodes[node].parent, ArrowRight: search.children[node][0] };
    const next = { ...across, ArrowUp: column[place - 1], ArrowDown: column[place + 1], Home: 0, End: search.path.at(-1) }[event.key];
    if (next === undefined || next < 0 || this.items[next].hidden) return;
    event.preventDefault();
    this.select(next);
  }

  select(n, { focus = true } = {}) {
    this.node = n;
    if (this.search.depth[n] > this.step) this.grow(this.slider.value = this.search.depth[n]);
    this.items.forEach((item, i) => {
      item.setAttribute("aria-selected", i === n);
      item.tabIndex = i === n ? 0 : -1;
    });
    if (focus) this.items[n].focus();
    this.drawNode();
  }

  drawNode() {
    const { search, node: n } = this;
    const node = search.nodes[n];
    const facts = [this.say("of_model", percent(node.probability)), `${this.say("log_p")} ${fixed(node.log_prob)}`,
      `${this.say("length")} ${search.depth[n]}`];
    if (!search.options.sample || search.found.includes(n)) facts.push(`${this.nameOfScore()}: ${fixed(search.score(n))}`);
    const lines = n ? [facts.join(" · "), this.fate(n)] : [this.say("start")];
    const parts = [make("h3", {}, this.token(this.textTo(n) || "<bos>", 1)), ...lines.map(textContent => make("p", { textContent }))];
    if (node.following.length) parts.push(make("h4", { textContent: this.say("next") }), this.temperatures(), this.bars());
    this.details.replaceChildren(...parts);
  }

  nameOfScore() { return this.search.options.sample ? this.say("ranking") : this.say("penalty", this.search.alpha); }

  // Why a node was kept, pruned or ended.
  fate(n) {
    const { search, search: { nodes, options } } = this;
    const node = nodes[n];
    if (node.fate === "ended") return this.say("ended_because", fixed(search.score(n)));
    if (options.sample) return this.say("drawn_because");
    if (options.beam_size === 1) return this.say("greedy_because");
    if (node.token === EOS) return this.say("pruned_end", options.beam_size);
    const others = search.columns[search.depth[n]].filter(m => nodes[m].token !== EOS);
    others.sort((a, b) => nodes[b].log_prob - nodes[a].log_prob);
    const rank = others.indexOf(n) + 1;
    if (node.fate === "kept") return this.say("kept_because", rank, options.beam_size);
    const last = Math.min(...others.filter(m => nodes[m].fate === "kept").map(m => nodes[m].log_prob));
    return this.say("pruned_because", rank, options.beam_size, fixed(last), fixed(node.log_prob));
  }

  stopped() {
    const { search } = this;
    const open = search.nodes.filter(node => node.fate === "kept" && !node.following.length).map(node => node.log_prob);
    const best = Math.max(...open);
    const bound = best / search.normalizer(search.max_length);
    return this.say(`stop_${search.stop}`, fixed(best), search.max_length, fixed(bound), fixed(search.hypotheses.at(-1).score));
  }

  temperatures() {
    const { temperatures } = this.trace;
    const value = make("output", { textContent: temperatures[this.temperature] });
    const slider = make("input", { type: "range", min: 0, max: temperatures.length - 1, value: this.temperature });
    slider.oninput = () => {
      this.temperature = Number(slider.value);
      value.textContent = slider.ariaValueText = String(temperatures[this.temperature]);
      this.details.querySelector(".likely").replaceWith(this.bars());
    };
    return make("p", {}, make("label", {}, this.say("temperature"), " ", slider), " ", value);
  }

  // The best next tokens after the selected node, at the chosen temperature.
  bars() {
    const { search, node: n } = this;
    const node = search.nodes[n];
    const reasons = (search === this.searches[0] && search.isBest[n] && this.trace.places[search.depth[n]]?.forbidden) || {};
    const temperature = this.trace.temperatures[this.temperature];
    const rows = node.following.map(([token, probability, allowed]) => {
      const at = Math.exp(Math.log(allowed) / temperature - node.normalizers[this.temperature]);
      const child = search.children[n].find(m => search.nodes[m].token === token);
      const state = child === undefined ? "" : this.say(search.nodes[child].fate);
      const reason = this.say(reasons[token] ? `rule_${reasons[token]}` : "forced");
      const share = allowed ? at : probability;
      const word = this.trace.words[token];
      const bar = make("span", { className: "bar", style: `--share: ${100 * share}%` });
      const row = make("li", { className: allowed ? "" : "forbidden" }, this.token(word, 1), bar,
        make("span", { textContent: percent(share) }), make("small", { textContent: allowed ? state : `${this.say("forbidden")}: ${reason}` }));
      if (allowed && Math.abs(allowed - probability) > 0.005) row.title = this.say("model_form", percent(probability), percent(allowed));
      const button = (name, onclick) =>
        make("button", { type: "button", textContent: this.say(name), "aria-label": `${this.say(name)} ${visible(word)}`, onclick });
      if (child !== undefined && search.nodes[child].fate !== "pruned") row.append(button("go", () => this.select(child)));
      else if (allowed && this.whatIf && token !== EOS) row.append(button("whatif", () => this.whatIf(this.textOf([...search.wordsTo(n), token]))));
      return row;
    });
    return make("ol", { className: "likely" }, ...rows);
  }

  // The finished outputs, the best first, and why the others lost.
  drawFinished() {
    const { search, search: { nodes, options } } = this;
    const ends = [...nodes.keys()].filter(n => nodes[n].fate === "ended" || search.found.includes(n));
    ends.sort((a, b) => (b === search.chosen) - (a === search.chosen) || search.score(b) - search.score(a));
    const likeliest = ends.reduce((a, b) => nodes[b].log_prob > nodes[a].log_prob ? b : a);
    const rows = ends.slice(0, MOST).map(n => {
      const button = make("button", { type: "button", className: "link" }, this.token(this.textTo(n) || "<eos>", 1, { className: "token long" }));
      button.onclick = () => {
        this.select(n, { focus: false });
        this.items[n].scrollIntoView({ block: "nearest", inline: "center" });
      };
      const why = n === search.chosen ? make("b", {}, this.say("won")) : make("span", { className: "long" }, this.lost(n));
      return [button, fixed(nodes[n].log_prob), search.depth[n], fixed(search.score(n)), why];
    });
    const note = !options.sample && likeliest !== search.chosen ? this.say("unlike", this.textTo(likeliest)) : "";
    const names = ["output", `${this.say("log_p")} (${this.say("without")})`, "length", this.nameOfScore(), "why"];
    const more = ends.length > MOST ? this.say("more", ends.length - MOST) : "";
    this.finished.replaceChildren(make("h3", { textContent: this.say("finished") }), this.table(names, rows),
      make("p", { textContent: note }), make("p", { className: "quiet", textContent: more }));
  }

  textTo(n) { return this.textOf(this.search.wordsTo(n)); }

  // Tokens of the output as a text.
  textOf(tokens) {
    const pieces = tokens.filter(token => token !== EOS).map(token => this.trace.words[token]);
    const hasMarks = Object.values(this.trace.words).some(word => word.startsWith("▁"));
    const isChinese = this.languages[1] === "zh";
    return hasMarks ? pieces.join("").replaceAll("▁", " ").trim() : pieces.join(isChinese ? "" : " ");
  }

  lost(n) {
    const { search, search: { nodes, chosen } } = this;
    const [own, best] = [search.pathTo(n), search.pathTo(chosen)];
    const at = own.findIndex((m, i) => m !== best[i]);
    const [a, b] = [nodes[own[at]], nodes[best[at]]];
    const word = node => this.trace.words[node.token];
    const parted = a && b ? this.say("parted", at, word(a), percent(a.probability), word(b), percent(b.probability)) : "";
    const numbers = [nodes[n].log_prob, nodes[chosen].log_prob, search.score(n), search.score(chosen)].map(fixed);
    const why = search.options.sample ? this.say("ranked", ...numbers.slice(2)) : this.say("less", ...numbers);
    return `${parted} ${why}`;
  }

  drawBeside() {
    if (this.searches.length < 2) {
      this.beside.replaceChildren(this.compare ? make("button", { type: "button", textContent: this.say("compare"), onclick: this.compare }) : "");
      return;
    }
    const width = ({ options }) => options.sample ? "—" : String(options.beam_size);
    const different = this.searches.filter((search, i) => i === 0 || width(search) !== width(this.searches[0]));
    const rows = different.sort((a, b) => width(a).localeCompare(width(b))).map(search => {
      const label = `${this.say("show")} ${this.say("width")} ${width(search)}`;
      const button = make("button", { type: "button", textContent: this.say("show"), "aria-label": label, "aria-pressed": search === this.search });
      button.onclick = () => {
        this.choose(this.searches.indexOf(search));
        this.drawSearch();
      };
      const output = this.token(search.output, 1, { className: "token long" });
      return [width(search), output, fixed(search.nodes[search.chosen].log_prob), fixed(search.score(search.chosen)), search.columns.length - 1, button];
    });
    const names = ["width", "output", "log_p", "score", "steps", "show"];
    this.beside.replaceChildren(make("h3", { textContent: this.say("beside") }), this.table(names, rows));
  }

  change() {
    // Tokens that were given have the probability 1 in the search: here, they count as the model has them.
    const of = ({ searches: [search] }) => {
      const { nodes, path } = prepared(search);
      return fixed(path.reduce((sum, n) => sum + Math.log(nodes[n].probability), 0));
    };
    return this.say("before", this.before.output, of(this.before), this.trace.output, of(this.trace));
  }

  places() {
    const { places, source, words } = this.trace;
    const { nodes, path } = this.searches[0];
    const rows = places.map(({ counts, forbidden }, i) => {
      const { following = [] } = nodes[path[i]] ?? {};
      const left = following.filter(([, , allowed]) => allowed).map(([token]) => words[token]).join(" ");
      const likely = following.filter(([, , allowed]) => !allowed).map(([token]) => `${words[token]} (${this.say(`rule_${forbidden[token]}`)})`).join(", ");
      const rules = Object.entries(counts).filter(([rule]) => rule).map(([rule, count]) => `${this.say(`rule_${rule}`)} ${count}`);
      const long = (text, lang = this.language) => make("span", { className: "long", lang, textContent: text });
      const written = words[nodes[path[i + 1]]?.token] ?? "";
      return [i + 1, this.token(source[i]?.[0] ?? "", 0), this.token(written, 1), counts[""] ?? 0, long(left, "zh"), long(rules.join(", ")), long(likely || "—")];
    });
    const names = ["place", "first", "second", "left", "likeliest", "forbids", "lost"];
    return this.section("form", make("p", { className: "quiet", textContent: this.say("form_hint") }), this.table(names, rows));
  }

  decision() {
    const { scores, temperature, probabilities, words } = this.trace.decision;
    const parts = Object.keys(scores);
    const classes = Object.keys(probabilities);
    const order = [...classes.keys()].sort((a, b) => probabilities[classes[b]] - probabilities[classes[a]]);
    const rows = order.map(c => {
      const values = [...parts.map(part => scores[part][c]), scores.together[c] / temperature];
      return [this.token(classes[c], 0), ...values.map(fixed), percent(probabilities[classes[c]])];
    });
    const most = Math.max(...words.map(([, added]) => Math.abs(added)), 1e-9);
    const colored = words.map(([word, added]) => {
      const style = `--weight: ${Math.round(60 * Math.abs(added) / most)}%`;
      const element = this.token(word, 0, { title: fixed(added), className: added < 0 ? "token against" : "token", style });
      return make("span", { className: "added" }, element, make("small", { textContent: added > 0 ? `+${fixed(added)}` : fixed(added) }));
    });
    const names = ["class", ...parts.map(part => `part_${part}`), this.say("divided", temperature), "probability"];
    const hint = make("p", { className: "quiet", textContent: this.say("added") });
    return this.section("decision", this.table(names, rows), hint, make("p", { className: "chips" }, ...colored));
  }
}

// What the view needs to know about a search besides its nodes.
function prepared(search) {
  const { nodes, config: options, hypotheses } = search;
  const depth = [], children = nodes.map(() => []), columns = [];
  nodes.forEach(({ parent }, n) => {
    depth[n] = n && depth[parent] + 1;
    children[parent]?.push(n);
    (columns[depth[n]] ??= []).push(n);
  });
  const childOf = (n, token) => children[n].find(m => nodes[m].token === token);
  const found = hypotheses.map(({ tokens }) => tokens.reduce(childOf, 0)).map(n => childOf(n, EOS) ?? n);
  const chosen = found[search.chosen];
  const pathTo = n => n < 0 ? [] : [...pathTo(nodes[n].parent), n];
  const path = pathTo(chosen);
  const isBest = nodes.map((_, n) => path.includes(n));
  const row = [];
  const order = { kept: 0, ended: 0, pruned: 1 };
  // Drawn outputs stand beside their parents; those of a beam in the order of their probabilities.
  const group = n => options.sample ? row[nodes[n].parent] : order[nodes[n].fate];
  for (const column of columns) {
    column.sort((a, b) => group(a) - group(b) || nodes[b].log_prob - nodes[a].log_prob);
    column.forEach((n, place) => { row[n] = place; });
  }
  for (const own of children) own.sort((a, b) => isBest[b] - isBest[a] || row[a] - row[b]);
  const alpha = options.sample || options.beam_size === 1 ? 0 : options.length_penalty;
  const normalizer = length => ((5 + length) / 6) ** alpha;
  const wordsTo = n => pathTo(n).slice(1).map(m => nodes[m].token);
  const ranked = n => options.sample && hypotheses[found.indexOf(n)]?.score; // drawn outputs are ranked in the end
  const score = n => ranked(n) || nodes[n].log_prob / normalizer(depth[n]);
  return { ...search, options, found, chosen, depth, children, columns, row, path, isBest, alpha, normalizer, pathTo, wordsTo, score };
}
