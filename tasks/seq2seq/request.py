"""What a user asks of a search: one typed object from the command line to the search itself."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import TYPE_CHECKING, Any, Self, get_args

from core.config import check_range, converted, nearest, option, options_of
from core.decoding.config import GenerationConfig
from core.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from core.decoding.recording import SearchTree
    from core.decoding.search import Constraint

MAX_TEXTS = 1 << 32
"""The number of a text is below this one."""

OnBatch = Callable[[int], None]
"""A callback that gets the number of segments (or texts, or pairs) that have just been finished."""


def ignore_batch(count: int) -> None:
    """The :data:`OnBatch` of callers who need no progress reports."""


def batch_tokens_on(device: "torch.device", size: int | None = None, engine: str = "torch") -> int:
    """Returns how many tokens of a side a batch may have: ``size``, if that is given.

    On a CPU 3,000: enough rows to keep matrix products busy, few enough to stay in its cache; 1,500
    with CTranslate2, whose last worker works alone on the last batch. On a GPU 24,000: with fewer,
    it waits for the launch of its kernels.
    """
    if size is not None:
        return size
    if device.type != "cpu":
        return 24_000
    return 3_000 if engine == "torch" else 1_500


OnStep = Callable[[], None]
"""A callback before every step of a search. An exception that it raises ends the search."""


_SearchOptions: Any = make_dataclass(
    "_SearchOptions",
    [
        (item.name, item.type | None, field(default=None, metadata=item.metadata))  # type: ignore[operator]
        for item in fields(GenerationConfig)
    ],
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True, kw_only=True)
class GenerationRequest(_SearchOptions):  # type: ignore[misc]
    """The options of one search. Those that are None are left to the model's own configuration.

    It has all fields of :class:`GenerationConfig`, which replace those of the model's. The others
    belong to the request:

    * ``prefix``: what the output of every text begins with, as text.
    * ``constraint``: the user's own rule. It maps the tokens so far ``[t, R]``, without ``<bos>``,
      and the text number of each row ``[R]`` to a boolean ``[R, V]``, True where the next token is
      forbidden. Each segment of a text begins anew at t = 0.
    * ``numbers``: of the texts, for ``constraint`` and for sampling: texts of equal number, seed
      and content draw the same output. Without it they are counted from 0.
    * ``candidates``: see :mod:`tasks.couplet.reranking`.
    * ``pass_through``: lines that are in the target language already stay as they are. Without it
      they do if the model can tell (:mod:`tasks.translation.language`), and there is neither a
      prefix nor a constraint.
    * ``confidence``: translations have a confidence and a familiarity; the default, but not for
      CTranslate2, which needs more time for it.
    * ``glossary``: terms and what stands for them in the translation, such as names of products.
    * ``placeholders``: False: the model reads addresses, emoji and the like itself
      (:mod:`tasks.translation.placeholders`), as with a prefix or a constraint.
    * ``is_scored``: False: nobody reads the scores. Greedy search by CTranslate2 is faster without,
      and they are NaN.
    * ``batch_tokens``: the most source tokens in a batch; None: as the engine and its device need.
    * ``on_batch``: gets the number of segments, or of texts, that have just been finished.
    * ``on_step``: is called before every step, in any thread. An exception ends the search.
    * ``record``: records the search for one text of one segment.
    """

    prefix: str | None = option(None, "The beginning of every output.", "output", metavar="TEXT")
    constraint: "Constraint | None" = field(default=None, repr=False)
    numbers: Sequence[int] | None = field(default=None, repr=False)
    candidates: int | None = option(
        None,
        "The best N of many answers, which differ clearly, each with its rules.",
        *("couplet", 1, 200),
        metavar="N",
    )
    pass_through: bool | None = option(
        None,
        "Keep text that is in the target language already; the default if the model can tell.",
        "translation",
    )
    confidence: bool | None = option(
        None,
        "Confidence and familiarity with --json; the default, except for ctranslate2.",
        "translation",
    )
    glossary: Mapping[str, str] | None = field(default=None, repr=False)
    placeholders: bool | None = None
    is_scored: bool = True
    batch_tokens: int | None = None
    on_batch: OnBatch = field(default=ignore_batch, repr=False)
    on_step: OnStep | None = field(default=None, repr=False)
    record: "SearchTree | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Checks the types of options; a number of NumPy becomes one of Python.

        Raises:
            ConfigError: an option of a wrong type, or numbers of texts out of range.
        """
        for item in fields(self):
            value = getattr(self, item.name)
            kind = None if value is None else plain_type(item.type)
            is_nan = isinstance(value, float) and math.isnan(value)  # refused with its range
            if kind in (int, float, bool) and not is_nan:
                # The dataclass is frozen.
                object.__setattr__(self, item.name, converted(item.name, value, kind))
        for place, number in enumerate(() if self.numbers is None else self.numbers):
            name = f"numbers[{place}]"
            check_range(name, converted(name, number, int), 0, MAX_TEXTS - 1)

    @classmethod
    def of(cls, **options: Any) -> Self:
        """Returns the request that keywords describe; a value of None is as good as no keyword.

        Keywords may be short names (``beam``, ``diverse``). Raises a ConfigError for unknown ones.
        """
        names = {item.name for item in fields(cls)}
        aliases = {own.short: name for name, own in options_of(cls).items() if own.short}
        values: dict[str, Any] = {}
        for name, value in options.items():
            full_name = aliases.get(name, name)
            if full_name not in names:
                hint = nearest(name, [*names, *aliases])
                raise ConfigError(f"unknown option {name!r}{hint}")
            if full_name in values:
                raise ConfigError(f"{full_name} is given twice: as {full_name} and as an alias")
            if value is not None:
                values[full_name] = value
        return cls(**values)

    def replaced(self, **options: Any) -> Self:
        """Returns this request with ``options`` in place of its own."""
        return replace(self, **options)

    def search_options(self) -> dict[str, Any]:
        """Returns the options that replace those of the model's configuration."""
        names = [item.name for item in fields(GenerationConfig)]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def resolve(self, config: GenerationConfig) -> GenerationConfig:
        """Returns the model's ``config`` with the options of this request in place of its own.

        Raises:
            ConfigError: a value out of range, or options that contradict each other.
        """
        return config.replaced(**self.search_options())


def plain_type(hint: Any) -> Any:
    """Returns the type of an option without its None."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return kinds[0] if type(None) in get_args(hint) and len(kinds) == 1 else hint


DEFAULT_REQUEST = GenerationRequest()
"""A request that leaves everything to the configuration of the model."""

GREEDY = GenerationRequest(beam_size=1, n_best=1, diversity=0.0, sample=False)
"""A greedy search, whatever the model's configuration says."""
