"""How deep the stack is between the command line and the model."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from core.inference.incremental_model import IncrementalModel

ROOT = Path(__file__).resolve().parents[2]
MOST_FRAMES = 10


class Reached(Exception):
    """Ends the command at the first step of the model."""


def own_frames(frame: FrameType | None) -> list[str]:
    """The functions of the product on the stack, the outermost first."""
    found = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT) and not {"tests", ".venv"} & set(path.parts):
            found.append(f"{path.relative_to(ROOT)}: {frame.f_code.co_qualname}")
        frame = frame.f_back
    return found[::-1]


@pytest.mark.parametrize("beam", ["1", "5"])
def test_a_text_reaches_the_model_through_few_functions(
    beam: str, tiny_models: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader who follows ``cli.py translate`` to the first step passes ten of them at most."""
    seen: list[list[str]] = []

    def step(self: IncrementalModel, *rest: Any) -> None:
        seen.append(own_frames(sys._getframe(1)))
        raise Reached

    model = str(tiny_models("translation"))
    monkeypatch.setattr(IncrementalModel, "step", step)
    monkeypatch.setattr(sys, "argv", ["cli.py", "translate", "--model", model, "--beam", beam, "a"])
    with pytest.raises(Reached):
        runpy.run_path(str(ROOT / "cli.py"), run_name="__main__")
    (frames,) = seen
    assert "<module>" in frames[0]
    assert len(frames) <= MOST_FRAMES, "\n".join(frames)
