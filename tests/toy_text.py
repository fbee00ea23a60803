"""Text as pieces for tests: documents of numbered ones, batches of random ones, a small corpus with its tokenizer."""

import random

import numpy as np
from transformers import BertConfig

from teacher.pieces import Pieces, encode_documents
from teacher.pretrain_text import PretrainData
from teacher.tokenizer import train_wordpiece

VOCABULARY = 1000
"""Pieces of `padded_pairs`."""

WORDS = ("ba", "be", "bi", "bo", "bu", "da", "de", "di")

Documents = list[list[list[int]]]


def pieces_of(documents: Documents) -> Pieces:
    """Documents of sentences of pieces as flat arrays."""
    sentences = [sentence for document in documents for sentence in document]
    return Pieces(
        ids=np.array([piece for sentence in sentences for piece in sentence], dtype=np.int32),
        sentences=np.cumsum([0, *map(len, sentences)]),
        documents=np.cumsum([0, *map(len, documents)]),
    )


def numbered(rng: random.Random, count: int, most_sentences: int, most_pieces: int) -> Documents:
    """`count` documents of random sizes; every piece of them is another number, rising from 5."""
    number = iter(range(5, 10**8))
    return [
        [[next(number) for _ in range(rng.randint(1, most_pieces))] for _ in range(rng.randint(1, most_sentences))]
        for _ in range(count)
    ]


def padded_pairs(rng: np.random.Generator, rows: int, length: int, shortest: int = 5) -> tuple[np.ndarray, ...]:
    """[CLS] ... [SEP] ... [SEP] rows of random lengths, padded; ids, candidates, lengths."""
    lengths = rng.integers(shortest, length + 1, size=rows)
    ids = rng.integers(5, VOCABULARY, size=(rows, length))
    columns = np.arange(length)
    ids[:, 0] = 2
    ids[columns == lengths[:, None] - 1] = 3
    ids[columns == lengths[:, None] // 2] = 3
    ids[columns >= lengths[:, None]] = 0
    return ids, ids > 4, lengths


def small_config(vocabulary: int) -> BertConfig:
    """Two layers of 32, without dropout."""
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )


def small_corpus() -> PretrainData:
    """60 documents of seven sentences of six words, ten of them held out, with a vocabulary of 25 pieces."""
    rng = np.random.default_rng(0)
    documents = [[" ".join(rng.choice(WORDS, size=6)) for _ in range(7)] for _ in range(60)]
    tokenizer = train_wordpiece([sentence for document in documents for sentence in document], vocabulary=60)
    return PretrainData(
        tokenizer=tokenizer,
        learned=encode_documents(documents[:50], tokenizer),
        held_out=encode_documents(documents[50:], tokenizer),
    )
