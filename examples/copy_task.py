"""The copy task: the smallest problem that needs a whole Transformer.

    python -m examples.copy_task

The model reads ten random symbols and has to write the same ten. It must tell positions apart, find
its position in the source while it writes, and never look ahead, as in translation. This is the
first example of "The Annotated Transformer" (Rush 2018). It takes less than a minute on a laptop.
"""

import sys

import torch
from torch import Tensor

from core.device import use_threads
from core.inference.incremental_model import greedy_decode
from core.model.config import TransformerConfig
from core.model.sequence_to_sequence import SequenceToSequence
from core.special_ids import BOS_ID, SPECIAL_IDS
from core.training.loss import label_smoothed_cross_entropy
from core.training.schedule import Schedule, cosine

LENGTH = 10
SYMBOLS = 10
VOCABULARY = len(SPECIAL_IDS) + SYMBOLS
EPOCHS, BATCHES, BATCH_SIZE = 5, 100, 30
TESTS = 500


def random_sequences(count: int) -> Tensor:
    """Returns ``count`` sequences of ``LENGTH`` symbols: ``[S, B]``.

    There are 10^10 different sequences, so it is very unlikely that two calls return the same one.
    """
    return torch.randint(len(SPECIAL_IDS), VOCABULARY, (LENGTH, count))


def make_model() -> SequenceToSequence:
    """Makes a model with two encoder layers and two decoder layers."""
    config = TransformerConfig(
        d_model=32,
        nhead=4,
        num_encoder_layers=2,
        num_decoder_layers=2,
        dim_feedforward=64,
        dropout=0.0,  # every batch is new, so the model cannot overfit
    )
    return SequenceToSequence(VOCABULARY, VOCABULARY, config, share_embeddings=True)


def copy_loss(model: SequenceToSequence, src: Tensor) -> Tensor:
    """Returns the mean cross-entropy of a symbol, given the source and the symbols before it.

    Training is teacher-forced: the decoder's input is the answer, shifted by one position. The
    causal mask hides later symbols, so one pass trains all positions.
    """
    start = torch.full((1, src.shape[1]), BOS_ID)
    logits = model(src, torch.cat([start, src[:-1]]))  # [T, B, V]
    return label_smoothed_cross_entropy(logits, src) / src.numel()


def train_epoch(
    model: SequenceToSequence,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    epoch: int,
) -> float:
    """Trains for ``BATCHES`` steps and returns the mean loss."""
    model.train()
    total = 0.0
    for batch in range(1, BATCHES + 1):
        for group in optimizer.param_groups:
            group["lr"] = schedule((epoch - 1) * BATCHES + batch)
        loss = copy_loss(model, random_sequences(BATCH_SIZE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / BATCHES


def exact_copies(model: SequenceToSequence) -> int:
    """Returns how many of ``TESTS`` new sequences the model copies without a mistake.

    Here the decoder's input is its own output, symbol by symbol.
    """
    model.eval()
    src = random_sequences(TESTS)
    copies = greedy_decode(model, src, max_lengths=torch.full((TESTS,), LENGTH))
    return sum(copy == original for copy, original in zip(copies, src.t().tolist(), strict=True))


def main() -> None:
    """Trains all epochs: at the end the steps are small, and every copy is exact on any machine."""
    use_threads()
    torch.manual_seed(1)
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    schedule = cosine(peak=0.008, warmup_steps=100, total_steps=EPOCHS * BATCHES)
    exact = 0
    for epoch in range(1, EPOCHS + 1):
        loss = train_epoch(model, optimizer, schedule, epoch)
        exact = exact_copies(model)
        print(f"epoch {epoch}: loss {loss:.4f}, {exact}/{TESTS} exact", file=sys.stderr)
    src = random_sequences(1)
    (copy,) = greedy_decode(model, src, max_lengths=torch.tensor([LENGTH]))
    print("reads: ", *src.flatten().tolist())
    print("writes:", *copy)
    print(f"exact copies of unseen sequences: {exact} of {TESTS} ({exact / TESTS:.1%})")


if __name__ == "__main__":
    main()
