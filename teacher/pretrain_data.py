"""What pretraining learns from: a corpus as pieces, made once, and its batches with masks drawn anew each step."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from common.errors import UserError
from common.files import new_folder
from common.progress import say
from teacher.batches import Batches, sorted_batches
from teacher.examples import Examples, draw_examples, pad_examples
from teacher.masking import SHARE
from teacher.maskings import PIECES, Masks, hide
from teacher.pairs import Pairs
from teacher.pieces import Pieces, encode_documents
from teacher.tokenizer import train_wordpiece

Documents = Sequence[Sequence[str]]

SAMPLE_CHARACTERS = 3_000_000
"""Text that the vocabulary is learned from, drawn from the whole corpus; the time grows with it."""

HELD_OUT = 0.015
"""Share of the documents that is never learned from."""

MOST_HELD_OUT = 1000
"""Documents; and pairs of them that are evaluated."""

_MASKS, _HELD_OUT_MASKS = 1, 2
"""Keep the streams of random numbers apart from each other and from that of the batches."""


@dataclass(frozen=True, kw_only=True)
class PretrainData:
    """A corpus, tokenised."""

    tokenizer: PreTrainedTokenizerFast
    learned: Pieces
    held_out: Pieces


def prepare_data(
    corpus: Iterable[list[str]],
    folder: Path,
    *,
    vocabulary: int,
    cased: bool,
    seed: int,
    enough: int | None,
    given: Callable[[Iterator[str]], PreTrainedTokenizerFast] | None = None,
) -> PretrainData:
    """Shuffle, hold out, learn the vocabulary and tokenise; kept in `folder`, and read from there the next time.

    Documents are tokenised until there are `enough` pieces (None: all): a short run needs only a part of much text.
    With `given`, the tokenizer is what that makes of a sample of the text, instead of a vocabulary that is learned.

    Raises:
        UserError: fewer than four documents, a vocabulary smaller than the alphabet.
    """
    if folder.exists():
        return _load(folder)
    held_out, learned = _split(list(corpus), seed)
    say(f"{len(held_out) + len(learned):,} documents, {len(held_out):,} of them held out")
    if given is None:
        tokenizer = train_wordpiece(_sample(learned), vocabulary=vocabulary, cased=cased)
        say(f"vocabulary of {len(tokenizer):,} pieces learned")
    else:
        tokenizer = given(_sample(learned))
    data = PretrainData(
        tokenizer=tokenizer,
        learned=encode_documents(learned, tokenizer, enough=enough),
        held_out=encode_documents(held_out, tokenizer),
    )
    with new_folder(folder) as target:
        tokenizer.save_pretrained(target)
        data.learned.save(target / "learned.npz")
        data.held_out.save(target / "held_out.npz")
    return data


def _load(folder: Path) -> PretrainData:
    learned, held_out = Pieces.load(folder / "learned.npz"), Pieces.load(folder / "held_out.npz")
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    return PretrainData(tokenizer=tokenizer, learned=learned, held_out=held_out)


def _split(documents: Documents, seed: int) -> tuple[Documents, Documents]:
    """Held-out documents and the others, both in random order. A pair needs two documents on either side."""
    if len(documents) < 4:
        raise UserError(
            f"--corpus: found {len(documents)} documents with text, at least 4 are needed (next-sentence pairs take "
            "two to learn from and two held out): give more files, or separate documents by an empty line"
        )
    shuffled = list(documents)
    random.Random(f"documents {seed}").shuffle(shuffled)
    count = min(MOST_HELD_OUT, max(2, round(HELD_OUT * len(shuffled))))
    return shuffled[:count], shuffled[count:]


def _sample(documents: Documents) -> Iterator[str]:
    """Sentences of the first documents, up to SAMPLE_CHARACTERS; the documents are in random order."""
    characters = 0
    for document in documents:
        yield from document
        characters += sum(map(len, document))
        if characters >= SAMPLE_CHARACTERS:
            return


def training_batches(
    data: PretrainData,
    examples: Examples,
    *,
    batch_size: int,
    length: int,
    seed: int,
    masks: Masks | None = PIECES,
) -> Batches:
    """What the loop draws from; what is hidden follows from seed and step, so that a resumed run draws the same."""

    def collate_step(indices: Sequence[int], step: int) -> dict[str, Tensor]:
        rng = np.random.default_rng((seed, step, _MASKS))
        return collate(data.learned, examples, indices, data.tokenizer, rng, length, masks=masks, seed=seed)

    return Batches(lengths=examples.lengths, batch_size=batch_size, seed=seed, collate=collate_step)


def held_out_batches(
    data: PretrainData, *, length: int, seed: int, batch_size: int = 64, kind: str = "nsp", masks: Masks | None = PIECES
) -> Iterator[dict[str, Tensor]]:
    """Examples of a kind from held-out documents, always with the same masks."""
    examples = draw_examples(data.held_out, kind, length=length, seed=seed, wanted=1)
    rng = np.random.default_rng((seed, _HELD_OUT_MASKS))
    chosen = rng.permutation(len(examples))[:MOST_HELD_OUT]
    for places in sorted_batches(examples.lengths[chosen], batch_size):
        yield collate(data.held_out, examples, chosen[places], data.tokenizer, rng, length, masks=masks)


def collate(
    pieces: Pieces,
    examples: Examples,
    indices: Sequence[int] | np.ndarray,
    tokenizer: PreTrainedTokenizerFast,
    rng: np.random.Generator,
    length: int,
    *,
    masks: Masks | None = PIECES,
    seed: int = 0,
) -> dict[str, Tensor]:
    """The chosen examples, padded and masked (None: nothing is hidden), as a batch of `teacher.objectives`.

    `seed` is that of static masks; others are drawn from `rng`.
    """
    cls, sep, pad = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
    ids, segments, lengths = pad_examples(pieces, examples, indices, cls=cls, sep=sep, pad=pad)
    real = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)
    arrays = {"input_ids": ids, "attention_mask": real, "token_type_ids": segments}
    if masks is not None:
        masked = hide(
            masks,
            ids,
            (ids != pad) & (ids != cls) & (ids != sep),
            lengths,
            indices,
            rng=rng,
            seed=seed,
            mask=tokenizer.mask_token_id,
            vocabulary=len(tokenizer),
            max_predictions=math.ceil(SHARE * length),
        )
        arrays |= {"input_ids": masked.ids, "positions": masked.positions, "labels": masked.labels}
    if isinstance(examples, Pairs):
        arrays["next_labels"] = examples.labels[np.asarray(indices)]
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def unigram_loss(pieces: Pieces) -> float:
    """Entropy of the pieces' frequencies in nats: the MLM loss of a model that knows frequencies and no context."""
    counts = np.bincount(pieces.ids)
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
