"""Answers of heads that give each word a tag: the entities of a text, or its words with their tags."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from tokenizers import Encoding

from distill.predict_answers import DIGITS, Head, Outputs
from distill.predict_texts import Text
from teacher.cutting import ENTRY, words_of
from teacher.schemes import CANONICAL, OUTSIDE, canonical, entities, label_scheme
from teacher.word_pieces import first_pieces


class WordTags(Head):
    """Entities by IOB2 or BIOES, with place and probability; of tags that stand alone every word's, null where a text
    was cut before it.
    """

    pairs: ClassVar[bool] = False
    places: ClassVar[Literal["", "text", "pair"]] = "text"

    def answers(
        self, texts: Sequence[Text], encodings: Sequence[Encoding], outputs: Sequence[Outputs]
    ) -> list[dict[str, Any]]:
        return [self._answer(*row) for row in zip(texts, encodings, outputs, strict=True)]

    def _answer(self, text: Text, encoding: Encoding, outputs: Outputs) -> dict[str, Any]:
        words = np.array(words_of(text.text, self.config.get(ENTRY, "words")), dtype=np.int64).reshape(-1, 2)
        special = np.array(encoding.special_tokens_mask, dtype=bool)
        places = first_pieces(np.array(encoding.offsets).reshape(-1, 2), special, words)
        logits = outputs["logits"].astype(np.float64)
        powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
        rows = (powers / powers.sum(axis=-1, keepdims=True))[np.maximum(places, 0)]
        tags = [self.labels[tag] if place >= 0 else None for tag, place in zip(rows.argmax(-1), places, strict=True)]
        sure = rows.max(axis=-1)
        if self._scheme is None:
            named = zip(words.tolist(), tags, sure.tolist(), strict=True)
            return {"words": [self._span(text.text, start, end, tag, value) for (start, end), tag, value in named]}
        # A word that the model did not read is no part of an entity.
        (marked,) = canonical([[tag or OUTSIDE for tag in tags]], self._scheme)
        found = entities(marked, CANONICAL[self._scheme]) if set(marked) != {OUTSIDE} else set()
        return {
            "entities": [
                self._span(
                    text.text, int(words[first, 0]), int(words[last - 1, 1]), name, float(sure[first:last].min())
                )
                for name, first, last in sorted(found, key=lambda entity: entity[1])
            ]
        }

    @cached_property
    def _scheme(self) -> str | None:
        """That of the labels; None: they stand alone."""
        return label_scheme(self.labels)

    @staticmethod
    def _span(text: str, start: int, end: int, label: str | None, probability: float) -> dict[str, Any]:
        value = round(probability, DIGITS) if label is not None else None
        return {"text": text[start:end], "label": label, "start": start, "end": end, "probability": value}

    def columns(self) -> list[str]:
        return ["words" if self._scheme is None else "entities"]

    def cells(self, answer: Mapping[str, Any]) -> list[Any]:
        (spans,) = answer.values()
        return ["|".join(f"{span['text']}={span['label'] or ''}" for span in spans)]
