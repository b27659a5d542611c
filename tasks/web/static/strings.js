// The words of the page, in English, German and Chinese.

const en = {
  lessSure: "dotted: less sure (confidence below 80%)", wrong: "wavy: probably wrong (below 40%)", probablyWrong: "probably wrong",
  secondLine: "The second line of a couplet, in Chinese",
  direction: "Answer with", forward: "a second line", backward: "a first line", rhyme: "Rhyme and tones", modern: "modern",
  pingshui: "classical (Pingshui)", banner: "Banner",
  knows_translate: "The model was trained on everyday German, mail, captions, talks and news; long sentences and rare words, it often gets wrong.",
  knows_classify: "The model was trained on American news of 2004 and 2005: World, Sports, Business, Sci/Tech. Each line is a text.",
  knows_couplet: "The model was trained on Chinese couplets, some of them about modern life, and on classical verse.",
  inside: "Inside", oneSentence: "One sentence, or the first line of a couplet", model: "Model", look: "Look inside",
  back: "Back to the model's own output", translation: "translation", classification: "classification",
  language: "Language", theme: "Theme", light: "light", dark: "dark", auto: "as the system", tasks: "Tasks",
  translate: "Translate", classify: "Classify news", couplet: "Couplets", send: "Send", cancel: "Cancel", copy: "Copy",
  copied: "Copied.", copyLink: "Copy link", progress: "Progress", working: "Working …", done: "Done.", canceled: "Canceled.",
  translateHint: "The translation appears as you type; Ctrl+Enter asks at once. Choose a sentence of the translation to see others.",
  alternatives: "Other translations of this sentence", score: "score", confidence: "confidence", attention: "Attention", layer: "Layer",
  head: "Head", mean: "mean of all",
  attentionHint: "Point at a word of the translation, or move to it with Tab: the words that the model looked at are colored.",
  newsText: "A news text in English", best: "most probable", explanation: "Words for and against this class",
  unfamiliar: "This text is unlike the news that the model was trained on.", empty: "Enter a text first.",
  firstLine: "The first line of a couplet, in Chinese", answerLine: "Answer", first: "First line", second: "Second line",
  keepHint: "Choose characters to keep; the others are answered again.", keep: "Keep {0}", kept: "Kept: {0}",
  again: "Answer again", release: "Keep none", picture: "Save picture", candidate: "Candidate {0}",
  enlarge: "Enlarge", allKept: "All {0} rules are kept", broken: "Broken: {0}",
  rule_length: "equal length", rule_punctuation: "equal punctuation", rule_characters: "no character of the first line",
  rule_repetition: "equal repetition", rule_ending: "opposed tones at the end", rule_tones: "opposed tones inside", rule_rhyme: "no rhyme",
  rule_palindrome: "palindrome", rule_parallels: "parallel halves", rule_avoided: "no rude word", isKept: "kept", isBroken: "broken",
  gone: "The service does not answer. Is it still running? Your text is kept: try again.",
  busy: "The service is busy. Try again in {0} s.", key: "This service needs an API key", forPrograms: "For programs",
  noTask: "This service has no model for this task.",
};

const de = {
  lessSure: "gepunktet: weniger sicher (unter 80 %)", wrong: "gewellt: wahrscheinlich falsch (unter 40 %)", probablyWrong: "wahrscheinlich falsch",
  secondLine: "Die zweite Zeile eines chinesischen Verspaars",
  direction: "Antworten mit", forward: "einer zweiten Zeile", backward: "einer ersten Zeile", rhyme: "Reim und Töne", modern: "modern",
  pingshui: "klassisch (Pingshui)", banner: "Querbanner",
  knows_translate: "Das Modell wurde mit deutschen Alltagssätzen, Briefen, Bildunterschriften, Vorträgen und Nachrichten trainiert; lange Sätze und seltene Wörter übersetzt es oft falsch.",
  knows_classify: "Das Modell kennt amerikanische Nachrichten von 2004 und 2005: World, Sports, Business, Sci/Tech. Jede Zeile ist ein Text.",
  knows_couplet: "Das Modell kennt chinesische Verspaare, auch über das Leben von heute, und klassische Gedichte.",
  inside: "Hineinsehen", oneSentence: "Ein Satz, oder die erste Zeile eines Verspaars", model: "Modell", look: "Hineinsehen",
  back: "Zurück zur Ausgabe des Modells", translation: "Übersetzung", classification: "Einordnung",
  language: "Sprache", theme: "Farben", light: "hell", dark: "dunkel", auto: "wie das System", tasks: "Aufgaben",
  translate: "Übersetzen", classify: "Nachrichten einordnen", couplet: "Verspaare", send: "Senden", cancel: "Abbrechen",
  copy: "Kopieren", copied: "Kopiert.", copyLink: "Link kopieren", progress: "Fortschritt", working: "In Arbeit …", done: "Fertig.",
  canceled: "Abgebrochen.",
  translateHint: "Die Übersetzung erscheint beim Tippen; Strg+Enter fragt sofort. Wählen Sie einen Satz der Übersetzung, um andere zu sehen.",
  alternatives: "Andere Übersetzungen dieses Satzes", score: "Bewertung", confidence: "Sicherheit", attention: "Attention",
  layer: "Schicht", head: "Kopf", mean: "Mittel aller",
  attentionHint: "Zeigen Sie auf ein Wort der Übersetzung, oder gehen Sie mit Tab dorthin: Die Wörter, auf die das Modell geachtet hat, werden gefärbt.",
  newsText: "Ein englischer Nachrichtentext", best: "am wahrscheinlichsten", explanation: "Wörter für und gegen diese Klasse",
  unfamiliar: "Dieser Text gleicht den Nachrichten nicht, mit denen das Modell trainiert wurde.", empty: "Geben Sie zuerst einen Text ein.",
  firstLine: "Die erste Zeile eines chinesischen Verspaars", answerLine: "Antworten", first: "Erste Zeile", second: "Zweite Zeile",
  keepHint: "Wählen Sie Zeichen, die bleiben; die anderen werden neu gesucht.", keep: "{0} behalten",
  kept: "Behalten: {0}", again: "Neu antworten", release: "Keine behalten", picture: "Bild speichern", candidate: "Vorschlag {0}",
  enlarge: "Vergrößern", allKept: "Alle {0} Regeln sind eingehalten", broken: "Verletzt: {0}", rule_length: "gleiche Länge", rule_punctuation: "gleiche Satzzeichen",
  rule_characters: "kein Zeichen der ersten Zeile", rule_repetition: "gleiche Wiederholungen", rule_ending: "entgegengesetzte Töne am Ende", rule_tones: "entgegengesetzte Töne im Innern",
  rule_rhyme: "kein Reim", rule_palindrome: "Palindrom", rule_parallels: "parallele Hälften", rule_avoided: "kein grobes Wort",
  isKept: "eingehalten", isBroken: "verletzt",
  gone: "Der Dienst antwortet nicht. Läuft er noch? Ihr Text bleibt erhalten: Versuchen Sie es noch einmal.",
  busy: "Der Dienst ist ausgelastet. Versuchen Sie es in {0} s wieder.", key: "Dieser Dienst verlangt einen API-Schlüssel",
  forPrograms: "Für Programme", noTask: "Dieser Dienst hat kein Modell für diese Aufgabe.",
};

