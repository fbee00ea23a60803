"""Answers of heads that give each word a tag: the entities of a text, or its words with their tags."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from tokenizers import Encoding

from distill.predict_answers import DIGITS, Head, Outputs
from distill.predict_texts import Text
from teacher.schemes import OUTSIDE, entities, scheme_of
from teacher.word_pieces import first_pieces

# Signs of a word's own stay in it (U.N., 3-0); brackets, quotes and a sentence's last sign are words of their own.
# Chinese characters are words, as BERT's tokenizer has them.
_WORDS = re.compile(r"[\u3400-\u9fff]|[^\s\u3400-\u9fff\w]|\w(?:[^\s\u3400-\u9fff]*\w)?(?:(?<=\.\w)\.)?")


def words_of(text: str) -> list[tuple[int, int]]:
    """First character of each word, and the one after its last.

    >>> [text[first:last] for text in ["(The U.N. won 3-0.)"] for first, last in words_of(text)]
    ['(', 'The', 'U.N.', 'won', '3-0', '.', ')']
    """
    return [match.span() for match in _WORDS.finditer(text)]


class WordTags(Head):
    """Entities by IOB2 or BIOES, with place and probability; of tags that stand alone every word's."""

    pairs: ClassVar[bool] = False

    def answers(
        self, texts: Sequence[Text], encodings: Sequence[Encoding], outputs: Sequence[Outputs]
    ) -> list[dict[str, Any]]:
        return [self._answer(*row) for row in zip(texts, encodings, outputs, strict=True)]

    def _answer(self, text: Text, encoding: Encoding, outputs: Outputs) -> dict[str, Any]:
        words = np.array(words_of(text.text), dtype=np.int64).reshape(-1, 2)
        special = np.array(encoding.special_tokens_mask, dtype=bool)
        places = first_pieces(np.array(encoding.offsets).reshape(-1, 2), special, words)
        logits = outputs["logits"].astype(np.float64)
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        rows = (powers / powers.sum(axis=-1, keepdims=True))[np.maximum(places, 0)]
        tags = [
            self.labels[tag] if place >= 0 else self._nothing
            for tag, place in zip(rows.argmax(-1), places, strict=True)
        ]
        sure = np.where(places >= 0, rows.max(axis=-1), 1.0)
        scheme = scheme_of([self.labels])
        if scheme is None:
            named = zip(words.tolist(), tags, sure.tolist(), strict=True)
            return {"words": [self._span(text.text, start, end, tag, value) for (start, end), tag, value in named]}
        found = sorted(entities(tags, scheme), key=lambda entity: entity[1]) if set(tags) != {OUTSIDE} else []
        return {
            "entities": [
                self._span(
                    text.text, int(words[first, 0]), int(words[last - 1, 1]), name, float(sure[first:last].min())
                )
                for name, first, last in found
            ]
        }

    @property
    def _nothing(self) -> str:
        """The tag of a word that the model did not read."""
        return OUTSIDE if OUTSIDE in self.labels else self.labels[0]

    @staticmethod
    def _span(text: str, start: int, end: int, label: str, probability: float) -> dict[str, Any]:
        value = round(probability, DIGITS)
        return {"text": text[start:end], "label": label, "start": start, "end": end, "probability": value}

    def columns(self) -> list[str]:
        return ["words" if scheme_of([self.labels]) is None else "entities"]

    def cells(self, answer: Mapping[str, Any]) -> list[Any]:
        (spans,) = answer.values()
        return ["|".join(f"{span['text']}={span['label']}" for span in spans)]
