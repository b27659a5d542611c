"""Pictures: their fonts, and what is said where a font is missing."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure

from core.errors import ConfigError
from tasks import pictures
from tasks.seq2seq.attention_maps import Attention


def attention_of(source: str, target: str) -> Attention:
    weights = [np.ones((2, 1, t, s), dtype=np.float32) for s, t in ((3, 3), (2, 2), (3, 2))]
    return Attention([*source, "<eos>"], ["<bos>", *target], *weights)


def test_chinese_fonts_that_are_here_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(font_manager, "get_font_names", lambda: ["SimHei", "DejaVu Sans", "Other"])
    assert pictures.fonts() == ["DejaVu Sans", "SimHei"]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_missing_font_is_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The attention of a couplet was a picture of empty boxes, without a word."""
    monkeypatch.setattr(pictures, "_CHINESE_FONTS", ())
    attention_of("ab", "c").draw(tmp_path / "latin.svg")
    assert capsys.readouterr().err == ""
    attention_of("春风", "秋").draw(str(tmp_path / "chinese.png"))
    assert capsys.readouterr().err == (
        "no font here has '春', which is drawn as a box: "
        "install a font that has it, for example the package fonts-noto-cjk\n"
    )
    assert (tmp_path / "chinese.png").read_bytes().startswith(b"\x89PNG")


def test_the_tokens_are_beside_their_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: saved.append(figure))
    shown = attention_of("a$", "b")
    shown.cross[1, 0, 1] = [0.5, 0.25, 0.25]
    shown.draw(tmp_path / "attention.pdf")
    axes, bar = saved[0].axes
    assert bar.get_ylabel() == "attention weight"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "$", "<eos>"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "<eos>"]
    assert np.array_equal(axes.images[0].get_array(), [[1, 1, 1], [0.5, 0.25, 0.25]])


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.doc: the picture's name must end in \.png, \.svg"):
        attention_of("ab", "c").draw(tmp_path / "a.doc")
