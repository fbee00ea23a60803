"""A WordPiece vocabulary extended with the words of a domain, and the rows of a model for them."""

import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from common.errors import UserError
from teacher.encoder import TextEncoder
from teacher.word_starts import word_starts
from teacher.wordpiece import check_wordpiece

LEAST = 5
"""A word that occurs less often is not worth a row: it would hardly be trained."""

MOST_WORDS = 1_000_000
"""Split words that are counted at a time; beyond it the rarest are forgotten, so that memory is bounded."""


def extend_wordpiece(
    tokenizer: PreTrainedTokenizerFast, texts: Iterable[str], count: int, *, least: int = LEAST
) -> PreTrainedTokenizerFast:
    """A tokenizer of the same kind with up to `count` whole words of `texts` added, which it splits until now.

    The words that save the most pieces come first: how often a word occurs, times its pieces less one; equal ones by
    the alphabet. Old pieces keep their ids, new ones follow. Words that occur less than `least` times, and words with a
    character that the vocabulary lacks, are not added, so there may be fewer than `count`. `texts` is read once.

    Raises:
        UserError: a tokenizer that is no WordPiece, or a count below 1.
    """
    if count < 1:
        raise UserError(f"{count} words to extend a vocabulary by: expected at least 1")
    check_wordpiece(tokenizer)
    counts = _split_words(tokenizer, texts)
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    prefix = _prefix(tokenizer)
    saved: dict[str, int] = {}
    for key, occurrences in counts.items():
        ids = np.frombuffer(key, np.int32).tolist()
        if occurrences >= least:
            saved["".join(pieces[number].removeprefix(prefix) for number in ids)] = occurrences * (len(ids) - 1)
    known = tokenizer.get_vocab()
    ranked = (word for word in sorted(saved, key=lambda word: (-saved[word], word)) if word not in known)
    return _with_pieces(tokenizer, list(itertools.islice(ranked, count)))


@torch.no_grad()
def extend_embeddings(
    model: PreTrainedModel, old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast
) -> PreTrainedModel:
    """Give `model` a row for each piece that only `new` has: the mean of the rows of the pieces `old` splits it into.

    So in the input embeddings, and in the output layer and its bias where the model has them; tied tables stay tied.
    Changes and returns `model`.

    Raises:
        ValueError: `new` does not keep the ids of `old`.
    """
    before, after = old.get_vocab(), new.get_vocab()
    if any(after.get(piece) != number for piece, number in before.items()):
        raise ValueError("the new tokenizer is no extension of the old one: pieces have other ids in it")
    added = sorted((number, piece) for piece, number in after.items() if piece not in before)
    parts = TextEncoder(old).encode([piece for _, piece in added])
    table: Any = model.get_input_embeddings()
    if len(after) > table.num_embeddings:
        model.resize_token_embeddings(len(after), mean_resizing=False)
    for tensor in _tables(model):
        for (number, _), ids in zip(added, parts, strict=True):
            tensor[number] = tensor[ids].mean(dim=0)
    return model


def _tables(model: PreTrainedModel) -> list[Tensor]:
    """What has one row or number a piece, each tensor once."""
    found: dict[int, Tensor] = {}
    for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
        for tensor in (getattr(layer, "weight", None), getattr(layer, "bias", None)):
            if isinstance(tensor, nn.Parameter):
                found[tensor.data_ptr()] = tensor
    return list(found.values())


@dataclass(frozen=True, kw_only=True)
class PieceCount:
    """How a tokenizer cuts a text."""

    pieces: int
    words: int
    """Runs of letters and single signs, as the tokenizer separates them."""
    unknown: int
    """Words that became [UNK]."""

    @property
    def per_word(self) -> float:
        return self.pieces / self.words if self.words else 0.0

    def __add__(self, other: "PieceCount") -> "PieceCount":
        return PieceCount(
            pieces=self.pieces + other.pieces,
            words=self.words + other.words,
            unknown=self.unknown + other.unknown,
        )


def count_pieces(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> PieceCount:
    """Pieces, words and unknown words of `texts`, read once, for a WordPiece tokenizer."""
    total = PieceCount(pieces=0, words=0, unknown=0)
    for flat, starts in _encoded(tokenizer, texts):
        unknown = int((flat == tokenizer.unk_token_id).sum())
        total += PieceCount(pieces=len(flat), words=len(starts), unknown=unknown)
    return total


def describe_extension(
    old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast, before: PieceCount, after: PieceCount
) -> str:
    """One line for the user: how many words were added, and pieces a word before and after."""
    return (
        f"vocabulary extended by {len(new) - len(old):,} words to {len(new):,} pieces: "
        f"{before.per_word:.3f} pieces a word before, {after.per_word:.3f} after"
    )


def _prefix(tokenizer: PreTrainedTokenizerFast) -> str:
    """What continues a word: ## in BERT."""
    return str(tokenizer.backend_tokenizer.model.continuing_subword_prefix)


def _encoded(
    tokenizer: PreTrainedTokenizerFast, texts: Iterable[str], group: int = 4096
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of some texts at a time all pieces, int32, and where among them words start."""
    begins, encoder = word_starts(tokenizer), TextEncoder(tokenizer)
    remaining = iter(texts)
    while batch := list(itertools.islice(remaining, group)):
        encoded = [ids for ids in encoder.encode(batch) if ids]
        if encoded:
            flat = np.fromiter(itertools.chain.from_iterable(encoded), np.int32)
            starting = begins[flat]
            starting[np.cumsum([0, *map(len, encoded[:-1])])] = True
            yield flat, np.flatnonzero(starting)


def _split_words(tokenizer: PreTrainedTokenizerFast, texts: Iterable[str]) -> Counter[bytes]:
    """Ids of each word of several pieces, as bytes of int32, to how often it occurs."""
    counts: Counter[bytes] = Counter()
    rare = 0
    for flat, starts in _encoded(tokenizer, texts):
        ends = np.append(starts[1:], len(flat))
        split = ends - starts > 1
        raw = flat.tobytes()
        counts.update(raw[4 * start : 4 * end] for start, end in zip(starts[split], ends[split], strict=True))
        while len(counts) > MOST_WORDS:
            rare += 1
            counts = Counter({word: count for word, count in counts.items() if count > rare})
    return counts


def _with_pieces(tokenizer: PreTrainedTokenizerFast, words: list[str]) -> PreTrainedTokenizerFast:
    """A copy with `words` numbered from len(tokenizer) on."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        path = Path(folder) / "tokenizer.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        # The library numbers added tokens anew, after the vocabulary, unless they are part of it.
        content["model"]["vocab"] |= {token["content"]: token["id"] for token in content["added_tokens"]}
        content["model"]["vocab"] |= {word: number for number, word in enumerate(words, len(tokenizer))}
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        extended: PreTrainedTokenizerFast = type(tokenizer).from_pretrained(folder)
    return extended
