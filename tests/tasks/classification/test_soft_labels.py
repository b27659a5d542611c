"""Soft labels: what is read, what the loss makes of them, and what cross-fitting promises."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from benchmarks.soft_labels import Rows, cross_fitted, linear_teacher
from core.errors import ConfigError, CorpusError
from tasks.classification.config import ClassificationData
from tasks.classification.dataset import LoadSentenceClassificationDataset
from tasks.classification.model import ClassificationModel
from tasks.classification.soft_labels import read_soft_labels
from tasks.classification.train import text_loss

CLASSES = ["ham", "spam", "eggs"]


def write(path: Path, *rows: Any) -> Path:
    records = [{"label": "ham", "probabilities": row} for row in rows]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_several_files_are_averaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write(tmp_path / "a", {"ham": 0.5, "spam": 0.5}, {"eggs": 0.2})
    other = write(tmp_path / "b", {"spam": 1}, {"ham": 3, "eggs": 1})
    found = read_soft_labels([one, other], CLASSES, [1, 2], Path("train.csv"))
    torch.testing.assert_close(found, torch.tensor([[0.25, 0.75, 0.0], [0.375, 0.0, 0.625]]))
    assert f"{one}: 50.00% of the labels" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"hum": 1.0}, "a:2: 'hum' is not a class; did you mean 'ham'"),
        ({"ham": -0.1}, "a:2: -0.1 is not a probability"),
        ({"ham": True}, "a:2: True is not a probability"),
        ({"ham": 0}, "a:2: no class has a probability above 0"),
        ([0.1, 0.9], 'a:2: not an object with "probabilities"'),
    ],
)
def test_a_faulty_line_is_refused_by_its_number(row: Any, reason: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"ham": 1.0}, row)
    with pytest.raises(CorpusError) as caught:
        read_soft_labels([path], CLASSES, [0, 0], Path("train.csv"))
    assert reason in str(caught.value)


def test_a_file_of_another_corpus_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a", {"ham": 1.0})
    with pytest.raises(CorpusError, match=r"1 lines, but train\.csv has 2 labeled texts"):
        read_soft_labels([path], CLASSES, [0, 0], Path("train.csv"))
    with pytest.raises(ConfigError, match="soft_labels must be"):
        ClassificationData(soft_labels=("a", "a"))


def test_the_target_is_a_mixture(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = ClassificationModel(9, 3, d_model=8, nhead=2, num_encoder_layers=1, dropout=0.0).eval()
    src, labels, rows = torch.tensor([[4, 5], [6, 7]]), torch.tensor([2, 0]), torch.tensor([1, 3])
    table = torch.rand(5, 3)
    table /= table.sum(dim=1, keepdim=True)
    log_probs = model(src).log_softmax(dim=1)
    targets = 0.25 * F.one_hot(labels, 3) + 0.75 * table[rows]
    loss = text_loss(model, 0.0, 0.0, soft_labels=table, soft_label_weight=0.75)
    total, count = loss((src, labels, rows))
    assert count == 2
    torch.testing.assert_close(total, -(targets * log_probs).sum())
    twice, _ = text_loss(model, 0.0, 0.0, 1.0, soft_labels=table, soft_label_weight=0.75)(
        (src, labels, rows)
    )
    torch.testing.assert_close(twice, 2 * total)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_every_text_of_a_batch_has_its_own_probabilities(dropout: float, tmp_path: Path) -> None:
    """Rows that are held out have a line too, which is not used."""
    texts = [f"text number {i}" for i in range(40)]
    labels = [CLASSES[i % 3] for i in range(40)]
    lines = [f"{text},{label}\n" for text, label in zip(texts, labels, strict=True)]
    (tmp_path / "my.csv").write_text("text,label\n" + "".join(lines), encoding="utf-8")
    soft = write(tmp_path / "soft", *({"ham": i / 40, "spam": 1 - i / 40} for i in range(40)))
    config = ClassificationData(
        text=("text",),
        tokenizer="sentencepiece" if dropout else "whitespace",
        vocab_size=60,
        min_freq=1,
        bpe_dropout=dropout,
        val_share=0.2,
        test_share=0.2,
        soft_labels=(str(soft),),
    )
    dataset = LoadSentenceClassificationDataset(
        tmp_path / "my.csv", config, seed=1, save_to=tmp_path
    )
    found = dataset.soft_labels()
    assert found is not None
    assert len(found) == 26
    data = dataset.training_data(batch_tokens=50, seed=1, max_len=50)
    seen = []
    for batch in data.plan(2):
        src, labels_of_batch, rows = data.batch(batch)
        for ids, label, row in zip(src.t().tolist(), labels_of_batch, rows, strict=True):
            number = int(dataset.codec.decode(ids).replace("<pad>", "").split()[-1])
            assert number % 3 == CLASSES.index(dataset.classes[label])
            probability = found[row][dataset.classes.index("ham")]
            assert probability.item() == pytest.approx(number / 40)
            seen.append(int(row))
    assert sorted(seen) == list(range(26))


def test_no_model_is_asked_about_a_row_that_it_was_trained_on(tmp_path: Path) -> None:
    rows = ([f"text {i}" for i in range(20)], ["ab"[i % 2] for i in range(20)])
    selected = [i for i in range(20) if i not in (3, 7)]
    asked: list[str] = []

    def teacher(training: Rows, fold: Rows, folder: Path) -> torch.Tensor:
        assert not set(training[0]) & set(fold[0])
        assert not {"text 3", "text 7"} & set(training[0])
        assert len(training[0]) == 12
        asked.extend(fold[0])
        numbers = torch.tensor([int(text.split()[1]) for text in fold[0]])
        return torch.stack([1 - numbers / 20, numbers / 20], dim=1)

    found = cross_fitted(teacher, rows, selected, folds=3, seed=1, work=tmp_path)
    assert sorted(asked) == sorted(rows[0])
    assert found[:, 1].tolist() == pytest.approx([i / 20 for i in range(20)])


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_the_linear_teacher_knows_the_classes(names: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    words = {"a": "oil prices stocks", "b": "goals match cup", "c": "vote minister war"}
    labels = [names[i % len(names)] for i in range(60)]
    texts = [" ".join(rng.permutation(words[label].split())) for label in labels]
    found = linear_teacher((texts[:45], labels[:45]), (texts[45:], labels[45:]), tmp_path)
    assert [names[i] for i in found.argmax(dim=1)] == labels[45:]
    torch.testing.assert_close(found.sum(dim=1), torch.ones(15, dtype=found.dtype))
