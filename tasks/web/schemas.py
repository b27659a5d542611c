"""The bodies of requests and answers. The options have the names of the command line."""

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from core.config import options_of
from tasks.couplet.request import CoupletRequest
from tasks.seq2seq.request import plain_type
from tasks.web.errors import public_name

_MAX_OPTION = 1000  # characters of a text among the options


class Body(BaseModel):
    """A body without unknown fields, whose values have the right types already."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Texts(Body):
    """Texts, and how to search for the outputs. Options that are null are the model's own."""

    texts: list[str] = Field(description="The texts, answered in this order.")

    def options(self) -> dict[str, Any]:
        """Returns the options of the search that are given."""
        others = {"texts", "sentences", "banner"}
        return self.model_dump(exclude_none=True, exclude=others)


def _texts_with(*groups: str) -> Any:
    """Returns the model of texts with the options of a search that are in ``groups``."""
    made: dict[str, Any] = {}
    table = options_of(CoupletRequest)
    for item in fields(CoupletRequest):
        if item.name in table and (own := table[item.name]).group in groups:
            kind = plain_type(item.type)
            if kind is str:
                kind = Annotated[str, Field(max_length=_MAX_OPTION)]
            elif own.most is not None:
                above = own.above if own.least is None else None
                kind = Annotated[kind, Field(ge=own.least, gt=above, le=own.most)]
            made[public_name(item.name)] = (kind | None, Field(None, description=own.help))
    return create_model("_TextsWithOptions", __base__=Texts, **made)


class TranslateBody(_texts_with("search", "output", "length", "translation")):  # type: ignore[misc]
    """Texts to translate."""

    glossary: dict[str, str] | None = Field(
        None, description="Terms and what stands for them in the translation."
    )
    sentences: bool = Field(
        False, description="Answers each sentence of a text by itself, with its alternatives."
    )


class CoupletBody(_texts_with("search", "output", "couplet")):  # type: ignore[misc]
    """First lines of couplets."""

    banner: bool = Field(False, description="Adds a banner (横批) to each answer, or null.")


class ClassifyBody(Body):
    """Texts to classify."""

    texts: list[str] = Field(description="The texts, answered in this order.")
    top: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Shows the probabilities of this many classes; else of all."
    )
    explain: bool = Field(False, description="Says what each word adds to the class's log-odds.")


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


class TraceBody(Body):
    """A text whose prediction is shown step by step."""

    task: Literal["translation", "classification", "couplet"] = Field(description="The model.")
    text: str = Field(description="One sentence, or one first line, of at most 60 tokens.")
    beam: Annotated[int, Field(ge=1, le=256)] | None = Field(None, description="As in a search.")
    prefix: str | None = Field(None, max_length=_MAX_OPTION, description="As in a search.")


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
