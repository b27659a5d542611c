"""What the rest of the program knows of couplet."""

from tasks.couplet.config import PRESETS
from tasks.task import Task


class CoupletTask(Task):
    """The second line of a Chinese couplet."""

    name = "couplet"
    corpus = "couplet"
    presets = PRESETS
    dataset = "LoadCoupletDataset"
    predictor = "CoupletWriter"


TASK = CoupletTask()
