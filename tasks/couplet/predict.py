"""Answering the first lines of couplets with a trained model."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, overload
from zlib import crc32

import torch

from core.config import check_range
from core.decoding.config import GenerationConfig
from core.decoding.recording import SearchTree
from core.decoding.search import Constraint
from core.errors import ConfigError, TextError, shown
from core.model.sequence_to_sequence import SequenceToSequence
from core.storage.checkpoint import WEIGHTS_FILE, load_model
from data.codec import TextCodec
from data.vocabulary import SPECIALS, Vocabulary
from tasks.couplet.answer import Couplet
from tasks.couplet.config import MAX_POOL, CoupletConfig, FormConfig
from tasks.couplet.constraint import CharacterTable, CoupletConstraint, given_characters
from tasks.couplet.dataset import TOKENIZER
from tasks.couplet.model import CoupletModel
from tasks.couplet.request import CoupletRequest
from tasks.couplet.reranking import features_of, rank
from tasks.couplet.rules import broken, find_avoided, refused_words, split_line
from tasks.couplet.script import CAPITALS, DIGITS, is_traditional, simplified, traditional
from tasks.couplet.tones import is_chinese, is_punctuation
from tasks.inside import Place, Trace
from tasks.runs.checkpoint_folder import read_config
from tasks.seq2seq.generation import EncodedTexts, SearchResult
from tasks.seq2seq.n_best import Output, joined
from tasks.seq2seq.predictor import PairPredictor
from tasks.seq2seq.request import DEFAULT_REQUEST, GenerationRequest
from tasks.texts import as_texts, keeps_index

# The form of a couplet decides how long an answer is and what repeats in it.
_FORM_OPTIONS = {
    "max_length",
    "max_length_ratio",
    "max_length_extra",
    "min_length_ratio",
    "no_repeat_ngram",
}

# Each part of a long line keeps them by itself.
_RULES_OF_A_WHOLE = {"characters", "repetition", "palindrome"}

NO_GOOD_ANSWER = "no good answer found; this is the best try"

# Tables of characters for as many forms are kept; a service may be asked for any.
_MOST_TABLES = 16


class CoupletWriter(PairPredictor[Couplet, EncodedTexts]):
    """A trained couplet model: ``CoupletWriter.load().answer("晚风摇树树还挺")``.

    White space is dropped. A line that is too long for the model is answered in segments, each of
    which keeps the rules by itself. The alternatives combine those to the segments
    (:mod:`tasks.seq2seq.n_best`). Scores are those of the model alone: :meth:`score` does not ask
    whether a pair keeps the rules.

    A model that was trained in both directions (``data.exchanged``) answers second lines with first
    ones as well: ``CoupletWriter.load().answer("一枝紫燕染红梅", backward=True)``.

    Args:
        models: the model, or the models of an ensemble, in evaluation mode.
    """

    task = "couplet"
    trial = "春风"
    request_type = CoupletRequest

    def __init__(
        self,
        models: Sequence[SequenceToSequence],
        codec: TextCodec,
        config: CoupletConfig,
        device: torch.device,
    ) -> None:
        super().__init__(models, codec, codec, config.generation, device)
        self.codec = codec
        self.config = config
        self._table = lru_cache(_MOST_TABLES)(partial(CharacterTable, codec.vocabulary, device))

    @property
    def codecs(self) -> dict[str, Any]:
        return {"codec": self.codec}

    @overload
    def answer(self, lines: str, *, candidates: None = ..., **options: Any) -> str: ...

    @overload
    def answer(
        self, lines: Iterable[str], *, candidates: int | None = ..., **options: Any
    ) -> list[Any]: ...

    @keeps_index
    def answer(
        self, lines: str | Iterable[str], *, candidates: int | None = None, **options: Any
    ) -> str | list[Any]:
        """Returns the second line for each first line, in order; an empty line stays empty.

        A single string is one line and gives one string. With ``candidates`` or ``n_best`` there is
        a list of strings, the best first, in the place of each string. ``options`` are those of
        :class:`CoupletRequest`: ``beam_size=1`` for greedy search, ``sample=True``,
        ``prefix="秋"``, ``keep="春？？？？"``, ``tones="strict"``... The form decides the
        lengths and what repeats: their options are refused.

        Raises:
            ConfigError: an unknown option, an option out of range, options that contradict each
                other, a prefix that no couplet can have, a constraint that leaves no character.
            TypeError: anything but a string or an iterable of strings.
            TextError: a line without any Chinese character, or not valid Unicode.
        """
        found = self.predict(lines, candidates=candidates, **options)
        answers: list[Any] = [couplet.second for couplet in found]
        if candidates is not None or options.get("n_best") is not None:
            answers = [[each.second for each in couplet.hypotheses] for couplet in found]
        return answers[0] if isinstance(lines, str) else answers

    answer_scored = PairPredictor[Couplet, EncodedTexts].scored
    """As :meth:`answer`, with scores, kept rules and, with ``n_best``, alternatives."""

    @classmethod
    def _load_one(cls, path: Path, device: torch.device) -> "CoupletWriter":
        config = read_config(path, cls.task, CoupletConfig)
        codec = TextCodec.load(path, tokenizer=TOKENIZER)
        size = len(codec.vocabulary)
        model = load_model(path / WEIGHTS_FILE, lambda: CoupletModel(size, config.model))
        return cls([model.to(device).eval().requires_grad_(False)], codec, config, device)

    @classmethod
    def _join(cls, members: "Sequence[CoupletWriter]") -> "CoupletWriter":
        first = members[0]
        models = [model for member in members for model in member.models]
        exchanged = min(member.config.data.exchanged for member in members)
        config = replace(first.config, data=replace(first.config.data, exchanged=exchanged))
        return cls(models, first.codec, config, first.device)

    def _compatibility(self) -> Mapping[str, str | Vocabulary]:
        return {"vocabulary": self.codec.vocabulary}

    def check(self, request: GenerationRequest) -> GenerationConfig:
        request = CoupletRequest.extended(request)
        self._candidate_count(request)
        config = super().check(request)
        if request.backward and not self.config.data.exchanged:
            reason = "needs a model that was trained in both directions (data.exchanged)"
            raise ConfigError(reason, option="backward")
        if request.pass_through:
            raise ConfigError("is an option for translations alone", option="pass_through")
        for name in sorted(_FORM_OPTIONS & request.search_options().keys()):
            reason = "must be left out: the form of a couplet decides its length and what repeats"
            raise ConfigError(reason, option=f"generation.{name}")
        given_characters(request, [], self._table_for(request), self.as_read)
        return config

    def rows(self, request: GenerationRequest) -> int:
        count = self._candidate_count(CoupletRequest.extended(request))
        return super().rows(request) if count is None else max(self.config.rerank.pool, count)

    def generate(
        self, texts: str | Iterable[str], request: GenerationRequest = DEFAULT_REQUEST
    ) -> list[Couplet]:
        """Returns the answer to each of ``texts``; see :meth:`PairPredictor.generate`.

        Where ``request.candidates`` are asked for, or the configuration ranks candidates by default
        and no other search is asked for, they are drawn at random and ranked
        (:mod:`tasks.couplet.reranking`); ``n_best`` alone asks for no other search, but for as many
        candidates. A line has the same candidates wherever it stands.
        """
        request, texts = CoupletRequest.extended(request), as_texts(texts)
        lines = [*map(self._accepted, texts)]
        count = self._candidate_count(request)
        if count is None:
            found = super().generate(lines, request)
        else:
            found = self._candidates(lines, request, count)
        form, answers = request.form(self.config.form), []
        for text, line, answer in zip(texts, lines, found, strict=True):
            judged = [self._judged(line, couplet, form) for couplet in answer.hypotheses]
            script = request.script
            if script == "traditional" or (script == "auto" and is_traditional(text)):
                judged = [replace(one, second=traditional(one.second)) for one in judged]
            answers.append(joined(judged))
        return answers

    def _candidate_count(self, request: CoupletRequest) -> int | None:
        """Returns how many ranked candidates are asked for; None asks for an ordinary search."""
        count, searched = request.candidates, sorted(request.search_options())
        if count is not None:
            for name in searched:
                raise ConfigError("is not for candidates, which have their own search", option=name)
            check_range("candidates", count, 1, MAX_POOL)
            return count
        if not self.config.rerank.is_default:
            return None
        count = request.n_best if searched == ["n_best"] else 1 if not searched else None
        return count if count in range(1, MAX_POOL + 1) else None

    def _candidates(
        self, lines: Sequence[str], request: CoupletRequest, count: int
    ) -> list[Couplet]:
        """Returns the best ``count`` of many answers to each line: random ones and a beam's."""
        rerank = self.config.rerank
        own = None if request.constraint else [crc32(line.encode()) for line in lines]
        request = request.replaced(candidates=None)
        drawing = request.replaced(
            sample=True,
            n_best=max(rerank.pool, count),
            temperature=rerank.temperature,
            numbers=own or request.numbers,
        )
        searching = request.replaced(
            beam_size=rerank.beam,
            n_best=rerank.beam,
            length_penalty=0.0,  # as drawn answers are scored
            record=request.record and SearchTree(),
        )
        drawn, searched = super().generate(lines, drawing), super().generate(lines, searching)
        results = zip(drawn, searched, strict=True)
        both = [joined([*one.hypotheses, *other.hypotheses]) for one, other in results]
        poor = None if request.backward else self.config.rerank.poor  # measured on second lines
        ranked = [self._ranked(*pair, count, poor) for pair in zip(lines, both, strict=True)]
        if (record := request.record) is not None:
            found = drawn[0]
            if ranked[0].second in {each.second for each in searched[0].hypotheses}:
                found = searched[0]
                vars(record).update(vars(searching.record))
            seconds = [couplet.second for couplet in found.hypotheses]
            everyone = self._ranked(lines[0], found, len(seconds)).hypotheses
            scores = {each.second: each.score for each in everyone}
            pairs = zip(record.hypotheses, seconds, strict=True)
            chosen = seconds.index(ranked[0].second)
            record.end([replace(each, score=scores[second]) for each, second in pairs], chosen)
        return ranked

    def _ranked(self, line: str, found: Couplet, count: int, poor: float | None = None) -> Couplet:
        """Returns the best ``count`` of the candidates ``found``, with their scores.

        A note says so if the best score is below ``poor``.
        """
        first = "".join(line.split())
        different = [*{couplet.second: couplet for couplet in found.hypotheses}.values()]
        if not 0 < len(first) < self.max_len:  # in segments, which cannot be scored together
            return joined(sorted(different, key=lambda couplet: -couplet.score)[:count])
        seconds = [couplet.second for couplet in different]
        ranked = rank(features_of(first, seconds, self), seconds, self.config.rerank, count)
        best = joined([replace(different[i], score=score) for i, score in ranked])
        is_poor = poor is not None and best.score < poor
        return replace(best, note=NO_GOOD_ANSWER) if is_poor else best

    def _judged(self, line: str, couplet: Couplet, form: FormConfig) -> Couplet:
        """Returns ``couplet`` by itself with the rules that it breaks."""
        given, notes = _characters(line), [couplet.note] if couplet.note else []
        known = self.codec.vocabulary
        unknown = [c for c in dict.fromkeys(given) if not is_punctuation(c) and c not in known]
        if unknown:
            notes.append(f"the model does not know {' '.join(unknown)}: its answer is a guess")
        rules = broken(given, couplet.second, form.rhyme)
        asked = {"off": (), "ending": ("ending",), "strict": ("ending", "tones")}[form.tones]
        if alike := [rules[rule] for rule in asked if rule in rules]:
            notes.append(f"no answer has all tones opposed; alike: {' '.join(alike)}")
        if len(given) >= self.max_len and (lost := _RULES_OF_A_WHOLE & rules.keys()):
            notes.append(
                f"a line of more than {self.max_len - 1} characters is answered in parts; the "
                f"whole breaks the rule of {', '.join(sorted(lost))}"
            )
        return replace(couplet, broken=rules, note="; ".join(notes), others=())

    def trace(self, text: str, **options: Any) -> Trace:
        trace, request = super().trace(text, **options), CoupletRequest.of(**options)
        (tree,), line, places = trace.searches, _characters(self.as_read(trace.text)), []
        table, best = self._table_for(request), tree.hypotheses[tree.chosen].tokens
        given = given_characters(request, [[line]], table, self.as_read)
        constraint = CoupletConstraint([line], table, given)
        for length in range(len(line)):
            reasons = constraint.reasons(torch.tensor(best[:length], device=self.device).long())
            following = node.following if (node := tree.node(best[:length])) else ()
            forbidden = {n.token: reasons[n.token] for n in following if not n.allowed}
            places.append(Place(Counter(reasons[len(SPECIALS) :]), forbidden))
        return replace(trace, places=places)

    def as_read(self, text: str) -> str:
        """Returns ``text`` in simplified characters, with numerals for digits, and capitals.

        What the model knows by itself stays, except in a text in traditional characters.
        """
        read = simplified(text)
        if read != text and not is_traditional(text):
            known = self.codec.vocabulary
            read = "".join(c if c in known else r for c, r in zip(text, read, strict=True))
        return read.translate(self._read_as)

    @cached_property
    def _read_as(self) -> dict[int, str]:
        known, others = self.codec.vocabulary.stoi, DIGITS | CAPITALS
        return {ord(c): other for c, other in others.items() if c not in known and other in known}

    def properties(self) -> dict[str, Any]:
        return super().properties() | {"backward": self.config.data.exchanged > 0}

    def refusal(self, text: str) -> str | None:
        if text.strip() and not any(map(is_chinese, text)):
            return f"{shown(text)} has no Chinese character: it cannot begin a couplet"
        if word := find_avoided(_characters(simplified(text)), refused_words()):
            return f"{shown(text)} has the word {word!r}, which no couplet is written for"
        return None

    def _accepted(self, text: str) -> str:
        """Returns ``text`` as read. Raises a TextError if it is refused."""
        if reason := self.refusal(text):
            raise TextError(reason)
        return self.as_read(text)

    def _encode(self, texts: Sequence[str], request: GenerationRequest) -> EncodedTexts:
        texts = [*map(self._accepted, texts)]
        request = CoupletRequest.extended(request)
        table = self._table_for(request)
        lines = [split_line(_characters(text), self.max_len - 1) for text in texts]
        segments = [*chain.from_iterable(lines)]
        given = given_characters(request, lines, table, self.as_read)

        def form(indices: Sequence[int]) -> Constraint:
            chosen = [segments[i] for i in indices]
            return CoupletConstraint(chosen, table, [given[i] for i in indices])

        encode = self.codec.vocabulary.encode
        return EncodedTexts(
            segments=[[encode(segment) for segment in line] for line in lines],
            max_lengths=[len(segment) for segment in segments],
            # The prefix is forced by the form, which knows that a mark may stand for another.
            form=form,
        )

    def _table_for(self, request: CoupletRequest) -> CharacterTable:
        avoided = frozenset(map(self.as_read, request.avoid))
        return self._table(request.form(self.config.form), avoided, backward=request.backward)

    def _results(self, texts: Sequence[str], found: SearchResult[EncodedTexts]) -> list[Couplet]:
        return [
            joined([self._couplet(_characters(text), output) for output in outputs])
            for text, outputs in zip(texts, found.outputs, strict=True)
        ]

    def _couplet(self, first: Sequence[str], output: Output) -> Couplet:
        ids = output.tokens
        if len(ids) < len(first):
            reason = f"leaves no character for the answer to {''.join(first)!r}"
            raise ConfigError(reason, option="constraint")
        second = [self.codec.vocabulary.itos[index] for index in ids]
        second = [f if is_punctuation(f) else s for f, s in zip(first, second, strict=True)]
        return Couplet("".join(second), output.score)


def _characters(text: str) -> list[str]:
    return [character for character in text if not character.isspace()]
