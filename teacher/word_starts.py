"""Which pieces of a vocabulary begin a word, by the family of its tokenizer."""

import json
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from common.errors import UserError
from teacher.encoder import space_marker


def word_starts(tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """(vocabulary,) boolean: True for pieces that begin a word, specials among them.

    WordPiece (BERT, DistilBERT, ELECTRA) marks the pieces that go on with a word, mostly by ##; byte-level BPE
    (RoBERTa) and SentencePiece (ALBERT, XLM-R) write the space before a word into its first piece. Punctuation that
    follows without a space belongs to the word before it in these two, and is a word of its own in BERT's.

    Raises:
        UserError: the tokenizer marks words in another way.
    """
    settings = _settings(tokenizer)
    prefix = _following_prefix(settings)
    marker = None if prefix else space_marker(settings)
    if not prefix and marker is None:
        raise UserError(
            f"the tokenizer ({type(tokenizer).__name__}) marks neither the beginning of words nor the pieces inside "
            "them in a way that is known here: use --masking piece"
        )
    starts = np.ones(len(tokenizer), dtype=bool)
    for piece, number in tokenizer.get_vocab().items():
        starts[number] = piece.startswith(marker) if marker else not piece.startswith(str(prefix))
    starts[list(tokenizer.all_special_ids)] = True
    return starts


def _settings(tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """What the tokenizer's own library says of it; nothing for one in pure Python."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return {} if backend is None else json.loads(backend.to_str())


def _following_prefix(settings: dict[str, Any]) -> str | None:
    """What a WordPiece vocabulary writes before pieces inside words."""
    model = settings.get("model") or {}
    return model.get("continuing_subword_prefix") if model.get("type") == "WordPiece" else None
