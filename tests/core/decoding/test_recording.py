"""The tree of a search: by hand, and as laws on random tables."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decoding.beam_search import beam_search
from core.decoding.config import GenerationConfig
from core.decoding.diverse_beam_search import diverse_beam_search
from core.decoding.greedy_search import greedy_search
from core.decoding.recording import TEMPERATURES, Node, SearchTree
from core.decoding.sampling import sample_search
from core.decoding.search import Constraint, Hypothesis
from tests.core.decoding.search_tables import (
    IDS,
    LETTERS,
    Histories,
    Table,
    all_outputs,
    forbidding,
    random_table,
    reader,
)

ALPHA = 0.6
TRAP: Table = {
    "": {"a": 0.5, "b": 0.4, ".": 0.1},
    "a": {"a": 0.3, "b": 0.3, ".": 0.4},
    "b": {".": 0.9, "c": 0.1},
}
SEARCHES: dict[Any, dict[str, Any]] = {
    greedy_search: {"beam_size": 1},
    beam_search: {"beam_size": 3, "length_penalty": ALPHA},
    diverse_beam_search: {"beam_size": 3, "length_penalty": ALPHA, "diversity": 1.0},
    sample_search: {"sample": True, "n_best": 3, "beam_size": 1, "length_penalty": 0.0},
}
random_searches = st.sampled_from([*SEARCHES])
seeds = st.integers(0, 2**31 - 1)


def recorded(
    find: Any, table: Table, limit: int = 9, constraint: Constraint | None = None, **options: Any
) -> tuple[list[Hypothesis], SearchTree]:
    """Searches twice, with and without a record, and returns what both have found."""
    own = SEARCHES[find] | options
    config = GenerationConfig(**own)
    tables = [table] * (config.n_best if config.sample else 1)
    names = {
        "beam_search": ("beam_size", "length_penalty"),
        "sample_search": (),
        "greedy_search": (),
    }
    given = {name: own[name] for name in names.get(find.__name__, own)}

    def found(record: SearchTree | None) -> list[Hypothesis]:
        step, limits = reader(tables), torch.tensor([limit] * len(tables))
        if record is not None:
            step = record.begin(step, [[4]], limit, config)
        options = given | {"max_lengths": limits, "constraint": constraint, "record": record}
        results = find(step, Histories(len(tables)), **options)
        return list(results[0] if isinstance(results[0], list) else results)

    tree = SearchTree()
    hypotheses = found(tree)
    assert hypotheses == found(None)
    tree.end(hypotheses)
    return hypotheses, tree


def letters(tree: SearchTree, node: Node) -> str:
    parent = tree.nodes[node.parent]
    return "" if node.parent < 0 else letters(tree, parent) + LETTERS[node.token]


def test_two_beams_by_hand() -> None:
    """The search of ``test_decoding.test_two_beams_by_hand``."""
    _, tree = recorded(beam_search, TRAP, beam_size=2, length_penalty=0.0)
    steps = {"": "kept", "a": "kept", "b": "kept", ".": "pruned"}
    steps |= {"b.": "ended", "a.": "ended", "aa": "kept", "ab": "kept"}
    assert {letters(tree, node): node.fate for node in tree.nodes} == steps
    assert tree.stop == "overtaken"
    root = tree.nodes[0]
    assert root.following[:3] == [(IDS["a"], 0.5, 0.5), (IDS["b"], 0.4, 0.4), (IDS["."], 0.1, 0.1)]
    assert tree.hypotheses[tree.chosen].tokens == [IDS["b"]]
    at_half = TEMPERATURES.index(0.5)
    assert root.normalizers[at_half] == pytest.approx(math.log(0.25 + 0.16 + 0.01))


def test_what_a_rule_forbids_is_recorded_with_the_probability_that_the_model_gives_it() -> None:
    _, tree = recorded(greedy_search, TRAP, constraint=forbidding(IDS["a"]))
    first, second, *_ = tree.nodes[0].following
    assert first == (IDS["a"], 0.5, 0.0)
    assert second == (IDS["b"], 0.4, 0.8)
    assert tree.nodes[1].probability == pytest.approx(0.4)
    assert tree.nodes[1].log_prob == pytest.approx(math.log(0.4 / 0.5), abs=1e-4)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "ended"),
        ({"limit": 1}, "length"),
        ({"constraint": lambda outputs, s: torch.full((len(s), 7), len(outputs) > 0)}, "stuck"),
    ],
)
def test_why_a_search_stops(options: Any, reason: str) -> None:
    _, tree = recorded(greedy_search, TRAP, **options)
    assert tree.stop == reason


@settings(max_examples=40, deadline=None, derandomize=True)
@given(find=random_searches, seed=seeds, limit=st.integers(1, 4))
def test_the_tree_is_complete(find: Any, seed: int, limit: int) -> None:
    """Every node extends one that was kept, and every result is the end of a path."""
    hypotheses, tree = recorded(find, random_table(seed, length=3), limit)
    for number, node in enumerate(tree.nodes[1:], start=1):
        assert 0 <= node.parent < number
        parent = tree.nodes[node.parent]
        assert parent.fate == "kept"
        assert parent.following
        total = parent.log_prob + math.log(node.probability)
        assert node.log_prob == pytest.approx(total, abs=5e-4)
    for hypothesis in hypotheses:
        tokens = hypothesis.tokens
        node = tree.node([*tokens, IDS["."]]) or tree.node(tokens)
        assert node is not None
        assert node.fate in ("kept", "ended")
        assert node.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=seeds)
def test_the_tree_of_a_wide_beam_has_all_outputs(seed: int) -> None:
    table = random_table(seed, length=3)
    _, tree = recorded(beam_search, table, 4, beam_size=200, n_best=200)
    expected = {text: p for text, p, length in all_outputs(table, 4) if length > len(text)}
    ended = {letters(tree, n)[:-1]: math.exp(n.log_prob) for n in tree.nodes if n.fate == "ended"}
    assert ended == pytest.approx(expected, abs=1e-4)
