"""Training a couplet model."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from core.distributed.process_group import ALONE, ProcessGroup
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.files import is_file
from data.codec import TextCodec
from tasks.couplet.config import CoupletConfig
from tasks.couplet.dataset import TOKENIZER, LoadCoupletDataset
from tasks.couplet.evaluate import CoupletReport, evaluate
from tasks.couplet.model import CoupletModel
from tasks.couplet.predict import CoupletWriter
from tasks.runs import run
from tasks.runs.checkpoint_folder import CONFIG_FILE, describe
from tasks.runs.initial import TokenWeights
from tasks.runs.training import RunOptions
from tasks.seq2seq.training import PairTraining


def train(config: CoupletConfig, options: RunOptions) -> dict[str, Any]:
    """Trains a couplet model; see :func:`tasks.runs.run.train`."""
    return run.train(config, options, CoupletTraining)


class CoupletTraining(PairTraining):
    """The training of a couplet model."""

    task = CoupletWriter.task
    dataset_class = LoadCoupletDataset
    dataset: LoadCoupletDataset
    model_class: ClassVar[Callable[..., SequenceToSequence]] = CoupletModel

    def load_codecs(self, folder: Path) -> dict[str, Any]:
        return {"codec": TextCodec.load(folder, tokenizer=TOKENIZER)}

    def make_model(self) -> SequenceToSequence:
        return self.model_class(len(self.dataset.codec.vocabulary), self.config.model)

    def predictor(self, config: CoupletConfig) -> CoupletWriter:
        return CoupletWriter([self.model], self.dataset.codec, config, self.options.device)

    def validate(self, group: ProcessGroup = ALONE) -> dict[str, float]:
        metrics = super().validate(group)
        return metrics | {"val_perplexity": math.exp(metrics["val_loss"])}

    def evaluate(self, config: CoupletConfig) -> CoupletReport | None:
        if self.test_split is None:
            return None
        return evaluate(self.predictor(config), self.dataset, self.test_split)

    def new_weights(self) -> Sequence[str]:
        """Returns the names of the weights of the alignment, if the initial model has none."""
        initial = self.vocabulary
        if initial is None or not is_file(initial / CONFIG_FILE):
            return ()
        if describe(initial)["model"].get("aligned", False):
            return ()
        names = (name for name, _ in self.model.named_parameters())
        return [name for name in names if name.startswith("alignment.")]

    def token_weights(self, initial: Path) -> TokenWeights:
        codecs = TextCodec.load(initial, tokenizer=TOKENIZER), self.dataset.codec
        names = ("src_embedding.embedding.weight", "generator.bias")
        output = () if self.config.model.tie_output else ("generator.weight",)
        return dict.fromkeys((*names, *output), codecs)
