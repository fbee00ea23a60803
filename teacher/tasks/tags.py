"""A tag for each word: entities by IOB2 or BIOES, or tags that stand alone, such as parts of speech."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from common.heads import TOKENS
from teacher.batches import padded
from teacher.cutting import ENTRY, way_of
from teacher.data import Example
from teacher.schemes import OUTSIDE, entities, scheme_of
from teacher.tasks.base import Encoded, PerLabel, Task
from teacher.word_pieces import first_pieces

IGNORED = -100
"""The label of pieces that no tag belongs to, as in torch's cross-entropy."""
LOOKED_AT = 1000
"""Rows by which it is found how words are cut."""


@dataclass(frozen=True, kw_only=True)
class EncodedTags(Encoded):
    """Sentences as pieces; `labels` holds for each an int64 array, the tag of every word."""

    places: list[np.ndarray]
    """For each sentence the first piece of each word; -1: none, since it was cut off or leaves no piece."""


class Tags(Task):
    """Token classification: a word's tag is learned and read at its first piece (Devlin et al. 2018, section 5.3)."""

    kind: ClassVar[str] = "tags"
    head_kind: ClassVar[str] = TOKENS
    soft_form: ClassVar[str] = "classes"
    per_position: ClassVar[bool] = True
    carries: ClassVar[bool] = True
    weighable: ClassVar[bool] = True

    def head(self) -> dict[str, Any]:
        return {
            "num_labels": len(self.data.labels),
            "id2label": dict(enumerate(self.data.labels)),
            "label2id": {label: index for index, label in enumerate(self.data.labels)},
        }

    @property
    def scheme(self) -> str | None:
        """IOB2 or BIOES; None where tags stand alone."""
        if self.data.metric != "entity_f1":
            return None
        return "BIOES" if scheme_of([self.data.labels]) == "BIOES" else "IOB2"

    @property
    def reading(self) -> dict[str, Any]:
        """Also how texts are cut into words, as far as the first rows tell."""
        some = self.data.splits["train"][:LOOKED_AT]
        way = way_of((example.text, example.detail) for example in some)
        return {**super().reading, ENTRY: None if way == "words" else way}

    def encode(self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> EncodedTags:
        """Tokenise; of longer sentences the words that are cut off are answered with the constant tag, and counted."""
        encoding = tokenizer(
            [example.text for example in examples],
            truncation=True,
            max_length=max_length,
            return_token_type_ids=True,
            return_attention_mask=False,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        spans = [np.array(example.detail, dtype=np.int64).reshape(-1, 2) for example in examples]
        places = [
            first_pieces(np.asarray(offsets), np.asarray(special, dtype=bool), words)
            for offsets, special, words in zip(
                encoding["offset_mapping"], encoding["special_tokens_mask"], spans, strict=True
            )
        ]
        ends = [max((end for _, end in offsets), default=0) for offsets in encoding["offset_mapping"]]
        cut = [bool((words[:, 0] >= end).any()) for words, end in zip(spans, ends, strict=True)]
        return EncodedTags(
            input_ids=[np.asarray(ids, dtype=np.int64) for ids in encoding["input_ids"]],
            token_types=[np.asarray(types, dtype=np.int64) for types in encoding["token_type_ids"]],
            labels=self.label_array(examples),
            max_length=max_length,
            truncated=sum(cut),
            places=places,
        )

    def label_array(self, examples: Sequence[Example]) -> np.ndarray:
        return _ragged([np.array(example.label, dtype=np.int64) for example in examples])

    def label_tensor(self, encoded: Encoded, indices: Sequence[int], length: int) -> Tensor:
        """(batch, length), -100 but at the first pieces of words."""
        assert isinstance(encoded, EncodedTags)
        rows = []
        for index in indices:
            row = np.full(len(encoded.input_ids[index]), IGNORED, dtype=np.int64)
            places = encoded.places[index]
            row[places[places >= 0]] = encoded.labels[index][places >= 0]
            rows.append(row)
        return torch.from_numpy(padded(rows, length, IGNORED))

    def weights(self, encoded: Encoded) -> np.ndarray:
        """Words that have a piece."""
        assert isinstance(encoded, EncodedTags)
        return np.array([int((places >= 0).sum()) for places in encoded.places])

    def weighed_labels(self, encoded: Encoded) -> np.ndarray:
        """The tags of words that have a piece."""
        assert isinstance(encoded, EncodedTags)
        return np.concatenate([tags[places >= 0] for tags, places in zip(encoded.labels, encoded.places, strict=True)])

    def carried(self, logits: np.ndarray, theirs: Encoded, own: Encoded) -> np.ndarray:
        """What is at a word's first piece in one reading comes to its first piece in the other."""
        assert isinstance(theirs, EncodedTags)
        assert isinstance(own, EncodedTags)
        shape = (*logits.shape[:-2], int(own.lengths.max()), logits.shape[-1])
        found = np.full(shape, np.nan, dtype=logits.dtype)
        for row, values, before, after in zip(found, logits, theirs.places, own.places, strict=True):
            both = (before >= 0) & (after >= 0)
            row[..., after[both], :] = values[..., before[both], :]
        return found

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Mean over words; 0 where a batch has none."""
        total = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        return total / (labels != IGNORED).sum().clamp(min=1)

    def soft_positions(self, batch: Mapping[str, Tensor]) -> Tensor:
        return batch["labels"] != IGNORED

    def decode(self, logits: np.ndarray, encoded: Encoded) -> np.ndarray:
        """For each sentence the tags of its words (int64)."""
        assert isinstance(encoded, EncodedTags)
        best = logits.argmax(axis=-1)
        constant = self._constant()
        return _ragged(
            [np.where(places >= 0, row[places], constant) for row, places in zip(best, encoded.places, strict=True)]
        )

    def metrics(self, predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
        """Accuracy over words; of entities precision, recall and F1, right where type and both ends are (seqeval's
        strict mode, which is the scorer of CoNLL-2003 for well-formed tags).
        """
        given, right = np.concatenate(list(predictions)), np.concatenate(list(references))
        found = {"accuracy": float(np.mean(given == right))}
        if self.scheme is None:
            return found
        true, predicted, actual = self._entity_counts(predictions, references).sum(axis=0)
        return {
            "entity_f1": 2 * true / max(predicted + actual, 1),
            "precision": true / max(predicted, 1),
            "recall": true / max(actual, 1),
            **found,
        }

    def constant_predictions(self, references: np.ndarray) -> np.ndarray:
        return _ragged([np.full(len(tags), self._constant()) for tags in references])

    def _constant(self) -> int:
        """No entity; of tags that stand alone the most frequent."""
        if OUTSIDE in self.data.labels:
            return self.data.labels.index(OUTSIDE)
        return int(np.bincount(np.concatenate([example.label for example in self.data.splits["train"]])).argmax())

    def counts(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
        """Entities found right, found, and there; or words right, and there."""
        if self.scheme is not None:
            return self._entity_counts(predictions, references)
        return np.array([[np.sum(own == tags), len(tags)] for own, tags in zip(predictions, references, strict=True)])

    def from_counts(self, sums: np.ndarray) -> np.ndarray:
        if self.scheme is None:
            return sums[..., 0] / sums[..., 1]
        return 2 * sums[..., 0] / np.maximum(sums[..., 1] + sums[..., 2], 1)

    def per_label(self, predictions: np.ndarray, references: np.ndarray) -> tuple[PerLabel, ...]:
        """By type of entity; by tag where tags stand alone."""
        right, given, there = Counter[str](), Counter[str](), Counter[str]()
        for own, tags in zip(predictions, references, strict=True):
            found, actual = self._found(own), self._found(tags)
            for counter, entries in ((right, found & actual), (given, found), (there, actual)):
                counter.update(name for name, _, _ in entries)
        return tuple(
            PerLabel(
                label=name,
                n=there[name],
                precision=right[name] / max(given[name], 1),
                recall=right[name] / there[name],
                f1=2 * right[name] / (given[name] + there[name]),
            )
            for name in sorted(there)
        )

    def _entity_counts(self, predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
        """(n, 3) entities found right, found, and there."""
        pairs = [(self._found(own), self._found(tags)) for own, tags in zip(predictions, references, strict=True)]
        return np.array([[len(own & right), len(own), len(right)] for own, right in pairs])

    def _found(self, tags: np.ndarray) -> set[tuple[str, int, int]]:
        """What stands in a sentence: entities, or each word's tag."""
        names = [self.data.labels[tag] for tag in tags]
        if self.scheme is not None:
            return entities(names, self.scheme) if set(names) != {OUTSIDE} else set()
        return {(name, place, place + 1) for place, name in enumerate(names)}


def _ragged(rows: Sequence[np.ndarray]) -> np.ndarray:
    """An array of arrays, also where all have one length."""
    made = np.empty(len(rows), dtype=object)
    for place, row in enumerate(rows):
        made[place] = row
    return made
