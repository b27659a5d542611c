"""What the rest of the program knows of classification."""

from tasks.classification.config import PRESETS
from tasks.task import Task


class ClassificationTask(Task):
    """The class of a text, such as the topic of news."""

    name = "classification"
    corpus = "ag_news"
    presets = PRESETS
    predictor = "Classifier"
    has_tables = True
    has_search = False


TASK = ClassificationTask()
