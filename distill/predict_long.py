"""Single texts that are longer than a model reads, as the model was trained to read them. Imports no torch."""

from collections.abc import Callable, Sequence

from tokenizers import Encoding, Tokenizer

from common.errors import unknown_name

Encode = Callable[[Sequence[str]], list[list[Encoding]]]
"""From texts to the rows of each; the overflowing parts of the only row of a text are what was left out of it."""


def single_texts(tokenizer: Tokenizer, long: str, max_length: int, stride: int) -> Encode:
    """What encodes texts as `teacher.tasks.long_texts.encode_long` does. Other texts are cut by the tokenizer.

    Raises:
        UserError: a way that is not known.
    """
    if long not in WAYS:
        raise unknown_name("way to read long texts in config.json", long, WAYS)
    room = max_length - tokenizer.num_special_tokens_to_add(is_pair=False)
    return lambda texts: WAYS[long](tokenizer, texts, max_length, min(stride, room - 1)) if texts else []


def _windows(tokenizer: Tokenizer, texts: Sequence[str], max_length: int, stride: int) -> list[list[Encoding]]:
    tokenizer.enable_truncation(max_length, stride=stride, strategy="longest_first")
    encodings = tokenizer.encode_batch(list(texts))
    tokenizer.enable_truncation(max_length, strategy="longest_first")
    return [[encoding, *encoding.overflowing] for encoding in encodings]


def _ends(tokenizer: Tokenizer, texts: Sequence[str], max_length: int, stride: int) -> list[list[Encoding]]:
    """The first quarter of the room, and the end."""
    room = max_length - tokenizer.num_special_tokens_to_add(is_pair=False)
    tokenizer.no_truncation()
    bare = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    tokenizer.enable_truncation(max_length, strategy="longest_first")
    return [[tokenizer.post_process(_cut_within(encoding, room))] for encoding in bare]


def _cut_within(encoding: Encoding, room: int) -> Encoding:
    if len(encoding.ids) <= room:
        return encoding
    head, tail = Encoding.merge([encoding]), Encoding.merge([encoding])
    head.truncate(room // 4, direction="right")
    tail.truncate(room - room // 4, direction="left")
    return Encoding.merge([head, tail], growing_offsets=False)


WAYS: dict[str, Callable[[Tokenizer, Sequence[str], int, int], list[list[Encoding]]]] = {
    "head+tail": _ends,
    "windows": _windows,
}
"""How, by the entry in config.json."""
