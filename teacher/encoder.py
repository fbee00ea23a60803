"""Text to ids of pieces, many times faster than one sentence after another where words can be looked up.

Imports neither torch nor transformers, so that processes which only tokenise start in a moment.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

BYTE_SPACE = "Ġ"
"""How byte-level BPE writes a space."""

MOST_WORDS = 200_000
"""Words whose pieces are remembered: some 50 MB. The frequent ones are soon there again after all are forgotten."""


class TextEncoder:
    """Ids of texts, without specials, without a limit of length and without padding.

    A BERT tokenizer treats each run of characters between spaces by itself, so its pieces are looked up; only runs that
    were not met before are tokenised. Other tokenizers see whole texts. Byte-level ones (RoBERTa) mark words by the
    space before them, which is put before every text, since texts follow one another.
    """

    def __init__(self, tokenizer: "Tokenizer | PreTrainedTokenizerFast") -> None:
        self.tokenizer = tokenizer if isinstance(tokenizer, Tokenizer) else tokenizer.backend_tokenizer
        self.kind: type[np.generic] = np.uint16 if max(self.tokenizer.get_vocab().values()) < 2**16 else np.int32
        """The type of number that holds every id."""
        self._known: dict[str, list[int]] = {}
        self._by_words = _words_stand_alone(self.tokenizer)
        self._lead = "" if self._by_words else self._space_before()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text."""
        if not self._by_words:
            return self._tokenise([self._lead + text for text in texts])
        split = [text.split(" ") for text in texts]
        if len(self._known) > MOST_WORDS:
            self._known.clear()
        missing = list(dict.fromkeys(itertools.chain.from_iterable(split)).keys() - self._known.keys())
        self._known.update(zip(missing, self._tokenise(missing), strict=True))
        known = self._known.__getitem__
        return [list(itertools.chain.from_iterable(map(known, words))) for words in split]

    def _space_before(self) -> str:
        """A space where the tokenizer takes one for a part of the next word and does not put it there itself."""
        marked = space_marker(json.loads(self.tokenizer.to_str())) is not None
        return " " if marked and self._tokenise(["a"]) != self._tokenise([" a"]) else ""

    def _tokenise(self, texts: Sequence[str]) -> list[list[int]]:
        # Packaged tokenizers may come with both switched on; transformers sets them anew in each of its own calls.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def space_marker(settings: Mapping[str, Any]) -> str | None:
    """The letter that stands for a space, by the part of a tokenizer.json that cuts texts into words; None: no one."""
    part = settings.get("pre_tokenizer") or {}
    for entry in part.get("pretokenizers", [part]):
        if entry.get("type") == "ByteLevel":
            return BYTE_SPACE
        if entry.get("type") == "Metaspace":
            return str(entry["replacement"])
    return None


def _words_stand_alone(tokenizer: Tokenizer) -> bool:
    """Whether a text's pieces are those of its parts between spaces, one after another."""
    added: Iterable[str] = (token.content for token in tokenizer.get_added_tokens_decoder().values())
    return (
        isinstance(tokenizer.model, WordPiece)
        and isinstance(tokenizer.normalizer, BertNormalizer | None)
        and isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        and not any(" " in token for token in added)
    )
