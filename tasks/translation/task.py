"""What the rest of the program knows of translation."""

from tasks.task import Task
from tasks.translation.config import PRESETS


class TranslationTask(Task):
    """Translation between two languages."""

    name = "translation"
    corpus = "multi30k"
    presets = PRESETS
    dataset = "ParallelCorpus"
    predictor = "Translator"
    load_options = ("engine", "int8")
    table_options = ("src", "tgt", "delimiter", "header", "encoding")


TASK = TranslationTask()
