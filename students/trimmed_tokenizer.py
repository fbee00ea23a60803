"""A tokenizer with some of its pieces, which keep their order."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from common.errors import UserError

SETTINGS, CONFIG = "tokenizer.json", "tokenizer_config.json"


def trimmed_tokenizer(tokenizer: PreTrainedTokenizerBase, kept: set[str]) -> tuple[PreTrainedTokenizerBase, list[int]]:
    """The tokenizer with these pieces alone, and the old id of each new one.

    Raises:
        UserError: a tokenizer whose class numbers its pieces in a way of its own.
    """
    old = tokenizer.get_vocab()
    places = sorted(place for piece, place in old.items() if piece in kept)
    new = {place: number for number, place in enumerate(places)}
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        path = Path(folder) / SETTINGS
        settings = _cut(json.loads(path.read_text(encoding="utf-8")), kept, new)
        for file in Path(folder).iterdir():
            if file.name not in (SETTINGS, CONFIG):
                file.unlink()
        Tokenizer.from_str(json.dumps(settings)).save(str(path))
        _drop_numbers(Path(folder) / CONFIG)
        made = AutoTokenizer.from_pretrained(folder)
    found = made.get_vocab()
    wrong = [piece for piece, place in old.items() if piece in kept and found.get(piece) != new[place]]
    if wrong or len(made) != len(places):
        raise UserError(
            f"a {type(tokenizer).__name__} cannot be trimmed: it numbers its pieces in a way of its own "
            f"({', '.join(map(repr, wrong[:3])) or len(made)})"
        )
    return made, places


def _cut(settings: dict[str, Any], kept: set[str], new: Mapping[int, int]) -> dict[str, Any]:
    """The settings with these pieces and their new ids."""
    model = settings["model"]
    if model["type"] == "Unigram":
        unknown = model["unk_id"]
        model["vocab"] = [entry for entry in model["vocab"] if entry[0] in kept]
        model["unk_id"] = None if unknown is None else new[unknown]
    else:
        model["vocab"] = {piece: new[place] for piece, place in model["vocab"].items() if piece in kept}
    if model["type"] == "BPE":
        model["merges"] = [pair for pair in model["merges"] if kept.issuperset((*pair, "".join(pair)))]
    for entry in settings["added_tokens"]:
        entry["id"] = new[entry["id"]]
    if settings["padding"]:
        settings["padding"]["pad_id"] = new[settings["padding"]["pad_id"]]
    _renumber(settings["post_processor"], new)
    return settings


def _renumber(part: dict[str, Any] | None, new: Mapping[int, int]) -> None:
    """New ids for the specials that are put around a text."""
    if part is None:
        return
    for inner in part.get("processors", ()):
        _renumber(inner, new)
    for name in ("sep", "cls"):
        if isinstance(part.get(name), list):
            part[name][1] = new[part[name][1]]
    if part["type"] == "TemplateProcessing":
        for entry in part["special_tokens"].values():
            entry["ids"] = [new[place] for place in entry["ids"]]


def _drop_numbers(path: Path) -> None:
    """Ids that older configurations repeat; tokenizer.json has them."""
    value = json.loads(path.read_text(encoding="utf-8"))
    value.pop("added_tokens_decoder", None)
    path.write_text(json.dumps(value), encoding="utf-8")
