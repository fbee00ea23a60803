"""Schemes of tags that mark where an entity begins and ends, and the entities that they stand for."""

from collections.abc import Sequence

from seqeval.scheme import IOB2, IOBES, Entities, Token

OUTSIDE = "O"
NAMES: dict[str, type[Token]] = {"IOB2": IOB2, "BIOES": IOBES}
"""What tags are turned into, and seqeval's class for it."""
CANONICAL = {"IOB": "IOB2", "IOB2": "IOB2", "BIOES": "BIOES", "BMES": "BIOES", "BILOU": "BIOES"}
"""Scheme to the one of NAMES that `canonical` turns it into."""


def is_tag(text: str) -> bool:
    """Whether it could be a tag of an entity: O, or a letter for the place, a hyphen and a name.

    >>> [is_tag(text) for text in ("O", "B-PER", "S-LOC", "NNP", "B-", "good")]
    [True, True, True, False, False, False]
    """
    return text == OUTSIDE or (len(text) > 2 and text[0] in "BIESLUM" and text[1] == "-")


def scheme_of(sentences: Sequence[Sequence[str]]) -> str | None:
    """The scheme that these tags are written in: IOB, IOB2, BIOES, BMES, BILOU; None: no tags of entities.

    Without B before each entity it is IOB (Ramshaw and Marcus 1995), where B only parts neighbours of one type.
    """
    tags = {tag for tags in sentences for tag in tags}
    if not all(map(is_tag, tags)) or tags <= {OUTSIDE}:
        return None
    letters = {tag[0] for tag in tags if tag != OUTSIDE}
    for name, own in (("BMES", "M"), ("BILOU", "LU"), ("BIOES", "ES")):
        if letters & set(own):
            return name
    return "IOB2" if all(map(_begins_each, sentences)) else "IOB"


def label_scheme(labels: Sequence[str]) -> str | None:
    """The scheme of a model's labels, in any order; None: they are no tags of entities.

    >>> label_scheme(["O", "B-X", "B-Y", "I-X", "I-Y"]), label_scheme(["I-X", "O"]), label_scheme(["NN", "DT"])
    ('IOB2', 'IOB', None)
    """
    found = scheme_of([labels])
    return "IOB2" if found == "IOB" and any(label[0] == "B" for label in labels) else found


def canonical(sentences: Sequence[Sequence[str]], scheme: str) -> list[list[str]]:
    """IOB as IOB2; BMES and BILOU as BIOES; others as they are.

    >>> canonical([["I-PER", "I-PER", "B-PER", "O"]], "IOB"), canonical([["B-X", "M-X", "E-X", "S-Y"]], "BMES")
    ([['B-PER', 'I-PER', 'B-PER', 'O']], [['B-X', 'I-X', 'E-X', 'S-Y']])
    """
    if scheme == "IOB":
        return [_begun(tags) for tags in sentences]
    renamed = {"BMES": {"M": "I"}, "BILOU": {"L": "E", "U": "S"}}.get(scheme, {})
    return [[renamed.get(tag[0], tag[0]) + tag[1:] for tag in tags] for tags in sentences]


def entities(tags: Sequence[str], scheme: str) -> set[tuple[str, int, int]]:
    """Type, first word and the word after the last of each entity, by seqeval's strict reading of a scheme of NAMES."""
    found = Entities([list(tags)], NAMES[scheme]).entities[0]
    return {(entity.tag, entity.start, entity.end) for entity in found}


def _begins_each(tags: Sequence[str]) -> bool:
    """Whether every entity begins with B."""
    return list(tags) == _begun(tags)


def _begun(tags: Sequence[str]) -> list[str]:
    """With B where an I has nothing of its type before it; B and O as they are (conlleval's reading).

    It is right of IOB and IOB2 alike, so that one ill-formed tag does not change how the others are read.
    """
    before = (OUTSIDE, *tags)
    return [
        f"B-{tag[2:]}" if tag[0] == "I" and last[1:] != tag[1:] else tag
        for last, tag in zip(before, tags, strict=False)
    ]
