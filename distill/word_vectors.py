"""Word vectors and the nearest neighbours of a word by cosine: from a text file, or from a model's own pieces."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from common.errors import UserError
from common.progress import say
from common.words import counted
from distill.words import has_letters, normalised, whole_word_ids
from teacher.decoding import Oddities, stream_lines

_CELLS = 50_000_000
"""Cosines computed at a time: 200 MB."""


@dataclass(frozen=True, kw_only=True)
class WordVectors:
    """Words with a vector each; made by `vectors_from_file` or `vectors_from_pieces`."""

    words: tuple[str, ...]
    unit: torch.Tensor
    """(words, width) fp32, every row of length 1 (or 0, which is near to nothing)."""
    tokenizer: PreTrainedTokenizerBase | None
    """Spells the words; None: they are looked up as they stand, then in lower case."""

    def neighbours(self, queries: Iterable[str], count: int) -> dict[str, tuple[str, ...]]:
        """The `count` words of largest cosine for each query that has a vector, without itself, nearest first.

        Equal cosines stand in the order of `words`.
        """
        index = {word: row for row, word in enumerate(self.words)}
        rows = {query: row for query in queries if (row := self._row(query, index)) is not None}
        distinct = sorted(set(rows.values()))
        near: dict[int, tuple[str, ...]] = {}
        together = max(1, _CELLS // len(self.words))
        for start in range(0, len(distinct), together):
            chosen = torch.tensor(distinct[start : start + together])
            cosines = self.unit[chosen] @ self.unit.T
            cosines[torch.arange(len(chosen)), chosen] = -torch.inf
            picked = first_largest(cosines, min(count, len(self.words) - 1))
            near |= {
                int(row): tuple(self.words[place] for place in places)
                for row, places in zip(chosen, picked.tolist(), strict=True)
            }
        return {query: near[row] for query, row in rows.items()}

    def _row(self, word: str, index: Mapping[str, int]) -> int | None:
        if self.tokenizer is not None:
            row = index.get(normalised(word, self.tokenizer))
        else:
            row = index.get(word, index.get(word.lower()))
        return None if row is None or not bool(self.unit[row].any()) else row


def first_largest(values: torch.Tensor, count: int) -> np.ndarray:
    """(rows, count): places of each row's largest values, largest first, the first place first among equals.

    >>> first_largest(torch.tensor([[0.0, 3.0, 1.0, 3.0, 1.0]]), 3).tolist()
    [[1, 3, 2]]
    """
    if count < 1:
        return np.empty((len(values), 0), dtype=np.int64)
    largest = values.topk(count)
    places, least = largest.indices.sort(dim=1).values, largest.values[:, -1:]
    # topk takes any of several equal values; only where more are equal to the last than fit must they be looked at.
    for row in torch.nonzero((values >= least).sum(dim=1) > count).flatten().tolist():
        places[row] = values[row].sort(descending=True, stable=True).indices[:count].sort().values
    order = values.gather(1, places).sort(dim=1, descending=True, stable=True).indices
    return places.gather(1, order).numpy()


def vectors_from_pieces(table: torch.Tensor, tokenizer: PreTrainedTokenizerBase, words: Sequence[str]) -> WordVectors:
    """A word's vector is the mean of its pieces' rows in `table`; the vocabulary's whole words and `words` have one.

    Words with an unknown piece have none.
    """
    table = table.detach().float().cpu()
    ids = whole_word_ids(tokenizer)
    names = tokenizer.convert_ids_to_tokens(ids.tolist())
    known = set(names)
    others = [word for word in dict.fromkeys(normalised(word, tokenizer) for word in words) if word not in known]
    pieces = tokenizer(others, add_special_tokens=False)["input_ids"] if others else []
    unknown = tokenizer.unk_token_id
    kept = [
        (word, row) for word, row in zip(others, pieces, strict=True) if row and unknown not in row and word.strip()
    ]
    rows = [table[torch.from_numpy(ids)]]
    if kept:
        flat = torch.tensor([piece for _, row in kept for piece in row])
        starts = torch.tensor([0, *(len(row) for _, row in kept)]).cumsum(0)[:-1]
        rows.append(torch.nn.functional.embedding_bag(flat, table, starts, mode="mean"))
    words_in_all = (*names, *(word for word, _ in kept))
    return WordVectors(words=words_in_all, unit=_unit(torch.cat(rows)), tokenizer=tokenizer)


def vectors_from_file(path: Path) -> WordVectors:
    """Vectors from a text file as GloVe and word2vec have them: a word and its numbers a line, perhaps a header.

    Raises:
        UserError: unreadable, no vector in it, or a line with too many or too few numbers; names file and line. A last
            line that was cut short is left out, and said.
    """
    oddities = Oddities()
    words: dict[str, np.ndarray] = {}
    width, cut = 0, ""
    for number, line in enumerate(stream_lines(path, oddities), 1):
        if not line.strip():
            continue
        if cut:
            raise UserError(cut)
        fields = line.rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdecimal() for field in fields):
            width = int(fields[1])
            continue
        width = width or len(fields) - 1
        vector = _numbers(fields[-width:]) if len(fields) > width > 0 else None
        if vector is None:
            cut = f"{path}:{number}: a word and {width} numbers were expected, separated by spaces"
            continue
        word = " ".join(fields[:-width])
        if has_letters(word):
            words.setdefault(word, vector)
    if len(words) < 2:
        raise UserError(cut or f"{path} has no word vectors: a word and its numbers were expected on each line")
    for note in [*oddities.notes(), *([f"the last line is cut short and left out ({cut})"] if cut else [])]:
        say(f"  note: {path.name}: {note}")
    say(f"word vectors: {counted(len(words), 'word')} of {width} numbers from {path}")
    return WordVectors(words=tuple(words), unit=_unit(torch.from_numpy(np.stack(list(words.values())))), tokenizer=None)


def _numbers(fields: Sequence[str]) -> np.ndarray | None:
    try:
        vector = np.array(fields, dtype=np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None


def _unit(rows: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(rows, dim=1)
