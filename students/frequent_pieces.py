"""The pieces of a vocabulary that general text needs most, to be kept beside those of a task's own texts.

A vocabulary tells by itself what was frequent in the text that it was learned from: WordPiece numbers its pieces in
that order (BERT's file, and those that are learned here), byte-pair encoding merges the most frequent pair first
(Sennrich et al. 2016, arXiv 1508.07909), and Unigram gives every piece its log probability (Kudo 2018, arXiv
1804.10959).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer

from students.kept_pieces import piece_counts


def frequent_pieces(
    tokenizer: Tokenizer, settings: Mapping[str, Any], number: int, *, alike: Iterable[str], text: Sequence[str] = ()
) -> list[str]:
    """At most `number` pieces of more than one letter, the most frequent first.

    Args:
        tokenizer: whose vocabulary it is.
        settings: its tokenizer.json.
        number: how many; those of one letter are not among them, since they stay in any case.
        alike: pieces that a text of the task was cut into. Where the vocabulary says what is frequent, pieces with
            a letter that occurs in none of these are passed over: of a multilingual one they are other scripts.
        text: documents to count in; none: what the vocabulary itself says.
    """
    model = settings["model"]
    mark = model.get("continuing_subword_prefix") or ""
    special = {entry["content"] for entry in settings["added_tokens"]}
    ranked: Iterable[str]
    if text:
        # Among equals the lower id comes first.
        ranked, letters = [piece for piece, _ in piece_counts(tokenizer, text).most_common()], None
    else:
        ranked, letters = RANKED[model["type"]](tokenizer, model), {letter for piece in alike for letter in piece}
    found: list[str] = []
    for piece in ranked:
        if len(found) >= number:
            break
        own = piece.removeprefix(mark)
        if len(own) > 1 and piece not in special and (letters is None or letters.issuperset(own)):
            found.append(piece)
    return found


def _by_number(tokenizer: Tokenizer, model: Mapping[str, Any]) -> Iterator[str]:
    """In the order of ids, without those that no text is cut into, as BERT's [unused7] or a capital in lower case."""
    vocabulary, mark = model["vocab"], model["continuing_subword_prefix"]
    for piece in sorted(vocabulary, key=lambda piece: vocabulary[piece]):
        own = piece.removeprefix(mark)
        normal = tokenizer.normalizer.normalize_str(own) if tokenizer.normalizer else own
        words = tokenizer.pre_tokenizer.pre_tokenize_str(normal) if tokenizer.pre_tokenizer else [(normal, (0, 0))]
        if [word for word, _ in words] == [own]:
            yield piece


def _by_merge(tokenizer: Tokenizer, model: Mapping[str, Any]) -> Iterator[str]:
    """What the merges give, in their order."""
    return (left + right for left, right in model["merges"])


def _by_score(tokenizer: Tokenizer, model: Mapping[str, Any]) -> list[str]:
    """The likeliest first; bytes that stand for unknown letters have no likelihood of their own and stay anyway."""
    scores = [(piece, score) for piece, score in model["vocab"] if not (len(piece) == 6 and piece.startswith("<0x"))]
    return [piece for piece, _ in sorted(scores, key=lambda entry: -entry[1])]


RANKED: dict[str, Callable[[Tokenizer, Mapping[str, Any]], Iterable[str]]] = {
    "WordPiece": _by_number,
    "BPE": _by_merge,
    "Unigram": _by_score,
}
"""By the type of model in tokenizer.json: all pieces, the most frequent first."""
