"""From a corpus to what pretraining reads: a vocabulary, the text as pieces on disk, and documents held out.

The tokenised text lies in the user's cache folder ($XDG_CACHE_HOME/distillery, or ~/.cache/distillery), since every
seed, length, size and objective reads the same: later runs with the same text and tokenizer use it. It takes about half
the text's bytes and may be deleted at any time. What one run learns from and holds out lies with its work.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from common.files import new_folder, sole_use, write_json
from common.hardware import usable_cores
from common.progress import say
from teacher.corpus import Corpus
from teacher.extraction import cache_folder
from teacher.pieces import Pieces
from teacher.sample import check_documents, extend_vocabulary, learn_vocabulary
from teacher.shards import Shards, tokenise
from teacher.wordpiece import tokenizer_fingerprint

FORMAT = 2
"""Counts up when the rules for documents, sentences, shards or vocabularies change: older tokenised text is left."""

HELD_OUT = 0.015
"""Share of the documents that is never learned from."""

MOST_HELD_OUT = 1000
"""Documents; and pairs of them that are evaluated."""

SUMMARY = "text.json"

_DOCUMENTS = 3
"""Keeps this stream of random numbers apart from those of pairs, masks and batches."""


@dataclass(frozen=True, kw_only=True)
class PretrainData:
    """A corpus, tokenised."""

    tokenizer: PreTrainedTokenizerFast
    learned: Pieces
    held_out: Pieces
    notes: tuple[str, ...] = ()
    """What had to be repaired in the text."""


def prepare_data(
    corpus: Corpus,
    folder: Path,
    *,
    seed: int,
    tokenizer: PreTrainedTokenizerFast | None = None,
    extend: int | None = None,
    vocabulary: int | None = None,
    cased: bool = False,
    workers: int | None = None,
    enough: int | None = None,
) -> PretrainData:
    """Tokenise once, hold documents out, and choose those to learn from; kept in `folder`, and read from there later.

    Nothing but some 30 bytes a document is held in memory, whatever the size of the text. Several processes may call
    it at the same time: one does the work.

    Args:
        corpus: the text.
        folder: for this run; what is there already is read.
        seed: draws the documents that are held out, and those that are learned from where there are `enough`.
        tokenizer: None: a WordPiece one is learned from the text, the same for every seed.
        extend: add so many words of the text to `tokenizer`, which must be a WordPiece one.
        vocabulary: pieces to learn; None: by the size of the text, see `vocabulary_size`.
        cased: whether it keeps upper case and accents.
        workers: processes that tokenise; None: one for each core.
        enough: pieces to learn from, at least; None: all there are.

    Raises:
        UserError: fewer than four documents, a vocabulary smaller than the alphabet, a full disk.
    """
    if folder.exists():
        return _load(folder)
    home = _home(corpus, _identity(tokenizer, extend, vocabulary, cased), folder)

    def make() -> tuple[PreTrainedTokenizerFast, int | None]:
        if tokenizer is None:
            return learn_vocabulary(corpus, vocabulary, cased)
        return (tokenizer, None) if extend is None else extend_vocabulary(corpus, tokenizer, extend)

    with sole_use(home, wait=True):
        # Another process may have been first.
        if not folder.exists():
            _choose(_tokenised(corpus, home, make, workers or usable_cores()), home, folder, seed, enough)
    return _load(folder)


def _identity(
    tokenizer: PreTrainedTokenizerFast | None, extend: int | None, vocabulary: int | None, cased: bool
) -> str:
    """What decides the pieces of a text, and which tokenizer is written beside a model."""
    if tokenizer is None:
        return f"learned {vocabulary} {cased}"
    return f"{type(tokenizer).__name__} {tokenizer.model_max_length} {tokenizer_fingerprint(tokenizer)} {extend}"


def _home(corpus: Corpus, tokenizer: str, folder: Path) -> Path:
    """Where the tokenised text is kept; beside `folder` where the cache cannot be written."""
    rules = (FORMAT, corpus.cut, tokenizers.__version__)
    key = hashlib.sha256(repr((corpus.fingerprint(), tokenizer, rules)).encode()).hexdigest()[:16]
    home = cache_folder() / f"text-{re.sub(r'[^A-Za-z0-9_-]+', '-', corpus.name)[:40]}-{key}"
    try:
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    except OSError:
        pass
    say(f"{home} cannot be written: the tokenised text is kept with this run alone")
    return folder.with_name(f"{folder.name}-text")


def _tokenised(
    corpus: Corpus, home: Path, make: Callable[[], tuple[PreTrainedTokenizerFast, int | None]], workers: int
) -> Shards:
    """All of the text; `make` gives the tokenizer, and the count of documents where that is known then."""
    total = None
    if not (home / "tokenizer").is_dir():
        tokenizer, total = make()
        with new_folder(home / "tokenizer") as target:
            tokenizer.save_pretrained(target)
    say(f"tokenised text: {home}")
    return tokenise(corpus, home / "tokenizer" / "tokenizer.json", home, workers=workers, total=total)


def _choose(shards: Shards, home: Path, folder: Path, seed: int, enough: int | None) -> None:
    """Documents in random order: the first are held out, the next are learned from, both in the order of the text.

    Their order does not matter later: pairs are served in random order.
    """
    lengths = shards.lengths()
    check_documents(len(lengths))
    order = np.random.default_rng((seed, 0, _DOCUMENTS)).permutation(len(lengths))
    count = min(MOST_HELD_OUT, max(2, round(HELD_OUT * len(lengths))))
    learned = order[count:]
    if enough is not None:
        reached = np.cumsum(lengths[learned], dtype=np.int64)
        learned = learned[: max(2, int(np.searchsorted(reached, enough)) + 1)]
    counts = {"documents": len(lengths), "pieces": int(lengths.sum(dtype=np.int64))}
    say(f"{counts['documents']:,} documents of {counts['pieces']:,} pieces, {count:,} of them held out")
    masks = {}
    with new_folder(folder) as target:
        for name, numbers in (("held_out", order[:count]), ("learned", learned)):
            masks[target / name] = np.zeros(len(lengths), dtype=bool)
            masks[target / name][numbers] = True
        shards.gather(masks)
        shutil.copytree(home / "tokenizer", target / "tokenizer")
        write_json(target / SUMMARY, {**counts, "notes": list(shards.notes)})


def _load(folder: Path) -> PretrainData:
    learned, held_out = (Pieces.load(folder / name) for name in ("learned", "held_out"))
    tokenizer: Any = AutoTokenizer.from_pretrained(folder / "tokenizer")
    notes = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))["notes"]
    return PretrainData(tokenizer=tokenizer, learned=learned, held_out=held_out, notes=tuple(notes))
