"""A table of pieces carried over to another vocabulary.

Fast vocabulary transfer (Gee et al. 2022, arXiv 2402.09977): a piece that both have keeps its row; another one gets the
mean of the rows of the pieces that the old tokenizer cuts it into.
"""

import json
from collections.abc import Mapping

import torch
from tokenizers import decoders
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from teacher.encoder import BYTE_SPACE, space_marker

ROLES: Mapping[str, tuple[str, ...]] = {
    "pad": ("pad",),
    "unk": ("unk",),
    "mask": ("mask",),
    "cls": ("cls", "bos"),
    "bos": ("bos", "cls"),
    "sep": ("sep", "eos"),
    "eos": ("eos", "sep"),
}
"""Part of a special piece to those that play it elsewhere, the first there is."""

Form = tuple[bool, str]
"""Whether a piece begins a word, and its letters."""


@torch.no_grad()
def carried(table: Tensor, theirs: PreTrainedTokenizerBase, ours: PreTrainedTokenizerBase) -> Tensor:
    """(pieces of `ours`, d): the rows of `table` (pieces of `theirs` or more, d) for another tokenizer's pieces.

    Special pieces get the rows of those that play their part; what has no letters in common gets the mean of all rows.
    """
    known = {form: number for number, form in forms(theirs).items()}
    wanted = forms(ours)
    mean = table[: len(theirs)].mean(dim=0)
    made = mean.repeat(len(ours), 1)
    missing = {number: form for number, form in wanted.items() if form not in known}
    for number, form in wanted.items():
        if form in known:
            made[number] = table[known[form]]
    for number, ids in _cut(missing, theirs).items():
        made[number] = table[ids].mean(dim=0)
    for number, row in _specials(theirs, ours).items():
        made[number] = table[row]
    return made


def forms(tokenizer: PreTrainedTokenizerBase) -> dict[int, Form]:
    """Id to what a piece stands for in a text; special pieces, and single bytes of longer letters, are left out.

    WordPiece marks pieces that go on with a word, the others those that begin one.
    """
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    prefix = settings["model"].get("continuing_subword_prefix") or ""
    marker = space_marker(settings)
    specials = set(tokenizer.all_special_ids)
    read = {number: _form(piece, prefix, marker) for piece, number in tokenizer.get_vocab().items()}
    return {number: form for number, form in read.items() if number not in specials and "\ufffd" not in form[1]}


def _form(piece: str, prefix: str, marker: str | None) -> Form:
    if marker is None:
        return (False, piece.removeprefix(prefix)) if prefix and piece.startswith(prefix) else (True, piece)
    text = decoders.ByteLevel().decode([piece]) if marker == BYTE_SPACE else piece.replace(marker, " ")
    return text.startswith(" "), text.removeprefix(" ")


def _cut(pieces: Mapping[int, Form], tokenizer: PreTrainedTokenizerBase) -> dict[int, list[int]]:
    """Id to the tokenizer's pieces of its letters, where it knows them."""
    written = {number: (" " if starts else "") + text for number, (starts, text) in pieces.items() if text.strip()}
    if not written:
        return {}
    read = tokenizer(list(written.values()), add_special_tokens=False)["input_ids"]
    known = {
        number: [piece for piece in ids if piece != tokenizer.unk_token_id]
        for number, ids in zip(written, read, strict=True)
    }
    return {number: ids for number, ids in known.items() if ids}


def _specials(theirs: PreTrainedTokenizerBase, ours: PreTrainedTokenizerBase) -> dict[int, int]:
    found: dict[int, int] = {}
    for role, others in ROLES.items():
        number = getattr(ours, f"{role}_token_id")
        rows = [row for other in others if (row := getattr(theirs, f"{other}_token_id")) is not None]
        if number is not None and rows:
            found.setdefault(number, rows[0])
    return found
