"""Training curves: what is read of them, what is refused, and what is in the picture."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from tasks.plots.training_curves import draw_histories
from tests.commands.command_line import error_of, lines_of, run

Draw = Callable[..., Figure]

HEAD = "epoch,step,train_loss,val_loss,val_bleu,learning_rate,seconds"


def write_run(folder: Path, *rows: str, head: str = HEAD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "history.csv").write_text("\n".join((head, *rows)) + "\n", encoding="utf-8")
    return folder


def curve(epochs: int, loss: float = 4.0) -> list[str]:
    return [f"{e},{e * 10},{loss / e},{loss / e / 2},{e},0.001,12.5" for e in range(1, epochs + 1)]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Draw:
    """Draws runs, and gives back the figure that would have been saved."""
    saved: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **options: saved.append(figure))

    def draw(*runs: Path) -> Figure:
        draw_histories(tmp_path / "pictures" / "history.png", runs)
        return saved.pop()

    return draw


def panels(figure: Figure) -> dict[str, Any]:
    return {axes.get_title(): axes for axes in figure.axes}


def names_in(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_every_number_is_where_it_belongs(draw: Draw, tmp_path: Path) -> None:
    found = panels(draw(write_run(tmp_path / "one", *curve(3))))
    assert list(found) == ["loss", "BLEU (validation)", "learning rate (last step)"]
    train, val = found["loss"].get_lines()
    assert train.get_xydata().tolist() == [[1, 4.0], [2, 2.0], [3, 4.0 / 3]]
    assert val.get_xydata().tolist() == [[1, 2.0], [2, 1.0], [3, 4.0 / 3 / 2]]
    assert (train.get_linestyle(), val.get_linestyle()) == ("--", "-")
    assert [t.get_text() for t in found["loss"].get_legend().get_texts()] == [
        "training",
        "validation",
    ]
    (bleu,) = found["BLEU (validation)"].get_lines()
    assert bleu.get_xydata().tolist() == [[1, 1], [2, 2], [3, 3]]


def test_columns_that_only_one_run_has(draw: Draw, tmp_path: Path) -> None:
    """Runs of other tasks, or of a program that measured less or more."""
    couplet = write_run(
        tmp_path / "couplet",
        "1,5.0,100.0,0.25,7",
        head="epoch,train_loss,val_perplexity,padding_share,wind_speed",
    )
    figure = draw(write_run(tmp_path / "translation", *curve(2)), couplet)
    found = panels(figure)
    counts = {title: len(axes.get_lines()) for title, axes in found.items()}
    assert counts == {
        "loss": 3,
        "BLEU (validation)": 1,
        "perplexity (validation)": 1,
        "learning rate (last step)": 1,
        "padding (share of all positions)": 1,
        "wind speed": 1,
    }
    figure.canvas.draw()
    ticks = found["padding (share of all positions)"].get_yticklabels()
    assert all("%" in tick.get_text() for tick in ticks)


def test_runs_of_one_name_are_told_apart_by_their_paths(draw: Draw, tmp_path: Path) -> None:
    runs = [write_run(tmp_path / place / "run", *curve(2)) for place in ("a", "b")]
    assert names_in(draw(*runs)) == [*map(str, runs)]
    assert names_in(draw(runs[0], runs[1] / "history.csv")) == [
        str(runs[0]),
        str(runs[1] / "history.csv"),
    ]


def test_names_are_shown_as_they_are(draw: Draw, tmp_path: Path) -> None:
    """matplotlib leaves names with an underscore out of legends, and typesets dollars."""
    names = ["größe", "春联", "_hidden", "$x^2$", "a\\b", "%s {}"]
    figure = draw(*(write_run(tmp_path / name, *curve(2)) for name in names))
    assert names_in(figure) == names
    assert not any(text.get_parse_math() for text in figure.legends[0].get_texts())


def test_the_picture_is_in_the_current_folder(in_tmp: Path) -> None:
    assert lines_of("plot", "history", write_run(in_tmp / "run", *curve(1))) == ["history.png"]
    assert {path.name for path in in_tmp.iterdir()} == {"run", "history.png"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "history.csv: not a training curve: No columns to parse from file"),
        (f"{HEAD}\n".encode(), "history.csv: no epoch is finished"),
        (b"label,title\n1,2\n", "history.csv: not a training curve: there is no column epoch"),
        (b"epoch,train_loss\n1,2\n2,1,5\n", "Expected 2 fields in line 3, saw 3"),
        (b"epoch,train_loss\n1,two\n", "could not convert string to float: 'two'"),
        (b"epoch,train_loss\n,2\n", "history.csv: damaged: an epoch has no number"),
        (b'epoch,train_loss\n1,"2\n', "EOF inside string"),
        (b"epoch,train_loss\n1,2\n2,1e308\n", "history.csv: damaged: an epoch has no number, or"),
        (b"epoch,train_loss\n1,2\n2,\xff\n", "history.csv: not valid UTF-8 (byte 23)"),
    ],
)
def test_a_damaged_file_is_named(content: bytes, reason: str, in_tmp: Path) -> None:
    good = write_run(in_tmp / "good", *curve(2))
    write_run(in_tmp / "bad")
    (in_tmp / "bad" / "history.csv").write_bytes(content)
    message = error_of(1, "plot", "history", good, "bad")
    assert "bad/history.csv" in message and reason in message
    assert not Path("history.png").exists()


def test_an_old_picture_stays_where_no_new_one_can_be_made(in_tmp: Path) -> None:
    shutil.copytree(write_run(in_tmp / "run", *curve(2)), "copy")
    Path("history.png").write_bytes(b"old")
    Path("copy/history.csv").write_bytes(b"epoch\n")
    assert run("plot", "history", "run", "copy").exit_code == 1
    assert Path("history.png").read_bytes() == b"old"
