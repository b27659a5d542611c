"""Tiny models: random ones, trained ones, and what tests do with them."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from core.config import complete, to_mapping
from core.decoding.config import GenerationConfig
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import WEIGHTS_FILE, load_tensors, save_tensors
from data.codec import TextCodec
from data.tokenizers import Characters
from data.vocabulary import SPECIALS, Vocabulary
from tasks.classification.config import ClassificationConfig, ClassificationData, ClassifierConfig
from tasks.classification.model import ClassificationModel
from tasks.classification.predict import Classifier
from tasks.couplet.config import STRICT, CoupletConfig, CoupletTransformerConfig
from tasks.couplet.model import CoupletModel
from tasks.couplet.predict import CoupletWriter
from tasks.runs.checkpoint_folder import CONFIG_FILE
from tasks.runs.config import make_config
from tasks.runs.training import RunOptions
from tasks.task import task_named
from tasks.translation.config import TranslationConfig, TranslationData
from tasks.translation.model import TranslationModel, build_codecs
from tasks.translation.predict import Translator
from tests.core.small_models import sizes

CPU = torch.device("cpu")

SENTENCES = [
    "ein Hund rennt .",
    "der Hund sieht das Haus , und rennt .",
    "das Haus sieht er nicht .",
]
NEWS = ["shares fall", "the cup final", "a minister and an army at the border", "bank buys bank"]
CLASSES = ["World", "Спорт", "财经", "Sci/Tech", "Health & Life"]


def network(words: int = 20, *, max_len: int = 512) -> SequenceToSequence:
    """A model of one vocabulary of ``words``."""
    torch.manual_seed(1)
    model = SequenceToSequence(words, words, sizes(max_len=max_len), share_embeddings=True)
    spread(model)
    return model.eval()


def spread(model: torch.nn.Module) -> None:
    """Makes the outputs of a fresh model differ from input to input, as a trained one's do."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)


def untrained_translator(folder: Path, max_len: int = 512, **options: Any) -> Translator:
    options = {"tokenizer": "whitespace", "vocab_size": None, "min_freq": 1} | options
    config = TranslationConfig(model=sizes(max_len=max_len), data=TranslationData(**options))
    source, target = build_codecs(SENTENCES, SENTENCES, config.data, folder)
    torch.manual_seed(1)
    model = TranslationModel(
        len(source.vocabulary),
        len(target.vocabulary),
        config.model,
        share_embeddings=config.data.share_vocabulary,
    )
    spread(model)
    return Translator([model.eval()], source, target, config, CPU)


def untrained_classifier(folder: Path, *, max_len: int = 512, **options: Any) -> Classifier:
    data: dict[str, Any] = {"tokenizer": "whitespace", "vocab_size": None, "min_freq": 1}
    config = ClassificationConfig(
        model=ClassifierConfig(
            d_model=8, nhead=2, num_encoder_layers=1, dim_feedforward=16, max_len=max_len
        ),
        data=ClassificationData(**(data | options)),
    )
    codec = TextCodec.build(NEWS, folder, config.data)
    torch.manual_seed(1)
    model = ClassificationModel(len(codec.vocabulary), len(CLASSES), config.model)
    spread(model)
    return Classifier(model.eval(), codec, CLASSES, config, CPU)


def untrained_writer(words: str, *, max_len: int = 64, seed: int = 1) -> CoupletWriter:
    codec = TextCodec(Characters(), Vocabulary([*SPECIALS, *words]))
    model_config = complete(
        CoupletTransformerConfig, None, to_mapping(sizes(max_len=max_len)) | {"aligned": True}
    )
    greedy = GenerationConfig(beam_size=1)
    config = CoupletConfig(model=model_config, generation=greedy, form=STRICT)
    torch.manual_seed(seed)
    model = CoupletModel(len(codec.vocabulary), config.model)
    spread(model)
    return CoupletWriter([model.eval()], codec, config, CPU)


def write_two_way_model(model: Path, folder: Path) -> None:
    """Copies ``model`` to ``folder`` as one that was trained in both directions."""
    shutil.copytree(model, folder)
    config = json.loads((folder / CONFIG_FILE).read_text("utf-8"))
    config["data"]["exchanged"] = 0.5
    (folder / CONFIG_FILE).write_text(json.dumps(config), encoding="utf-8")


def tiny_config(task: str, *assignments: str, **options: Any) -> Any:
    """The preset ``tiny``, changed."""
    options = {"preset": "tiny"} | options
    return make_config(task_named(task), assignments=assignments, **options)


def train(
    task: str, data: Path, out: Path, *assignments: str, init: Path | None = None, **options: Any
) -> dict[str, Any]:
    """Trains with the preset ``tiny``; ``options`` are those of a run."""
    config = tiny_config(task, *assignments, init=init)
    if options.get("resume"):
        init = None
    return train_with(task, config, data, out, init=init, **options)


def train_with(task: str, config: Any, data: Path, out: Path, **options: Any) -> dict[str, Any]:
    return task_named(task).train(config, RunOptions(data=data, out=out, device=CPU, **options))


def measured(task: str, model: Any, data: Path, **options: Any) -> dict[str, Any]:
    """The report on a model, as JSON has it."""
    return task_named(task).evaluate(model, data, device="cpu", **options).record()


def without_digests(folder: Path) -> None:
    """Writes the weights in ``folder`` again, so that its other files are not checked."""
    path = folder / WEIGHTS_FILE
    save_tensors(path, load_tensors(path))
