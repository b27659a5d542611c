"""Quality by length: which sentence is in which bin, its score, and the points of the picture."""

from collections.abc import Callable
from pathlib import Path

import pytest
import sacrebleu
from matplotlib.figure import Figure

from tasks.plots.learned import quality_by_length
from tasks.translation.predict import Translator
from tests.commands.command_line import error_of

Plot = Callable[..., Figure]

PAIRS = [
    ("Ein Hund rennt.", "A dog is running."),
    ("Zwei Kinder spielen im Schnee.", "Two children are playing in the snow."),
    ("Ein Mann.", "A man."),
    ("Eine Frau in einem roten Mantel geht mit ihrem Hund am Strand.", "A woman walks her dog."),
]
SEARCH = ("--beam", "1", "--device", "cpu", "--threads", "1")


def test_every_sentence_counts_in_the_bin_of_its_length() -> None:
    lengths = [5, 6, 0, 10, 16]
    outputs, references = [*"abcde"], ["a", "x", "c", "d", "e f"]
    bins, signature = quality_by_length(lengths, outputs, references)
    assert [(b.label, b.sentences) for b in bins] == [("1-5", 2), ("6-10", 2), ("16-20", 1)]
    assert signature.startswith("nrefs:1|case:mixed|")
    assert bins[0].score == 100.0
    expected = sacrebleu.corpus_chrf(["b", "d"], [["x", "d"]]).score
    assert bins[1].score == pytest.approx(expected)
    assert 0 < bins[1].score < 100
    narrow, _ = quality_by_length([1, 2], ["a", "b"], ["a", "b"], width=1)
    assert [b.label for b in narrow] == ["1", "2"]


def test_the_points_are_those_of_the_translations(plot: Plot, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for column, language in enumerate(("de", "en")):
        text = "".join(f"{pair[column]}\n" for pair in PAIRS)
        for split in ("train", "val", "test"):
            (corpus / f"{split}.{language}").write_text(text, encoding="utf-8")
    figure = plot("length", "--data", corpus, "--metric", "bleu", "--width", "5", *SEARCH)
    translator = Translator.load(device="cpu")
    bins: dict[int, list[tuple[str, str]]] = {}
    for source, reference in PAIRS:
        number = (len(translator.source.encode(source)) - 1) // 5
        output = translator.translate(source, beam_size=1)
        bins.setdefault(number, []).append((output, reference))
    scores, counts = figure.axes
    (line,) = scores.get_lines()
    expected = []
    for number in sorted(bins):
        outputs, references = zip(*bins[number], strict=True)
        expected.append(sacrebleu.corpus_bleu([*outputs], [[*references]]).score)
    assert len(expected) >= 3
    assert line.get_ydata() == pytest.approx(expected)
    heights = [bar.get_height() for bar in counts.containers[0]]
    assert heights == [len(bins[number]) for number in sorted(bins)]
    labels = [label.get_text() for label in counts.get_xticklabels()]
    assert labels == [f"{5 * number + 1}-{5 * number + 5}" for number in sorted(bins)]
    assert scores.get_ylabel() == "BLEU (0 to 100)"
    assert counts.get_xlabel().startswith("source length (tokens of the model)")


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--data", "none"), 1, "none: there is no such folder"),
        (("--data", ".", "--split", "best"), 2, "best"),
        (("--metric", "ter"), 2, "'ter' is not one of"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    arguments: tuple[str, ...], code: int, reason: str, in_tmp: Path
) -> None:
    for language in ("de", "en"):
        (in_tmp / f"train.{language}").write_text("a\n", encoding="utf-8")
    assert reason in error_of(code, "plot", "length", *arguments, *SEARCH)
