"""Which encoder a teacher is fine-tuned from, and one pretrained here from nothing where that is asked for."""

import json
from pathlib import Path

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from common.files import write_text
from common.progress import say
from teacher.data import TaskData
from teacher.hub import offline_if_unreachable
from teacher.pretrain import pretrain
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.scratch_options import ScratchOptions
from teacher.sources import minilm_folder, read_config, resolve, tokenizer_in, weights_identity
from teacher.tokenizer import LARGEST

MINI = ScratchOptions()
"""What is pretrained where nothing is said of it."""

_LOOKED_AT = 1000
"""Texts that say in which script a task is written."""


def encoder_for(
    source: str,
    folder: Path,
    *,
    corpus: str,
    precision: str,
    checkpoint_every: int,
    data: TaskData | None = None,
    scratch: ScratchOptions = MINI,
) -> str:
    """`source` with "auto" and "scratch" resolved, which a model folder or hub id is not.

    Args:
        source: auto (minilm where its package is installed and the task in Latin script, else scratch), scratch, or
            anything else as it is.
        folder: where a pretrained encoder is kept, for every later use of the same settings.
        corpus: the text it is pretrained on; "task": the training texts; "auto": pydocs, but the training texts of
            tasks in another script.
        precision: "auto", "fp32" or "bf16".
        checkpoint_every: steps.
        data: the task.
        scratch: size and length of one that is pretrained.

    Raises:
        UserError: such options, and nothing is pretrained.
    """
    if source == "auto":
        source, why = _resolved(data)
        say(f"teacher: {source}{why}")
    if source != "scratch":
        scratch.refuse_unless_scratch(source, "the teacher")
        return source
    if data is not None and (corpus == "task" or (corpus == "auto" and in_another_script(data))):
        corpus = _written(data, folder)
    elif corpus in ("auto", "task"):
        corpus = "pydocs"
    config = PretrainConfig(
        corpus=corpus,
        size=scratch.size,
        steps=scratch.scratch_steps,
        minutes=scratch.scratch_minutes,
        precision=precision,
        checkpoint_every=checkpoint_every,
        resume=True,
    )
    return str(pretrain(config, folder / f"{config.size}-{Path(corpus).stem}-{scratch.length}", beside=True))


def _resolved(data: TaskData | None) -> tuple[str, str]:
    """What "auto" is, and why where it is not minilm."""
    if minilm_folder() is None:
        return "scratch", " (the extra minilm is not installed)"
    if data is not None and in_another_script(data):
        return "scratch", " (the texts are mostly not in Latin letters, which are all that minilm knows)"
    return "minilm", ""


def in_another_script(data: TaskData) -> bool:
    """Whether most letters of the first training texts are not among a to z: pydocs has no vocabulary for them."""
    texts = "".join(row.text + (row.pair or "") for row in data.splits["train"][:_LOOKED_AT])
    letters = sum(map(str.isalpha, texts))
    return 2 * sum(letter.isascii() and letter.isalpha() for letter in texts) < letters


def _written(data: TaskData, folder: Path) -> str:
    """The training texts as a corpus, a document each; held-out texts are not among them."""
    path = folder / f"{data.name}-text-{data.fingerprint}.jsonl"
    texts = dict.fromkeys("\n".join(filter(None, (row.text, row.pair))) for row in data.splits["train"])
    lines = (json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts)
    write_text(path, "".join(lines))
    return str(path)


def expected_config(source: str, data: TaskData | None = None, scratch: ScratchOptions = MINI) -> PretrainedConfig:
    """The configuration that `encoder_for(source)` will have, before anything is pretrained.

    The vocabulary of one pretrained from nothing is not known yet: the largest is taken.

    Raises:
        UserError: no such folder, or the hub cannot give it; options for an encoder from nothing, which it is not.
    """
    if source == "auto":
        source = _resolved(data)[0]
    if source == "scratch":
        return bert_config(PretrainConfig(size=scratch.size), LARGEST)
    scratch.refuse_unless_scratch(source, "the teacher")
    where = resolve(source)
    if Path(where).is_dir():
        return read_config(where)
    with offline_if_unreachable():
        return read_config(where)


def expected_tokenizer(source: str, data: TaskData | None = None) -> PreTrainedTokenizerBase | None:
    """The tokenizer that `encoder_for(source)` will have; None for one that is pretrained from nothing.

    Raises:
        UserError: no such folder, no tokenizer in it, or the hub cannot give it.
    """
    if source == "auto":
        source = _resolved(data)[0]
    if source == "scratch":
        return None
    where = resolve(source)
    if Path(where).is_dir():
        return tokenizer_in(where)
    with offline_if_unreachable():
        return tokenizer_in(where)


def expected_weights(source: str) -> str | None:
    """A checksum over the weights of `encoder_for(source)`; None for one that is pretrained from nothing.

    Raises:
        UserError: no such folder.
    """
    if source == "auto":
        source = _resolved(None)[0]
    return None if source == "scratch" else weights_identity(source)
