"""WordPiece vocabularies that exist: a vocab.txt, a folder or a hub id as a tokenizer."""

import json
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerFast

from common.artifact import TOKENIZER
from common.errors import UserError
from common.keys import short_key
from common.words import first_line
from teacher.hub import offline_if_unreachable
from teacher.sources import minilm_folder
from teacher.tokenizer import POSITIONS, SPECIALS


def load_wordpiece(source: str) -> PreTrainedTokenizerFast:
    """The BERT tokenizer at `source`: a vocab.txt with a piece on each line, a folder, a hub id, or minilm.

    A bare vocab.txt does not say whether it keeps upper case: it does if a piece has some.

    Raises:
        UserError: not there, no WordPiece, or without [PAD], [UNK], [CLS], [SEP] or [MASK].
    """
    path = Path(source).expanduser()
    if path.is_file():
        return _from_pieces(path)
    if path.is_dir():
        inside = path / "model"
        return _from_anywhere(source, str(inside if inside.is_dir() else path))
    packaged = minilm_folder() if source == "minilm" else None
    if packaged is not None:
        return _from_anywhere(source, str(packaged))
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or source.endswith(".txt"):
        raise UserError(
            f"--tokenizer {source} does not exist. Give a vocab.txt, a folder with a tokenizer, or a hub id"
        )
    with offline_if_unreachable():
        return _from_anywhere(source, source)


def _from_pieces(path: Path) -> PreTrainedTokenizerFast:
    pieces: dict[str, int] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--tokenizer {path} cannot be read ({error}): a vocab.txt in UTF-8 was expected") from error
    for number, line in enumerate(lines, 1):
        piece = line.rstrip("\r")
        if piece in pieces:
            raise UserError(f"{path}:{number} has the piece {piece!r} a second time: a vocabulary has each once")
        pieces[piece] = number - 1
    missing = [name for name in SPECIALS if name not in pieces]
    if missing:
        raise UserError(
            f"{path} lacks {', '.join(missing)}: a BERT vocabulary with one piece on each line was expected"
        )
    cased = any(piece != piece.lower() for piece in pieces if not (piece.startswith("[") and piece.endswith("]")))
    return BertTokenizer(vocab=pieces, do_lower_case=not cased, model_max_length=POSITIONS)


def _from_anywhere(source: str, where: str) -> PreTrainedTokenizerFast:
    # Without its files AutoTokenizer makes up a vocabulary of the special pieces alone.
    if Path(where).is_dir() and not any((Path(where) / name).is_file() for name in TOKENIZER):
        raise UserError(f"--tokenizer {source} has no tokenizer: one of {', '.join(TOKENIZER)} was expected in it")
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(where)
    except Exception as error:  # the tokenizers library's errors have no common base
        raise UserError(f"--tokenizer {source} cannot be loaded: {first_line(error)}") from error
    check_wordpiece(tokenizer)
    specials = ("pad", "unk", "cls", "sep", "mask")
    missing = [name for name in specials if getattr(tokenizer, f"{name}_token_id") is None]
    if missing:
        raise UserError(f"--tokenizer {source} has no {', '.join(missing)} piece: a BERT vocabulary has all of them")
    found: PreTrainedTokenizerFast = tokenizer
    return found


def check_wordpiece(tokenizer: PreTrainedTokenizerFast) -> None:
    """Raises UserError for a tokenizer that does not cut words into WordPieces."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    kind = None if backend is None else json.loads(backend.to_str())["model"].get("type")
    if kind != "WordPiece":
        raise UserError(
            f"this tokenizer is {'of another kind' if kind is None else f'a {kind} one'}: a WordPiece vocabulary was "
            "expected, as BERT, DistilBERT, ELECTRA and MPNet have; only such a one can be extended with words"
        )


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerFast) -> str:
    """sha256 over what decides the pieces of a text, first 16 hex digits."""
    content = json.loads(tokenizer.backend_tokenizer.to_str()) | {"truncation": None, "padding": None}
    return short_key(content, 16)
