"""General text for the stages that need no labels."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from transformers import BatchEncoding, PreTrainedTokenizerBase

from common.blocks import blocks
from common.errors import UserError
from common.progress import say
from teacher.batches import Batches, attention_mask, padded, padded_length
from teacher.corpus import Corpus, load_corpus
from teacher.data import TaskData

MOST_DOCUMENTS = 200_000
"""Read of a corpus: a stage on general text needs some thousand of them."""

MOST_CHARACTERS = 1_000_000_000
"""Of those documents, which are held in memory: of books they would else be many gigabytes."""


def named_corpus(source: str, option: str) -> Corpus:
    """The corpus that an option names.

    Raises:
        UserError: nothing is there, or no text is in it; the option is named.
    """
    try:
        corpus = load_corpus(source)
        next(corpus.texts(), None)
    except UserError as error:
        raise UserError(f"{option} {source}: {error}") from error
    return corpus


def documents_for(source: str, data: TaskData, limit: int, *, option: str = "--text") -> list[str]:
    """`limit` documents at most as running text, drawn from all; "task" takes the training texts without labels.

    They come in the order of the draw, so that the first few are of all the text too. It does not depend on the run's
    seed: every seed of a student reads the same text. `option` is what a message calls the source.
    """
    if source == "task":
        texts = [" ".join(filter(None, (example.text, example.pair))) for example in data.splits["train"]]
    else:
        texts = first_texts(named_corpus(source, option))
    if not texts:
        raise UserError(f"{option} {source}: no text in it")
    chosen = np.random.default_rng(0).permutation(len(texts))[:limit]
    return [texts[index] for index in chosen]


def first_texts(corpus: Corpus) -> list[str]:
    """Its first documents as running text, as many as are read of a corpus; where there are more, that is said."""
    documents = iter(corpus)
    texts: list[str] = []
    held = 0
    for document in itertools.islice(documents, MOST_DOCUMENTS):
        texts.append(" ".join(document))
        held += len(texts[-1])
        if held >= MOST_CHARACTERS:
            break
    if next(documents, None) is not None:
        say(f"note: of {corpus.name} the first {len(texts):,} documents are used")
    return texts


def pieces(documents: Sequence[str], tokenizer: PreTrainedTokenizerBase, length: int) -> list[np.ndarray]:
    """Every document as sequences of at most `length` pieces, specials included: a long one gives several."""
    return [
        np.asarray(ids, dtype=np.int64)
        for _, encoding in cut(documents, tokenizer, length)
        for ids in encoding["input_ids"]
    ]


def cut(
    documents: Sequence[str], tokenizer: PreTrainedTokenizerBase, length: int, *, offsets: bool = False
) -> Iterator[tuple[Sequence[str], BatchEncoding]]:
    """Some documents after others, and their sequences of at most `length` pieces; with `offsets` where these are."""
    for part in blocks(documents):
        encoding = tokenizer(
            list(part),
            truncation=True,
            max_length=length,
            return_overflowing_tokens=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=offsets,
        )
        yield part, encoding


def text_batches(sequences: Sequence[np.ndarray], pad: int, *, batch_size: int, seed: int) -> Batches:
    """Batches of bare text."""
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    limit = int(lengths.max())

    def collate(indices: Sequence[int], step: int) -> dict[str, Tensor]:
        rows = [sequences[index] for index in indices]
        length = padded_length(map(len, rows), limit=limit)
        ids = torch.from_numpy(padded(rows, length, pad))
        mask = torch.from_numpy(attention_mask(rows, length))
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}

    return Batches(lengths=lengths, batch_size=batch_size, seed=seed, collate=collate)
