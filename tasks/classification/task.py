"""What the rest of the program knows of classification."""

from tasks.classification.config import PRESETS
from tasks.task import Task


class ClassificationTask(Task):
    """The class of a text, such as the topic of news."""

    name = "classification"
    corpus = "ag_news"
    presets = PRESETS
    dataset = "LoadSentenceClassificationDataset"
    predictor = "Classifier"
    table_options = ("text", "label", "delimiter", "header", "encoding")
    has_search = False


TASK = ClassificationTask()
