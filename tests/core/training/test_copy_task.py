"""The tutorial's first example: it runs as a reader would run it, and does what it says."""

import re
import runpy
from functools import partial

import torch

from examples import copy_task
from tests.forked import run_in_fork
from tests.guide_pages import LANGUAGES, document
from tests.readme_blocks import blocks


def test_the_example_copies_every_unseen_sequence() -> None:
    """Ten symbols, length 10, d_model 32, 2 layers, 4 heads; 5 epochs of 100 batches of 30."""
    assert (copy_task.SYMBOLS, copy_task.LENGTH) == (10, 10)
    assert (copy_task.BATCHES, copy_task.BATCH_SIZE) == (100, 30)
    config = copy_task.make_model().config
    layers = (config.num_encoder_layers, config.num_decoder_layers)
    assert (config.d_model, layers, config.nhead) == (32, (2, 2), 4)

    program = partial(runpy.run_module, "examples.copy_task", run_name="__main__")
    done = run_in_fork(program)
    assert done.returncode == 0, done.stderr

    reads, writes, result = done.stdout.splitlines()
    assert reads.split()[1:] == writes.split()[1:]
    assert len(reads.split()) == 11
    assert result == "exact copies of unseen sequences: 500 of 500 (100.0%)"
    for page in (document(language, "transformer/training.md") for language in LANGUAGES):
        assert done.stdout.rstrip("\n") in [block.text for block in blocks(page)]
    epochs = re.findall(r"^epoch (\d+): loss \d\.\d{4}, (\d+)/500 exact$", done.stderr, re.M)
    assert [int(number) for number, _ in epochs] == list(range(1, len(epochs) + 1))
    assert len(epochs) == 5
    assert [exact == "500" for _, exact in epochs][:2] == [False, False]


def test_the_sequences_are_of_symbols_only_and_never_the_same() -> None:
    torch.manual_seed(1)
    one, other = copy_task.random_sequences(500), copy_task.random_sequences(500)
    assert one.shape == (10, 500)
    assert set(one.unique().tolist()) == set(range(4, 14))
    columns = {tuple(column) for column in torch.cat([one, other], dim=1).t().tolist()}
    assert len(columns) == 1000


def test_an_untrained_model_copies_nothing() -> None:
    torch.manual_seed(1)
    assert copy_task.exact_copies(copy_task.make_model()) == 0
