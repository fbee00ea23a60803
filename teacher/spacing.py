"""White space between sentences, for tokenizers to which it matters."""

from collections.abc import Iterable, Iterator

from transformers import PreTrainedTokenizerFast

from teacher.tokenizer import encode_sentences


def spaced(documents: Iterable[list[str]], tokenizer: PreTrainedTokenizerFast) -> Iterator[list[str]]:
    """`documents` for a tokenizer that gets them sentence by sentence: with a space before each but the first.

    A byte-level tokenizer (RoBERTa) takes the space for a part of the word. For the others nothing changes.
    """
    matters = encode_sentences(tokenizer, ["a"]) != encode_sentences(tokenizer, [" a"])
    for document in documents:
        yield [document[0], *(f" {sentence}" for sentence in document[1:])] if matters else document
