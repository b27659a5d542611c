"""The training of models of pairs: what translation and couplets share."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

from core.distributed.process_group import ALONE, ProcessGroup
from core.model.sequence_to_sequence import SequenceToSequence
from tasks.runs.training import RunOptions, Training
from tasks.seq2seq.batches import PairDataset
from tasks.seq2seq.objective import pair_loss
from tasks.seq2seq.predictor import PairPredictor


class PairTraining(Training):
    """The training of a model of pairs."""

    metric = "val_loss"
    model: SequenceToSequence
    dataset: PairDataset

    def __init__(self, config: Any, options: RunOptions, vocabulary: Path | None) -> None:
        super().__init__(config, options, vocabulary)
        self.val_pairs = self.dataset.encoded("val", max_len=config.model.max_len)
        self.loss = pair_loss(self.model, config.train.label_smoothing)

    @abstractmethod
    def predictor(self, config: Any) -> PairPredictor[Any, Any]:
        """Returns a predictor with the current weights, of which it takes a snapshot."""

    def validate(self, group: ProcessGroup = ALONE) -> dict[str, float]:
        measured = self.predictor(self.config).measure(self.val_pairs, group)
        return {"val_loss": measured["loss"], "val_accuracy": measured["accuracy"]}
