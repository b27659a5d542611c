"""Pictures: the fonts that come with the program have every character, on every machine."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest
from fontTools.ttLib import TTFont
from matplotlib import font_manager

from core.errors import ConfigError, UserError
from tasks import pictures
from tasks.couplet.layout import draw_couplet
from tasks.couplet.script import traditional
from tasks.runs.checkpoint_folder import PRETRAINED
from tasks.seq2seq.labeled_attention import Attention


@pytest.fixture(autouse=True)
def no_fonts_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves matplotlib with the fonts that are a part of it."""
    manager, own = font_manager.fontManager, matplotlib.get_data_path()
    monkeypatch.setattr(manager, "ttflist", [f for f in manager.ttflist if own in f.fname])
    manager._findfont_cached.cache_clear()


def attention_of(source: str, target: str) -> Attention:
    weights = [np.ones((2, 1, t, s), dtype=np.float32) for s, t in ((3, 3), (2, 2), (3, 2))]
    return Attention([*source, "<eos>"], ["<bos>", *target], *weights)


@pytest.mark.parametrize("suffix", pictures.FORMATS)
@pytest.mark.filterwarnings("error")
def test_chinese_is_drawn_without_a_font_of_the_system(
    suffix: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A plain container had boxes in pictures, and no picture of a couplet."""
    texts = [("春风", "秋月", "山河如画"), ("春風ä", "秋雲，", "萬象更新")]
    files = []
    for number, text in enumerate((*texts, texts[0])):
        draw_couplet(tmp_path / f"couplet{number}{suffix}", *text)
        attention_of(text[0][:2], text[1][1]).draw(tmp_path / f"plot{number}{suffix}")
        paths = [tmp_path / f"{name}{number}{suffix}" for name in ("couplet", "plot")]
        files.append([path.read_bytes() for path in paths])
    assert capfd.readouterr().err == caplog.text == ""
    assert files[0] == files[2] != files[1]


def test_what_models_write_has_a_glyph() -> None:
    """Where the brush lacks a character, such as a traditional one, the other two have it."""
    files = sorted(pictures.FONTS.glob("*.ttf"))
    brush, kai, sans = (set(TTFont(file).getBestCmap()) for file in files)
    words = (PRETRAINED / "couplet" / "vocabulary.txt").read_text(encoding="utf-8")
    written = "".join(c for c in words if "\u4e00" <= c <= "\u9fff")  # the rest is rare
    for text in (written, traditional(written), "äöüÄÖÜß，。！？"):
        assert not set(map(ord, text)) - (brush | kai)
        assert not set(map(ord, text)) - sans
    for name in ("CoupletBrush", "CoupletKai"):
        of_page = TTFont(pictures.FONTS / f"{name}.woff2")
        assert of_page.getBestCmap() == TTFont(pictures.FONTS / f"{name}.ttf").getBestCmap()


def test_a_character_that_no_font_has_is_named_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    attention_of("한글", "秋").draw(tmp_path / "plot.png")
    reason = "no font of this program has '한'"
    assert capfd.readouterr().err == f"{reason}, which is drawn as a box\n"
    with pytest.raises(UserError, match=rf"none\.png: {reason}"):
        draw_couplet(tmp_path / "none.png", "春한", "秋글")
    assert [path.name for path in tmp_path.iterdir()] == ["plot.png"]


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.doc: the picture's name must end in \.png, \.svg"):
        attention_of("ab", "c").draw(tmp_path / "a.doc")


def test_fonts_have_their_licenses_beside_them() -> None:
    notice = (pictures.FONTS / "NOTICE").read_text(encoding="utf-8")
    for path in pictures.FONTS.iterdir():
        assert path.name == "NOTICE" or path.stem in notice
