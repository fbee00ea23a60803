"""Which encoder a teacher is fine-tuned from, and one pretrained here from nothing where that is asked for."""

from pathlib import Path

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from common.progress import say
from teacher.hub import offline_if_unreachable
from teacher.pretrain import pretrain
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.sources import minilm_folder, read_config, resolve, tokenizer_in
from teacher.tokenizer import LARGEST

SIZE = "mini"
"""Of the encoder that is pretrained here."""


def encoder_for(source: str, folder: Path, *, corpus: str, precision: str, checkpoint_every: int) -> str:
    """`source` with "auto" and "scratch" resolved, which a model folder or hub id is not.

    Args:
        source: auto (minilm where its package is installed, else scratch), scratch, or anything else as it is.
        folder: where a pretrained encoder is kept, for every later use of the same settings.
        corpus: the text it is pretrained on.
        precision: "auto", "fp32" or "bf16".
        checkpoint_every: steps.
    """
    if source == "auto":
        source = "minilm" if minilm_folder() is not None else "scratch"
        say(f"teacher: {source}" + (" (the extra minilm is not installed)" if source == "scratch" else ""))
    if source != "scratch":
        return source
    config = PretrainConfig(
        corpus=corpus, size=SIZE, precision=precision, checkpoint_every=checkpoint_every, resume=True
    )
    return str(pretrain(config, folder / f"{config.size}-{Path(corpus).stem}-{config.budget}"))


def expected_config(source: str) -> PretrainedConfig:
    """The configuration that `encoder_for(source)` will have, before anything is pretrained.

    The vocabulary of one pretrained from nothing is not known yet: the largest is taken.

    Raises:
        UserError: no such folder, or the hub cannot give it.
    """
    if source == "auto":
        source = "minilm" if minilm_folder() is not None else "scratch"
    if source == "scratch":
        config = PretrainConfig(size=SIZE)
        return bert_config(config, LARGEST)
    where = resolve(source)
    if Path(where).is_dir():
        return read_config(where)
    with offline_if_unreachable():
        return read_config(where)


def expected_tokenizer(source: str) -> PreTrainedTokenizerBase | None:
    """The tokenizer that `encoder_for(source)` will have; None for one that is pretrained from nothing.

    Raises:
        UserError: no such folder, no tokenizer in it, or the hub cannot give it.
    """
    if source == "auto":
        source = "minilm" if minilm_folder() is not None else "scratch"
    if source == "scratch":
        return None
    where = resolve(source)
    if Path(where).is_dir():
        return tokenizer_in(where)
    with offline_if_unreachable():
        return tokenizer_in(where)
