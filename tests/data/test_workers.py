"""Encoding in other processes: the same ids in the same order, whatever becomes of them."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from transformer_suite.core.errors import CorpusError
from transformer_suite.data import encoding, workers
from transformer_suite.data.codec import CodecConfig, TextCodec
from transformer_suite.data.encoding import encode_rows
from transformer_suite.data.examples import IdLists
from transformer_suite.data.tokenizers import TOKENIZER_NAMES
from transformer_suite.data.vocabulary import SPECIALS, Vocabulary

ROOT = Path(__file__).resolve().parents[2]
ROWS = [(f"the dog {i} runs, 狗跑了\u2028!", f"ein Hund {i} 😀 rennt" * (i % 3)) for i in range(40)]

# jieba's dictionary takes every process a second.
QUICK_TOKENIZERS = [name for name in TOKENIZER_NAMES if name != "jieba"]


def codec_of(tokenizer: str, texts: Sequence[str], folder: Path) -> TextCodec:
    size = 40 if tokenizer == "sentencepiece" else None
    config = CodecConfig(tokenizer=tokenizer, vocab_size=size, min_freq=1)
    return TextCodec.build(texts, folder, config)


def codecs_of(tokenizer: str, folder: Path) -> list[TextCodec]:
    columns = enumerate(zip(*ROWS, strict=True))
    return [codec_of(tokenizer, texts, folder / str(i)) for i, texts in columns]


def plain(codecs: list[TextCodec]) -> list[list[list[int]]]:
    return [
        [codec.encode(text) for text in texts]
        for codec, texts in zip(codecs, zip(*ROWS, strict=True), strict=True)
    ]


@pytest.fixture
def codecs(tmp_path: Path) -> list[TextCodec]:
    return codecs_of("whitespace", tmp_path)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """Workers begin at the second of many chunks; these are their processes."""
    monkeypatch.setattr(encoding, "_CHUNK_ROWS", 3)
    monkeypatch.setattr(encoding, "_SECONDS_ALONE", -1.0)
    processes: list[subprocess.Popen[bytes]] = []
    start = workers._started

    def start_noted() -> subprocess.Popen[bytes] | None:
        process = start()
        if process is not None:
            processes.append(process)
        return process

    monkeypatch.setattr(workers, "_started", start_noted)
    return processes


def with_workers(codecs: list[TextCodec], rows: Any = ROWS) -> list[IdLists]:
    return encode_rows(codecs, rows, processes=2)


@pytest.mark.parametrize("tokenizer", QUICK_TOKENIZERS)
def test_the_ids_are_those_of_one_process(
    tokenizer: str, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    codecs = codecs_of(tokenizer, tmp_path)
    found = with_workers(codecs)
    assert found == plain(codecs)
    assert len(started) == 2
    assert encode_rows(codecs, ROWS, processes=1) == found
    assert len(started) == 2


def test_one_codec_may_serve_two_columns(codecs: list[TextCodec], started: object) -> None:
    shared = [codecs[0], codecs[1], codecs[0]]
    rows = [(first, second, second) for first, second in ROWS]
    firsts, seconds = zip(*ROWS, strict=True)
    columns = zip(shared, (firsts, seconds, seconds), strict=True)
    assert with_workers(shared, rows) == [list(map(c.encode, texts)) for c, texts in columns]


@pytest.mark.parametrize("tokenizer", QUICK_TOKENIZERS)
def test_a_codec_comes_back_from_its_description(tokenizer: str, tmp_path: Path) -> None:
    codec = codec_of(tokenizer, ROWS[0], tmp_path)
    description = json.loads(json.dumps(codec.describe()))
    again = TextCodec.restore(description)
    assert json.loads(json.dumps(again.describe())) == description
    for first, second in ROWS[:5]:
        assert (again.encode(first), again.encode(second)) == (
            codec.encode(first),
            codec.encode(second),
        )


def test_nothing_makes_nothing(
    codecs: list[TextCodec], started: list[subprocess.Popen[bytes]]
) -> None:
    assert with_workers(codecs, []) == [[], []]
    assert with_workers(codecs, iter(ROWS[:3])) == [side[:3] for side in plain(codecs)]
    assert [process.poll() is None for process in started] == [False, False]


def test_little_is_done_without_workers(
    codecs: list[TextCodec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_started", None)  # which could not be called
    assert with_workers(codecs) == plain(codecs)


@pytest.mark.parametrize("largest", [(1 << 16) - 1, 1 << 16, 70_000])
def test_ids_are_as_wide_as_they_must_be(largest: int, codecs: list[TextCodec]) -> None:
    tokens = [f"t{number}" for number in range(len(SPECIALS), largest + 1)]
    codec = TextCodec(codecs[0].tokenizer, Vocabulary([*SPECIALS, *tokens]))
    (ids,) = encode_rows([codec], [(f"t{largest} t4",), ("",), ("t5 x",)])
    assert ids == [[largest, 4], [], [5, 0]]
    assert ids._ids.itemsize == (2 if largest < 1 << 16 else 4)


def test_rows_are_read_as_they_are_needed(
    codecs: list[TextCodec], started: list[subprocess.Popen[bytes]]
) -> None:
    read = 0

    def chunks() -> Iterator[list[list[str]]]:
        nonlocal read
        for first, second in ROWS:
            read += 1
            yield [[first], [second]]

    results = workers.encode_in_workers(codecs, chunks(), 2)
    next(results)
    assert read <= 6
    assert len(list(results)) == len(ROWS) - 1


def test_an_error_among_the_rows_ends_the_workers(
    codecs: list[TextCodec], started: list[subprocess.Popen[bytes]]
) -> None:
    def rows() -> Iterator[tuple[str, str]]:
        yield from ROWS[:20]
        raise CorpusError("train.de", "empty line", 21)

    with pytest.raises(CorpusError, match=r"train\.de:21"):
        with_workers(codecs, rows())
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_a_worker_that_is_killed_is_done_without(
    codecs: list[TextCodec], started: list[subprocess.Popen[bytes]]
) -> None:
    """By the kernel, for want of memory, say."""

    def rows() -> Iterator[tuple[str, str]]:
        yield from ROWS[:20]
        for process in started:
            process.kill()
            process.wait()
        yield from ROWS[20:]

    assert with_workers(codecs, rows()) == plain(codecs)


@pytest.mark.parametrize(
    "program",
    [
        "/nonexistent/python",
        "/bin/false",
        "/bin/echo",  # which answers, but not with ids
    ],
)
def test_workers_that_cannot_be_are_done_without(
    program: str, codecs: list[TextCodec], monkeypatch: pytest.MonkeyPatch, started: object
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert with_workers(codecs) == plain(codecs)


def test_a_tokeniser_that_only_this_program_has(
    codecs: list[TextCodec], monkeypatch: pytest.MonkeyPatch, started: object
) -> None:
    class Halves:
        name = "halves"

        def tokenize(self, text: str) -> list[str]:
            return [text[: len(text) // 2], text[len(text) // 2 :]]

        def detokenize(self, tokens: list[str]) -> str:
            return "".join(tokens)

    texts = list(chain.from_iterable(ROWS))
    tokens = dict.fromkeys(token for text in texts for token in Halves().tokenize(text))
    codec = TextCodec(Halves(), Vocabulary([*SPECIALS, *tokens]))
    assert with_workers([codec, codec]) == plain([codec, codec])


def test_a_worker_ends_with_the_program_that_feeds_it() -> None:
    """However that ends: killed, it cannot tell anybody, but its pipes are closed."""
    process = workers._started()
    assert process is not None and process.stdin and process.stdout
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    process.stdout.close()


def test_a_program_without_a_guarded_main_is_not_run_again(tmp_path: Path) -> None:
    """What multiprocessing would have done: imported the script, and so trained once more."""
    script = tmp_path / "script.py"
    script.write_text(
        "from data import encoding\n"
        "from transformer_suite.data.codec import TextCodec\n"
        "from transformer_suite.data.tokenizers import Whitespace\n"
        "from transformer_suite.data.vocabulary import SPECIALS, Vocabulary\n"
        "print('begins')\n"
        "encoding._CHUNK_ROWS, encoding._SECONDS_ALONE = 1, -1.0\n"
        "codec = TextCodec(Whitespace(), Vocabulary([*SPECIALS, 'a']))\n"
        "print(encoding.encode_rows([codec], [('a a',)] * 5, processes=2))\n"
    )
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the current folder')")
    done = subprocess.run(
        [sys.executable, "-P", str(script)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == ["begins", "[[[4, 4], [4, 4], [4, 4], [4, 4], [4, 4]]]"]
    assert done.returncode == 0, done.stderr
