"""Familiarity: the Mahalanobis distance, as a share of held-out texts that are as far away."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.distance import mahalanobis
from scipy.stats import kstest

from core.errors import CheckpointError
from tasks.classification.predict import Classifier
from tasks.familiarity import UNFAMILIAR, Familiarity, familiarity_record, is_unfamiliar
from tasks.runs.checkpoint_folder import FAMILIARITY_FILE

Models = Callable[[str], Path]


def drawn(count: int, *, seed: int, shift: float = 0.0) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    mixing = torch.randn(6, 6, generator=torch.Generator().manual_seed(9))
    return torch.randn(count, 6, generator=rng) @ mixing + 3.0 + shift


def test_the_distance_equals_scipys() -> None:
    states = drawn(5000, seed=1)
    found = Familiarity.fit(states, drawn(1000, seed=2)).distance(drawn(5, seed=3))
    covariance = torch.cov(states.t(), correction=0)
    covariance += 0.01 * covariance.diagonal().mean() * torch.eye(6)
    inverse = torch.linalg.inv(covariance.double()).numpy()
    mean = states.mean(dim=0).numpy()
    theirs = [mahalanobis(state, mean, inverse) for state in drawn(5, seed=3).numpy()]
    assert found.tolist() == pytest.approx(theirs, rel=1e-3)


def test_it_is_spread_evenly_for_like_texts_and_near_zero_for_others() -> None:
    familiarity = Familiarity.fit(drawn(5000, seed=1), drawn(2000, seed=2))
    assert kstest(familiarity.of(drawn(2000, seed=3)).numpy(), "uniform").statistic < 0.06
    assert familiarity.of(drawn(500, seed=4, shift=30.0)).max() == 0.0


def test_few_held_out_texts_make_nothing_unlike() -> None:
    """A text beyond all of four held-out ones is as familiar as the last of them."""
    familiarity = Familiarity.fit(drawn(5000, seed=1), drawn(4, seed=2))
    assert familiarity.of(drawn(50, seed=4, shift=30.0)).tolist() == pytest.approx(
        [0.25] * 50, abs=0.01
    )


def test_lengths_make_texts_of_all_lengths_comparable() -> None:
    """Means of many tokens vary less: a long text of another kind seemed as near as any."""

    def means(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = torch.randint(1, 50, (count,), generator=torch.Generator().manual_seed(seed))
        noise = (drawn(count, seed=seed) - 3.0) / lengths.sqrt().unsqueeze(1)
        return 3.0 + noise, lengths.float()

    (states, lengths), (others, their) = means(5000, 1), means(2000, 2)
    familiarity = Familiarity.fit(states, others, (lengths, their))
    states, lengths = means(6000, 3)
    for chosen in (lengths <= 10, lengths >= 40):
        found = familiarity.of(states[chosen], lengths[chosen])
        assert kstest(found.numpy(), "uniform").statistic < 0.06


def test_a_contrast_is_of_the_states_as_they_are_whatever_the_lengths() -> None:
    states, others = drawn(2000, seed=1), drawn(500, seed=5, shift=1.0)
    lengths = torch.full((2000,), 9.0)
    without = Familiarity.fit(states, states, others=others)
    familiarity = Familiarity.fit(states, states, (lengths, lengths), others=others)
    assert torch.equal(familiarity.contrast, without.contrast)


def test_it_is_saved_and_a_wrong_file_is_refused(tmp_path: Path) -> None:
    familiarity = Familiarity.fit(drawn(500, seed=1), drawn(500, seed=2))
    assert Familiarity.load(tmp_path, width=6) is None
    familiarity.save(tmp_path)
    loaded = Familiarity.load(tmp_path, width=6)
    assert loaded is not None
    states = drawn(50, seed=3)
    assert torch.equal(loaded.of(states), familiarity.of(states))
    with pytest.raises(
        CheckpointError, match=r"not the weights of this model: mean has shape \[6\], not \[8\]"
    ):
        Familiarity.load(tmp_path, width=8)
    (tmp_path / FAMILIARITY_FILE).write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=FAMILIARITY_FILE):
        Familiarity.load(tmp_path, width=6)


def test_a_contrast_tells_other_kinds_that_are_as_near_to_the_mean(tmp_path: Path) -> None:
    """Everyday sentences were as familiar as headlines: both are short, and near the mean."""
    states, like, others = drawn(5000, seed=1), drawn(500, seed=4), drawn(100, seed=5, shift=1.0)
    without = Familiarity.fit(states, drawn(2000, seed=2))
    with_others = Familiarity.fit(states, drawn(2000, seed=2), others=others)
    unseen = drawn(500, seed=6, shift=1.0)
    both = (without, with_others)
    before, after = ((each.of(unseen) < UNFAMILIAR).float().mean() for each in both)
    assert after > 2 * before
    assert kstest(with_others.of(like).numpy(), "uniform").statistic < 0.1
    with_others.save(tmp_path)
    loaded = Familiarity.load(tmp_path, width=6)
    assert loaded is not None
    assert torch.equal(loaded.of(unseen), with_others.of(unseen))


def test_the_shipped_model_knows_headlines_of_today_and_not_everyday_sentences() -> None:
    """Half of the headlines were flagged, because they are shorter than articles."""
    classifier = Classifier.load(device="cpu")
    kinds: dict[str, list[str]] = {"today": [], "everyday": []}
    path = Path(__file__).parents[2] / "benchmarks" / "unlike_texts.tsv"
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, _, text = line.partition("\t")
        kinds.setdefault(kind, []).append(text)
    flagged = {
        kind: [is_unfamiliar(each.familiarity) for each in classifier.classify_scored(texts)]
        for kind, texts in kinds.items()
    }
    assert kinds["everyday"][0] == "I love my cat." and all(flagged["everyday"])
    assert sum(flagged["today"]) <= 4 < len(flagged["today"]) == 40


def test_states_that_never_vary_are_no_problem() -> None:
    familiarity = Familiarity.fit(torch.ones(5, 6), torch.ones(1, 6))
    assert familiarity.of(torch.ones(2, 6)).isfinite().all()


def test_a_trained_classifier_says_it(tiny_models: Models, tiny_corpora: dict[str, Path]) -> None:
    classifier = Classifier.load(tiny_models("classification"), device="cpu")
    rows = (tiny_corpora["classification"] / "test.csv").read_text().splitlines()
    known = classifier.classify_scored([row[5:-1].replace('","', " ") for row in rows])
    strange, empty = classifier.classify_scored(["天地 xyz qqq 999", ""])
    shares = [result.familiarity for result in known if result.familiarity is not None]
    assert len(shares) == 30
    assert np.mean(shares) > 0.2
    assert strange.familiarity is not None
    assert strange.familiarity <= min(shares)
    assert empty.familiarity is None
    assert known[0].record()["familiarity"] == known[0].familiarity


def test_a_record_says_which_texts_are_unfamiliar() -> None:
    """The page had a limit of its own, a fifth of the program's."""
    assert familiarity_record(0.049) == {"familiarity": 0.049, "unfamiliar": True}
    assert familiarity_record(0.05) == {"familiarity": 0.05, "unfamiliar": False}
    assert familiarity_record(None) == {}
