"""The bodies of requests and answers. The options have the names of the command line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.decoding.config import MAX_BEAM_SIZE, MAX_N_BEST
from tasks.couplet.config import ToneRules
from tasks.couplet.script import Script
from tasks.couplet.tones import System

# The limits of the command line.
_MAX_LENGTH = 100_000
_MAX_RATIO = 1000

Ratio = Annotated[float, Field(ge=0, le=_MAX_RATIO, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=_MAX_LENGTH)]


class Body(BaseModel):
    """A body without unknown fields, whose values have the right types already."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def options(self, *others: str) -> dict[str, Any]:
        """Returns the options that are given, without the fields ``others``."""
        return self.model_dump(exclude_none=True, exclude=set(others))


class SearchBody(Body):
    """Texts, and how to search for the outputs. Options that are null are the model's own."""

    texts: list[str] = Field(description="The texts, answered in this order.")
    n_best: Annotated[int, Field(ge=1, le=MAX_N_BEST)] | None = Field(
        None, description="The number of outputs for each text, in `hypotheses`."
    )
    beam: Annotated[int, Field(ge=1, le=MAX_BEAM_SIZE)] | None = Field(
        None, description="The width of the beam; 1 is greedy search."
    )
    length_penalty: Annotated[float, Field(ge=0, le=10)] | None = Field(
        None, description="How strongly long outputs are favored; 0 favors short ones."
    )
    diverse: Ratio | None = Field(
        None, description="Makes the outputs in the beam different; 0.2 to 0.8 is usual."
    )
    sample: bool | None = Field(None, description="Draws outputs at random.")
    temperature: Annotated[float, Field(gt=0, le=_MAX_RATIO)] | None = Field(
        None, description="With `sample`: below 1, likely tokens become likelier."
    )
    top_k: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(
        None, description="With `sample`: draws from the K likeliest tokens; 0 means all."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="With `sample`: draws from the likeliest tokens of total probability P."
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = Field(
        None, description="With `sample`: the random seed; else 0."
    )
    prefix: Annotated[str, Field(max_length=1000)] | None = Field(
        None, description="The beginning of every output."
    )


class TranslateBody(SearchBody):
    """Texts to translate."""

    max_length: Annotated[int, Field(ge=1, le=_MAX_LENGTH)] | None = Field(
        None, description="The most tokens of an output."
    )
    max_length_ratio: Ratio | None = Field(
        None, description="An output has at most this many times the tokens of its source,"
    )
    max_length_extra: Count | None = Field(None, description="plus this many.")
    min_length_ratio: Ratio | None = Field(
        None, description="An output has at least this many times the tokens of its source."
    )
    no_repeat_ngram: Count | None = Field(
        None, description="No sequence of N tokens is repeated in an output; 0 allows all."
    )
    pass_through: bool | None = Field(
        None, description="Whether text that is in the target language already stays as it is."
    )
    sentences: bool = Field(
        False, description="Answers each sentence of a text by itself, with its alternatives."
    )


class CoupletBody(SearchBody):
    """First lines of couplets."""

    candidates: Annotated[int, Field(ge=1, le=MAX_N_BEST)] | None = Field(
        None,
        description="This many answers that differ clearly, ranked by more than their probability.",
    )
    keep: Annotated[str, Field(max_length=1000)] | None = Field(
        None, description="Characters of the answers, with ？ for free ones: 春？？？？."
    )
    backward: bool = Field(
        False, description="The texts are second lines, answered with first lines."
    )
    tones: ToneRules | None = Field(None, description="Which tones oppose those of the first line.")
    rhyme: System | None = Field(None, description="Where tones and rhymes are looked up.")
    script: Script | None = Field(
        None, description="The characters of the answers; `auto`: those of the first line."
    )


class ClassifyBody(Body):
    """Texts to classify."""

    texts: list[str] = Field(description="The texts, answered in this order.")
    top: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Shows the probabilities of this many classes; else of all."
    )
    explain: bool = Field(
        False, description="Adds what each word contributes to the log-odds of the class."
    )


class ScoreBody(Body):
    """Pairs whose probability is asked for."""

    task: Literal["translation", "couplet"] = Field(description="The model that scores.")
    sources: list[str] = Field(description="The sources, or first lines.")
    targets: list[str] = Field(description="A target, or second line, for each source.")


class AttentionBody(Body):
    """A source and its output, whose attention is asked for."""

    task: Literal["translation", "couplet"] = Field(description="The model that attends.")
    source: str = Field(description="One sentence, or one first line.")
    target: str = Field(description="Its translation, or the second line.")
    layer: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="The layer of the decoder, from 1; else the last."
    )


class Answer(BaseModel):
    """An answer. More fields may come."""

    model_config = ConfigDict(extra="allow")


class Results(Answer):
    """One result for each text or pair, in their order."""

    results: list[dict[str, Any]]


class Error(BaseModel):
    """What is wrong with a request."""

    error: str
    field: str | None = Field(None, description="The field of the request that is wrong.")