const zh = {
  lessSure: "点线：不太有把握（置信度低于 80%）", wrong: "波浪线：可能译错（低于 40%）", probablyWrong: "可能译错",
  secondLine: "下联",
  direction: "方向", forward: "对下联", backward: "对上联", rhyme: "韵书", modern: "今音", pingshui: "平水韵", banner: "横批",
  knows_translate: "模型用日常德语、书信、图片说明、演讲和新闻训练；长句和生僻词，它常会译错。",
  knows_classify: "模型用 2004 至 2005 年的美国新闻训练，分四类：World、Sports、Business、Sci/Tech。每行一篇。",
  knows_couplet: "模型用对联（包括写现代生活的）和古诗训练。",
  inside: "看看里面", oneSentence: "一个句子，或者一个上联", model: "模型", look: "看看里面",
  back: "回到模型自己的输出", translation: "翻译", classification: "分类",
  language: "语言", theme: "主题", light: "浅色", dark: "深色", auto: "跟随系统", tasks: "任务",
  translate: "翻译", classify: "新闻分类", couplet: "对联", send: "发送", cancel: "取消", copy: "复制", copied: "已复制。",
  copyLink: "复制链接", progress: "进度", working: "正在计算……", done: "完成。", canceled: "已取消。",
  translateHint: "边输入边翻译；按 Ctrl+Enter 立即翻译。点击译文中的一句，可以看到其他译法。",
  alternatives: "这一句的其他译法", score: "得分", confidence: "置信度", attention: "注意力", layer: "层", head: "头", mean: "全部平均",
  attentionHint: "把鼠标移到译文的一个词上，或用 Tab 键移动：模型关注的原文词会着色。",
  newsText: "一段英文新闻", best: "最可能", explanation: "支持和反对这一类别的词", unfamiliar: "这段文字与训练时的新闻不相似。",
  empty: "请先输入文字。", firstLine: "上联", answerLine: "作答", first: "上联", second: "下联",
  keepHint: "点击要保留的字，其余的字重新对。", keep: "保留“{0}”", kept: "已保留：{0}", again: "重新对", release: "全部不保留",
  picture: "保存图片", candidate: "候选 {0}", enlarge: "放大", allKept: "{0} 条规则都符合", broken: "不符合：{0}", rule_length: "字数相等", rule_punctuation: "标点相同",
  rule_characters: "不用上联的字", rule_repetition: "重字相应", rule_ending: "尾字平仄相反", rule_tones: "平仄相对", rule_rhyme: "尾字不同韵",
  rule_palindrome: "回文相应", rule_parallels: "句中自对", rule_avoided: "无粗俗词", isKept: "符合", isBroken: "不符合",
  gone: "服务没有响应。它还在运行吗？文字没有丢失，请再试一次。", busy: "服务繁忙，请 {0} 秒后再试。", key: "此服务需要 API 密钥",
  forPrograms: "程序接口", noTask: "此服务没有这个任务的模型。",
};

export const LANGUAGES = { en, de, zh };

let chosen = en;

export function choose(language) {
  chosen = LANGUAGES[language];
}

// Returns a text in the chosen language; {0} stands for the argument.
export function say(name, argument = "") {
  return (chosen[name] ?? name).replace("{0}", argument);
}
