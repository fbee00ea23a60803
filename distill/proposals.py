"""What a masked language model would put in a word's place: the candidates of TinyBERT's augmentation."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from common.aligned import aligned
from common.errors import UserError
from common.progress import Progress
from common.words import first_line
from distill.word_vectors import first_largest
from distill.words import CONTINUES, WordedText, has_words, whole_word_ids
from teacher.batches import attention_mask, padded, padded_length
from teacher.hub import offline_if_unreachable
from teacher.sources import read_tokenizer, resolve

HEAD = "cls.predictions.transform."
"""Weights that a BERT with a masked-language-modelling head has under this name."""
TOKENS = 2048
"""Pieces a batch, padding included; twice as many were 5 % slower for a 6/384 BERT on one core."""


@dataclass(frozen=True, kw_only=True)
class MaskedModel:
    """A BERT with its masked-language-modelling head, and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase


def load_masked_model(source: str) -> MaskedModel | None:
    """The BERT at `source` (a folder or a hub id) with its MLM head; None where its weights have no such head.

    Raises:
        UserError: not loadable, or no WordPiece BERT: whole words could not be told from parts of words.
    """
    where = resolve(source)
    if Path(where).is_dir():
        return _load(source, where)
    with offline_if_unreachable():
        return _load(source, where)


def _surely_headless(where: str) -> bool:
    """Whether a folder's safetensors can be seen to lack the head: loading them would warn of a corrupted model."""
    files = list(Path(where).glob("*.safetensors"))
    names: list[str] = []
    for file in files:
        with safe_open(file, framework="pt") as stored:
            names += stored.keys()
    return bool(files) and not any(name.startswith(HEAD) for name in names)


def _load(source: str, where: str) -> MaskedModel | None:
    try:
        if _surely_headless(where):
            return None
        model, info = AutoModelForMaskedLM.from_pretrained(where, output_loading_info=True, dtype=torch.float32)
    except Exception as error:  # safetensors' and transformers' errors have no common base
        raise UserError(f"{source} cannot be loaded as a masked language model: {first_line(error)}") from error
    if model.config.model_type != "bert":
        raise UserError(f"{source} is a {model.config.model_type}: words are proposed by a BERT with an MLM head")
    if any(name.startswith(HEAD) for name in info["missing_keys"]):
        return None
    tokenizer = read_tokenizer(where, model)
    if not has_words(tokenizer) or tokenizer.mask_token_id is None:
        raise UserError(f"{source}: its tokenizer has no {CONTINUES} pieces or no mask: a WordPiece BERT was expected")
    return MaskedModel(model=aligned(model).eval(), tokenizer=tokenizer)


@torch.inference_mode()
def propose(
    masked: MaskedModel,
    texts: Sequence[WordedText],
    count: int,
    *,
    precision: str,
    tokens: int = TOKENS,
) -> list[dict[int, tuple[str, ...]]]:
    """For each text: place of a one-piece word to the `count` likeliest whole words there, likeliest first.

    Each word is hidden alone, all others stand as they are (TinyBERT's released code; copies share the candidates).
    Batches hold sequences of like length, and only the hidden place is projected to the vocabulary. With "bf16" the
    whole model is computed in it: under autocast a third of the time went into conversions.
    """
    model = copy.deepcopy(masked.model).bfloat16() if precision == "bf16" else masked.model
    asked = [(row, word.place) for row, text in enumerate(texts) for word in text.words if word.pieces == 1]
    lengths = np.array([len(texts[row].ids) for row, _ in asked], dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    found: list[dict[int, tuple[str, ...]]] = [{} for _ in texts]
    allowed = torch.from_numpy(whole_word_ids(masked.tokenizer))
    names = masked.tokenizer.convert_ids_to_tokens(allowed.tolist())
    head = _head(model, allowed)
    with Progress("augment: proposals", total=len(asked), unit="word") as bar:
        for chunk in _chunks(order, lengths, tokens):
            pairs = [asked[index] for index in chunk]
            best = _best(model, head, masked.tokenizer, [(texts[row].ids, place) for row, place in pairs], count)
            for (row, place), ids in zip(pairs, best.tolist(), strict=True):
                found[row][place] = tuple(names[number] for number in ids)
            bar.advance(len(chunk))
    return found


def _chunks(order: np.ndarray, lengths: np.ndarray, tokens: int) -> list[np.ndarray]:
    """`order`, by rising length, in runs of at most `tokens` pieces with padding."""
    chunks, start = [], 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * int(lengths[order[end]]) <= tokens:
            end += 1
        chunks.append(order[start:end])
        start = end
    return chunks


def _head(model: Any, allowed: torch.Tensor) -> torch.nn.Module:
    """The MLM head with the rows of `allowed` alone: ## pieces are never asked for."""
    predictions = model.cls.predictions
    rows = predictions.decoder.weight[allowed]
    decoder = torch.nn.Linear(rows.shape[1], len(rows), device=rows.device, dtype=rows.dtype)
    decoder.weight.copy_(rows)
    decoder.bias.copy_(predictions.decoder.bias[allowed])
    return torch.nn.Sequential(predictions.transform, decoder)


def _best(
    model: PreTrainedModel,
    head: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[tuple[np.ndarray, int]],
    count: int,
) -> torch.Tensor:
    """(rows, count): places of the largest logits at each row's hidden place, among the head's outputs."""
    sequences, places = [ids for ids, _ in rows], np.array([place for _, place in rows])
    length = padded_length(map(len, sequences), limit=model.config.max_position_embeddings)
    ids = padded(sequences, length, int(tokenizer.pad_token_id))
    ids[np.arange(len(rows)), places] = tokenizer.mask_token_id
    mask = attention_mask(sequences, length)
    states = model.base_model(
        input_ids=torch.from_numpy(ids).to(model.device), attention_mask=torch.from_numpy(mask).to(model.device)
    ).last_hidden_state
    logits = head(states[torch.arange(len(rows)), torch.from_numpy(places)]).float().cpu()
    return torch.from_numpy(first_largest(logits, min(count, logits.shape[1])))
