"""Training a translation model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sacrebleu import BLEU

from core.decoding.config import GenerationConfig
from core.distributed.process_group import ALONE, ProcessGroup
from core.model.sequence_to_sequence import SequenceToSequence
from tasks.runs import run
from tasks.runs.initial import TokenWeights
from tasks.runs.training import Place, SearchChoice, Training
from tasks.seq2seq.objective import pair_loss
from tasks.seq2seq.request import GREEDY, GenerationRequest
from tasks.translation.calibration import MAX_LANGUAGE_PAIRS, calibrate
from tasks.translation.codecs import load_codecs
from tasks.translation.config import TranslationConfig
from tasks.translation.dataset import ParallelCorpus, spaced
from tasks.translation.evaluate import TranslationReport, evaluate, score
from tasks.translation.model import TranslationModel
from tasks.translation.predict import Translator

LENGTH_PENALTIES = (0.0, 0.5, 1.0, 1.5, 2.0)
MAX_SENTENCES = 1000
"""The most validation sentences that are translated with each candidate."""


def train(config: TranslationConfig, options: run.RunOptions) -> dict[str, Any]:
    """Trains a translator; see :func:`tasks.runs.run.train`."""
    return run.train(config, options, TranslationTraining, task=TranslationTraining.task)


class TranslationTraining(Training):
    """The training of a translator."""

    task = Translator.task
    metric = "val_bleu"
    model: SequenceToSequence

    def __init__(self, config: TranslationConfig, place: Place) -> None:
        super().__init__(config, place)
        source, target = (
            (None, None) if place.vocabulary is None else load_codecs(place.vocabulary, config.data)
        )
        self.dataset = ParallelCorpus(
            place.corpus,
            config.data,
            seed=config.train.seed,
            save_to=place.out,
            source=source,
            target=target,
        )
        self.model = TranslationModel(
            len(self.dataset.source.vocabulary),
            len(self.dataset.target.vocabulary),
            config.model,
            share_embeddings=config.data.share_vocabulary,
        ).to(place.device)
        self.test_split = self.dataset.pairs.test_split()
        if self.test_split is not None:
            self.dataset.read(self.test_split)  # an error in it is raised now, not at the end
        self.val_texts = self.dataset.read("val")
        self.val_pairs = self.dataset.encoded("val", max_len=config.model.max_len)
        self.data = self.dataset.training_data(
            batch_tokens=config.train.batch_tokens,
            seed=config.train.seed,
            max_len=config.model.max_len,
        )
        self.loss = pair_loss(self.model, config.train.label_smoothing)
        self.files = self.dataset.files("train", "val", *filter(None, [self.test_split]))
        self.chooses_search = config.train.choose_search

    def validate(self, group: ProcessGroup = ALONE) -> dict[str, float]:
        sources, targets = zip(*self.val_texts, strict=True)
        translator = self._translator()
        measured = translator.measure(self.val_pairs, group)
        found = translator.generate(group.shard(sources), GREEDY)
        translations = group.gather([each.text for each in found])
        return {
            "val_loss": measured["loss"],
            "val_accuracy": measured["accuracy"],
            "val_bleu": score(BLEU(), translations, targets)[0],
        }

    def choose_search(self) -> SearchChoice:
        return choose_search(self._translator(), *zip(*self.val_texts, strict=True))

    def calibrate(self, config: TranslationConfig) -> TranslationConfig:
        train = self.dataset.natural_pairs(MAX_LANGUAGE_PAIRS)
        calibrate(self._translator(config), train, self.val_texts, self.place.out)
        return config

    def evaluate(self, config: TranslationConfig) -> TranslationReport | None:
        if self.test_split is None:
            return None
        translator = self._translator(config)
        translator.load_calibration(self.place.out)
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

    def _translator(self, config: TranslationConfig | None = None) -> Translator:
        """Returns a translator with the current weights, of which it takes a snapshot."""
        codecs = self.dataset.source, self.dataset.target
        return Translator([self.model], *codecs, config or self.config, self.place.device)


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
