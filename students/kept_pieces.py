"""Which pieces of a vocabulary have to stay, so that texts are cut as before and nothing known becomes unknown.

Works on the settings of a fast tokenizer, as tokenizer.json has them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from common.errors import unknown_name

MOST_AT_ONCE = 10_000
"""Texts that are tokenised at a time."""


def kept_pieces(
    tokenizer: Tokenizer, settings: Mapping[str, Any], texts: Sequence[str], used: Iterable[str]
) -> set[str]:
    """The pieces to keep: the used ones with what they are made from, specials, and a floor that every known letter can
    be written with.

    `used`: pieces of the texts. Where all of them are among these, the texts are cut as before, whatever else is kept.
    """
    model = settings["model"]
    special = {entry["content"] for entry in settings["added_tokens"]}
    return special | KINDS[model["type"]](tokenizer, model, set(used), texts)


def check_kind(settings: Mapping[str, Any]) -> None:
    """Raise UserError for a kind of vocabulary that is not known."""
    if settings["model"]["type"] not in KINDS:
        raise unknown_name("kind of vocabulary", settings["model"]["type"], KINDS)


def piece_counts(tokenizer: Tokenizer, texts: Sequence[str]) -> Counter[str]:
    """How often each piece occurs in the texts, which are not cut."""
    counts: Counter[int] = Counter()
    for _, ids in encoded(tokenizer, texts):
        counts.update(ids)
    names = {place: piece for piece, place in tokenizer.get_vocab(with_added_tokens=True).items()}
    return Counter({names[place]: count for place, count in sorted(counts.items())})


def encoded(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Each text with the ids of its pieces, specials left out."""
    whole = Tokenizer.from_str(tokenizer.to_str())
    whole.no_truncation()
    whole.no_padding()
    for start in range(0, len(texts), MOST_AT_ONCE):
        part = list(texts[start : start + MOST_AT_ONCE])
        for text, entry in zip(part, whole.encode_batch_fast(part, add_special_tokens=False), strict=True):
            yield text, entry.ids


def _wordpiece(tokenizer: Tokenizer, model: Mapping[str, Any], used: set[str], texts: Sequence[str]) -> set[str]:
    """The longest piece that fits comes first: among fewer pieces it is still the longest.

    A word is unknown where nothing fits any more. The pieces that fitted until then stay too, or a shorter one might
    lead past that place.
    """
    vocabulary, mark, unknown = set(model["vocab"]), model["continuing_subword_prefix"], model["unk_token"]
    kept = used | {unknown} | _letters(vocabulary, mark)
    if unknown in used:
        for word in _unknown_words(tokenizer, unknown, texts):
            kept |= set(_greedy(word, vocabulary, mark, model["max_input_chars_per_word"]))
    return kept


def _letters(vocabulary: set[str], mark: str) -> set[str]:
    """Pieces of one letter, at a word's start and within, and every piece with a letter that has none such."""

    def forms(piece: str) -> list[str]:
        inner = piece.startswith(mark) and len(piece) > len(mark)
        letters = piece.removeprefix(mark) if inner else piece
        return [mark + letter if inner or place else letter for place, letter in enumerate(letters)]

    return {piece for piece in vocabulary if len(cut := forms(piece)) == 1 or not vocabulary.issuperset(cut)}


def _unknown_words(tokenizer: Tokenizer, unknown: str, texts: Sequence[str]) -> set[str]:
    """Words of the texts that are unknown, as the tokenizer's own steps cut them out."""
    place = tokenizer.token_to_id(unknown)
    words: set[str] = set()
    for text, ids in encoded(tokenizer, texts):
        if place in ids:
            normal = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
            words.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))
    return words


def _greedy(word: str, vocabulary: set[str], mark: str, longest: int) -> Iterable[str]:
    """The pieces that fit one after the other, up to the word's end or where none does."""
    start = 0
    while start < len(word) <= longest:
        lead = mark if start else ""
        end = next((end for end in range(len(word), start, -1) if lead + word[start:end] in vocabulary), None)
        if end is None:
            return
        yield lead + word[start:end]
        start = end


def _pairs(tokenizer: Tokenizer, model: Mapping[str, Any], used: set[str], texts: Sequence[str]) -> set[str]:
    """Byte-pair encoding applies the first of the merges that it can: among fewer, all that were applied are the first
    as before. What a kept piece may be merged from stays.
    """
    parents: dict[str, list[tuple[str, str]]] = {}
    for left, right in model["merges"]:
        parents.setdefault(left + right, []).append((left, right))
    kept, waiting = set(used), list(used)
    while waiting:
        for pair in parents.get(waiting.pop(), ()):
            waiting += [piece for piece in pair if piece not in kept]
            kept.update(pair)
    return kept | {piece for piece in model["vocab"] if piece not in parents}


def _unigram(tokenizer: Tokenizer, model: Mapping[str, Any], used: set[str], texts: Sequence[str]) -> set[str]:
    """The likeliest way to cut a text is still the likeliest among fewer.

    What an unknown letter costs is counted from the least likely piece, which stays for that.
    """
    scores = dict(map(tuple, model["vocab"]))
    least = min(scores, key=lambda piece: scores[piece])
    unknown = set() if model["unk_id"] is None else {model["vocab"][model["unk_id"]][0]}
    bytes_ = {piece for piece in scores if len(piece) == 6 and piece.startswith("<0x")}
    letters = {piece for piece in scores if len(piece) == 1 or not scores.keys() >= set(piece)}
    return used | letters | unknown | bytes_ | {least}


KINDS: dict[str, Callable[[Tokenizer, Mapping[str, Any], set[str], Sequence[str]], set[str]]] = {
    "WordPiece": _wordpiece,
    "BPE": _pairs,
    "Unigram": _unigram,
}
"""By the type of model in tokenizer.json."""
