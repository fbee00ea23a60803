"""Small tokenizers of the other kinds, learned from a few sentences: byte-level BPE (RoBERTa) and Unigram (XLM-R)."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, RobertaTokenizerFast

SENTENCES = [
    "the film is good and the plot is great",
    "a bad film, a poor and boring story",
    "funny actor, great music, not very good play",
    "this array is a model token return value list",
] * 5


def byte_level(folder: Path, *, vocabulary: int = 330) -> RobertaTokenizerFast:
    """RoBERTa's: bytes, a space belongs to the word after it; no segments; padding is 1."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True)
    tokenizer.save(str(folder / "raw.json"))
    made = RobertaTokenizerFast(tokenizer_object=tokenizer, model_max_length=64)
    made.save_pretrained(folder)
    return RobertaTokenizerFast.from_pretrained(folder)


def unigram(folder: Path, *, vocabulary: int = 90) -> PreTrainedTokenizerFast:
    """SentencePiece's way: a mark stands for the space before a word."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    named = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    more = {"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"}
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **named, **more)
    made.save_pretrained(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder)
