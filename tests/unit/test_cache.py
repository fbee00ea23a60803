"""A teacher's insides from a file: what a forward pass shows, in the precision of training, at every real piece."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import BertForSequenceClassification

from common.errors import UserError
from distill.cache import StoredFeatures, Wanted, write_features
from distill.losses import attention_mse, hidden_mse
from distill.outputs import Features, features
from teacher.attention import use_training_attention
from teacher.tasks.base import Encoded

LENGTHS = (5, 12, 3, 8, 12, 2)
WANTED = Wanted(hidden=frozenset({0, 2, 3}), attention=frozenset({1, 3}), values=True)


@pytest.fixture
def encoded() -> Encoded:
    rows = [np.random.default_rng(size).integers(5, 90, size) for size in LENGTHS]
    return Encoded(
        input_ids=rows,
        token_types=[np.zeros_like(row) for row in rows],
        labels=np.zeros(len(rows), dtype=np.int64),
        max_length=16,
        truncated=0,
    )


def _batch(encoded: Encoded, indices: list[int]) -> dict[str, Tensor]:
    length = max(len(encoded.input_ids[index]) for index in indices) + 2
    ids = torch.zeros(len(indices), length, dtype=torch.int64)
    for row, index in zip(ids, indices, strict=True):
        row[: len(encoded.input_ids[index])] = torch.from_numpy(encoded.input_ids[index])
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "token_type_ids": torch.zeros_like(ids)}


@pytest.fixture
def teacher(tiny_bert: Callable[..., BertForSequenceClassification]) -> BertForSequenceClassification:
    model = tiny_bert(layers=3)
    use_training_attention(model)
    return model


def _stored(
    teacher: BertForSequenceClassification, encoded: Encoded, folder: Path, wanted: Wanted, *, bf16: bool = False
) -> StoredFeatures:
    done: list[int] = []
    write_features(
        teacher,
        encoded,
        lambda indices: _batch(encoded, list(indices)),
        wanted,
        folder,
        bf16=bf16,
        advance=done.append,
        batch_size=4,
    )
    assert sum(done) == len(LENGTHS)
    return StoredFeatures(folder, wanted, layers=3, heads=4)


def _near(stored: Tensor, fresh: Tensor, valid: Tensor) -> None:
    if stored.dtype == torch.float32:
        assert torch.allclose(stored[valid], fresh[valid], rtol=1e-5, atol=1e-6)
        return
    # bf16 keeps eight bits of a number, and so do the products of the forward pass that wrote it.
    assert torch.allclose(stored.float()[valid], fresh[valid], rtol=2**-8, atol=2**-6)


@pytest.mark.parametrize("bf16", [False, True])
def test_everything_wanted_is_as_a_forward_pass_shows_it(
    teacher: BertForSequenceClassification, encoded: Encoded, tmp_path: Path, bf16: bool
) -> None:
    stored = _stored(teacher, encoded, tmp_path / "features", WANTED, bf16=bf16)
    indices = [4, 2, 0]
    batch = _batch(encoded, indices)
    with torch.no_grad():
        fresh: Features = features(teacher, batch, hidden=True, attention=True)
    kept = stored.features(indices, batch["input_ids"].shape[1], fresh.logits)
    valid = batch["attention_mask"].bool()
    for layer in WANTED.hidden:
        _near(kept.hidden[layer], fresh.hidden[layer], valid)
        assert not kept.hidden[layer][~valid].any()
        assert kept.hidden[layer].dtype == (torch.bfloat16 if bf16 else torch.float32)
        assert float(hidden_mse(kept.hidden[layer], fresh.hidden[layer], valid)) < (1e-4 if bf16 else 1e-10)
    for layer in WANTED.attention:
        for kind, states in fresh.projected(layer).items():
            _near(kept.projected(layer)[kind], states, valid)
        assert kept.attention[layer - 1][2] == pytest.approx(fresh.attention[layer - 1][2])
        assert float(attention_mse(kept.scores(layer), fresh.scores(layer), valid)) < (1e-4 if bf16 else 1e-10)
    assert kept.hidden[1].numel() == kept.attention[1][0].numel() == 0


@pytest.mark.parametrize("bf16", [False, True])
def test_only_what_is_wanted_lies_on_the_disk(
    teacher: BertForSequenceClassification, encoded: Encoded, tmp_path: Path, bf16: bool
) -> None:
    wanted = Wanted(hidden=frozenset({3}), attention=frozenset({2}), values=False)
    _stored(teacher, encoded, tmp_path / "features", wanted, bf16=bf16)
    files = {path.stem: path for path in (tmp_path / "features").iterdir()}
    assert set(files) == {"offsets", "hidden-3", "query-2", "key-2"}
    content = sum(np.load(path, mmap_mode="r").nbytes for name, path in files.items() if name != "offsets")
    assert content == wanted.size(sum(LENGTHS), 32, bf16=bf16) == 3 * sum(LENGTHS) * 32 * (2 if bf16 else 4)


def test_a_full_disk_is_said_in_words(
    teacher: BertForSequenceClassification, encoded: Encoded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, start: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(UserError, match="no space left on the disk while writing"):
        _stored(teacher, encoded, tmp_path / "features", WANTED)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_nothing_behind(
    teacher: BertForSequenceClassification, encoded: Encoded, tmp_path: Path
) -> None:
    def failing(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_features(
            teacher,
            encoded,
            lambda indices: _batch(encoded, list(indices)),
            WANTED,
            tmp_path / "features",
            bf16=False,
            advance=failing,
        )
    assert list(tmp_path.iterdir()) == []
