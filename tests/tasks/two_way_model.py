"""A couplet model with a model of first lines beside it."""

import json
import shutil
from pathlib import Path

from tasks.couplet.predict import BACKWARD_FOLDER
from tasks.runs.checkpoint_folder import CONFIG_FILE, seal


def write_two_way_model(model: Path, folder: Path) -> None:
    """Copies ``model`` to ``folder``, and once more as its own model of first lines."""
    backward = folder / BACKWARD_FOLDER
    shutil.copytree(model, folder)
    shutil.copytree(model, backward)
    config = json.loads((backward / CONFIG_FILE).read_text("utf-8"))
    config["data"]["swapped"] = True
    (backward / CONFIG_FILE).write_text(json.dumps(config), encoding="utf-8")
    seal(backward)
