"""Vocabulary trimming: a model with the pieces that its task's texts need, frequent others, and letters for the rest.

Of a multilingual model the table of pieces is most of the model, and a task needs a small part of it (Abdaoui et al.
2020, arXiv 2010.05609). Texts that were looked at are cut and answered as before, bit for bit; others too, but where a
piece that they had is gone they are cut into smaller ones.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from common.errors import UserError
from common.families import FAMILIES
from common.pooled import family_type
from common.quantised import refuse_int8
from students.frequent_pieces import frequent_pieces
from students.kept_pieces import check_kind, encoded, kept_pieces, piece_counts
from students.trimmed_tokenizer import trimmed_tokenizer

ID_NAMES = (
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "cls_token_id",
    "sep_token_id",
    "mask_token_id",
    "unk_token_id",
)


@dataclass(frozen=True, kw_only=True)
class Trimmed:
    """A model with fewer pieces."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    kept: list[int]
    """The old id of each row that is left, rising."""
    rows_before: int
    bytes_saved: int
    """Of weights in memory."""

    @property
    def rows_after(self) -> int:
        return len(self.kept)


def trim_vocabulary(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    *,
    least: int = 1,
    frequent: int = 0,
    general: Sequence[str] = (),
) -> Trimmed:
    """A copy of the model and its tokenizer with the pieces that `texts` need.

    Specials stay, and so does what is needed to write every letter that the vocabulary has.

    Args:
        model: with a table of pieces.
        tokenizer: its own.
        texts: cut as before afterwards, if `least` is 1.
        least: pieces that are rarer in them go.
        frequent: so many pieces stay beside, the most frequent of general text.
        general: that text, as documents; none: what the vocabulary says of it.

    Raises:
        UserError: a tokenizer that is not a fast one or of an unknown kind, ids that a family does not let change, or
            a model in int8.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UserError(
            f"a {type(tokenizer).__name__} cannot be trimmed: a tokenizer with a tokenizer.json was expected"
        )
    refuse_int8(model, "trimmed")
    table = cast(nn.Embedding, model.get_input_embeddings())
    if len(tokenizer) > table.num_embeddings:
        raise UserError(
            f"the tokenizer has {len(tokenizer):,} pieces and the model {table.num_embeddings:,}: they are no match"
        )
    settings = json.loads(backend.to_str())
    check_kind(settings)
    counts = piece_counts(backend, texts)
    used = {piece for piece, count in counts.items() if count >= least}
    used.update(frequent_pieces(backend, settings, frequent, alike=counts, text=general))
    kept = kept_pieces(backend, settings, texts, used)
    smaller, rows = trimmed_tokenizer(tokenizer, kept)
    _check_padding(model, tokenizer, smaller)
    before = model.get_memory_footprint()
    cut = _with_rows(model, rows)
    for name in ID_NAMES:
        old = getattr(model.config, name, None)
        if old in rows:
            setattr(cut.config, name, rows.index(old))
    if table.padding_idx is not None:
        cast(nn.Embedding, cut.get_input_embeddings()).padding_idx = rows.index(table.padding_idx)
    return Trimmed(
        model=cut.eval(),
        tokenizer=smaller,
        kept=rows,
        rows_before=table.num_embeddings,
        bytes_saved=before - cut.get_memory_footprint(),
    )


def pieces_per_word(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> float:
    """Pieces of the texts over their words, which are runs of characters between spaces; 0 without any word."""
    pieces = sum(len(ids) for _, ids in encoded(tokenizer.backend_tokenizer, texts))
    return pieces / max(1, sum(len(text.split()) for text in texts))


def _check_padding(model: PreTrainedModel, old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase) -> None:
    """Positions of RoBERTa and its kin count from the padding's id on."""
    family = FAMILIES.get(family_type(model.config))
    if family is not None and family.offset and old.pad_token_id != new.pad_token_id:
        raise UserError(
            f"the padding of this {family.title} has the id {old.pad_token_id}, behind pieces that go, and positions "
            "count from there: it cannot be trimmed"
        )


@torch.no_grad()
def _with_rows(model: PreTrainedModel, rows: Sequence[int]) -> PreTrainedModel:
    """A copy with these rows of the table of pieces, and of what gives pieces as output."""
    cut: Any = copy.deepcopy(model)
    places, total = torch.tensor(rows), cut.get_input_embeddings().num_embeddings
    output = cut.get_output_embeddings()
    tables = [cut.get_input_embeddings().weight, *([] if output is None else output.parameters())]
    tables += [value for name, value in cut.named_parameters() if name.endswith(("predictions.bias", "lm_head.bias"))]
    # Tied ones are one.
    for parameter in {parameter.data_ptr(): parameter for parameter in tables if parameter.shape[0] == total}.values():
        parameter[: len(rows)] = parameter[places].clone()
    cut.resize_token_embeddings(len(rows), mean_resizing=False)
    return cast(PreTrainedModel, cut)
