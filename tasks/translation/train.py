"""Training a translation model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu import BLEU

from core.decoding.config import GenerationConfig
from core.distributed.process_group import ALONE, ProcessGroup
from tasks.runs import run
from tasks.runs.initial import TokenWeights
from tasks.runs.training import RunOptions, SearchChoice
from tasks.seq2seq.request import GREEDY, GenerationRequest
from tasks.seq2seq.training import PairTraining
from tasks.translation.calibration import MAX_LANGUAGE_PAIRS, calibrate
from tasks.translation.config import TranslationConfig
from tasks.translation.dataset import ParallelCorpus, spaced
from tasks.translation.evaluate import TranslationReport, evaluate, score
from tasks.translation.model import TranslationModel, load_codecs, model_for
from tasks.translation.predict import Translator

LENGTH_PENALTIES = (0.0, 0.5, 1.0, 1.5, 2.0)
MAX_SENTENCES = 1000
"""The most validation sentences that are translated with each candidate."""


def train(config: TranslationConfig, options: RunOptions) -> dict[str, Any]:
    """Trains a translator; see :func:`tasks.runs.run.train`."""
    return run.train(config, options, TranslationTraining)


class TranslationTraining(PairTraining):
    """The training of a translator."""

    task = Translator.task
    dataset_class = ParallelCorpus
    metric = "val_bleu"
    dataset: ParallelCorpus

    def __init__(
        self, config: TranslationConfig, options: RunOptions, vocabulary: Path | None
    ) -> None:
        super().__init__(config, options, vocabulary)
        self.val_texts = self.dataset.read("val")
        self.chooses_search = config.train.choose_search

    def load_codecs(self, folder: Path) -> dict[str, Any]:
        return dict(zip(("source", "target"), load_codecs(folder, self.config.data), strict=True))

    def make_model(self) -> TranslationModel:
        return model_for(self.dataset.source, self.dataset.target, self.config)

    def predictor(self, config: TranslationConfig) -> Translator:
        codecs = self.dataset.source, self.dataset.target
        return Translator([self.model], *codecs, config, self.options.device)

    def validate(self, group: ProcessGroup = ALONE) -> dict[str, float]:
        sources, targets = zip(*self.val_texts, strict=True)
        metrics = super().validate(group)
        found = self.predictor(self.config).generate(group.shard(sources), GREEDY)
        translations = group.gather([each.text for each in found])
        return metrics | {"val_bleu": score(BLEU(), translations, targets)[0]}

    def choose_search(self) -> SearchChoice:
        return choose_search(self.predictor(self.config), *zip(*self.val_texts, strict=True))

    def calibrate(self, config: TranslationConfig) -> TranslationConfig:
        train = self.dataset.natural_pairs(MAX_LANGUAGE_PAIRS)
        calibrate(self.predictor(config), train, self.val_texts, self.options.out)
        return config

    def evaluate(self, config: TranslationConfig) -> TranslationReport | None:
        if self.test_split is None:
            return None
        translator = self.predictor(config)
        translator.load_calibration(self.options.out)
        return evaluate(translator, self.dataset, self.test_split)

    def token_weights(self, initial: Path) -> TokenWeights:
        source, target = load_codecs(initial, self.config.data)
        targets = target, self.dataset.target
        return {
            "src_embedding.embedding.weight": (source, self.dataset.source),
            "tgt_embedding.embedding.weight": targets,
            "generator.weight": targets,
            "generator.bias": targets,
        }


def choose_search(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> SearchChoice:
    """Returns the search with the highest BLEU on at most :data:`MAX_SENTENCES` of the pairs.

    The candidates are greedy search and, if the configuration has a beam, a beam of that size with
    its own length penalty and :data:`LENGTH_PENALTIES`: the best one depends on the languages, the
    corpus and the model, and can cost another model three points.
    """
    sources, references = (spaced(texts, MAX_SENTENCES) for texts in (sources, references))

    def measure(request: GenerationRequest) -> tuple[GenerationConfig, float]:
        translations = [found.text for found in translator.generate(sources, request)]
        return request.resolve(translator.generation), score(BLEU(), translations, references)[0]

    configured = translator.generation
    greedy = measure(GREEDY.replaced(length_penalty=0.0))
    candidates = [greedy]
    if configured.beam_size > 1 and not configured.sample:
        penalties = dict.fromkeys((configured.length_penalty, *LENGTH_PENALTIES))
        candidates += [measure(GenerationRequest(length_penalty=value)) for value in penalties]
    generation, value = max(candidates, key=lambda candidate: candidate[1])
    return SearchChoice(generation, value, greedy[1])
