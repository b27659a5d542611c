"""The exported model computes what ours does. The witness is CTranslate2, an engine in C++."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from core.config import override
from core.storage.checkpoint import WEIGHTS_FILE, save_weights
from data.codec import TextCodec
from tasks.runs.checkpoint_folder import write_config
from tasks.translation.config import tiny
from tasks.translation.export import to_ctranslate2
from tasks.translation.model import TranslationModel
from tasks.translation.predict import Translator
from tests.commands.command_line import error_of, run
from tests.tasks.tiny_models import spread

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra `export` is not installed")

SENTENCES = ["ein hund rennt", "zwei kinder lachen im garten", "hund", "ein kind rennt im garten"]


def random_model(folder: Path, *settings: str) -> Path:
    """A checkpoint folder whose weights, norms and biases included, are random."""
    config = override(tiny(), ["data.tokenizer=whitespace", "data.min_freq=1", *settings])
    codec = TextCodec.build(SENTENCES, folder, config.data)
    torch.manual_seed(1)
    size = len(codec.vocabulary)
    model = TranslationModel(size, size, config.model)
    spread(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    save_weights(folder / WEIGHTS_FILE, model)
    write_config(folder, "translation", config)
    return folder


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("model.norm_first=false",),
        ("model.activation=gelu", "model.num_decoder_layers=2"),
        ("model.positions=learned",),
        ("model.positions=rotary",),
    ],
    ids=["pre-norm", "post-norm", "gelu", "learned", "rotary"],
)
def test_the_same_tokens_and_scores(
    tmp_path: Path, settings: tuple[str, ...], beam_size: int
) -> None:
    folder = random_model(tmp_path, *settings)
    translator = Translator.load(folder, device="cpu")
    to_ctranslate2(translator, folder, tmp_path / "exported")
    engine = ctranslate2.Translator(str(tmp_path / "exported"), device="cpu", intra_threads=1)
    for sentence in SENTENCES:
        (theirs,) = engine.translate_batch(
            [sentence.split()],
            beam_size=beam_size,
            length_penalty=0,
            patience=1,
            min_decoding_length=0,
            max_decoding_length=2 * len(sentence.split()) + 10,
            disable_unk=True,
            suppress_sequences=[["<pad>"], ["<bos>"]],
            return_scores=True,
        )
        (ours,) = translator.translate_scored([sentence], beam_size=beam_size, length_penalty=0.0)
        assert ours.text == " ".join(theirs.hypotheses[0])
        if beam_size == 1:
            assert ours.score == pytest.approx(theirs.scores[0], abs=1e-3)


def test_a_failed_export_leaves_nothing(
    tiny_models: Callable[[str], Path], in_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk left half a folder, and the next try was refused because of it."""
    folder = tiny_models("translation")

    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copy", full)
        message = error_of(1, "export", "--model", folder, "--out", "exported")
    assert message == "error: exported: cannot write: No space left on device"
    assert list(in_tmp.iterdir()) == []
    assert run("export", "--model", folder, "--out", "exported").exit_code == 0


def test_a_trained_model_by_the_command(tiny_models: Callable[[str], Path], in_tmp: Path) -> None:
    folder = tiny_models("translation")
    done = run("export", "--model", folder, "--out", "exported", "--quantization", "int8")
    assert (done.exit_code, done.stdout) == (0, "exported\n")
    assert (in_tmp / "exported" / "model.bin").is_file()
    original, copy = (f / "sentencepiece.model" for f in (folder, in_tmp / "exported"))
    assert copy.read_bytes() == original.read_bytes()
    assert "is there already" in error_of(1, "export", "--model", folder, "--out", "exported")
    assert "float32" in error_of(2, "export", "--out", "new", "--quantization", "tiny")
