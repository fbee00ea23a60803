"""The folder a model lives in: save, load, verify. transformers' Auto classes load it without this project.

A folder holds model.safetensors, config.json, the tokenizer's files, a model card (README.md) and MANIFEST, the list
of what was written, by which a later save knows that nothing of the user's lies among it.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from common.aligned import aligned
from common.architectures import register_architectures
from common.card import CardText, card_page, label_names
from common.entries import PAIRS
from common.errors import UserError
from common.files import new_folder, write_json, write_text
from common.heads import AUTO_CLASSES, SPANS, head_of_config, head_of_model
from common.quantised import refuse_int8
from common.words import first_line

WEIGHTS, CONFIG, CARD, MANIFEST = "model.safetensors", "config.json", "README.md", "distillery.json"
TOKENIZER = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "spm.model", "sentencepiece.bpe.model")
"""One of these must be there."""


def save(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    *,
    card: CardText,
    replace: bool = False,
    files: Mapping[str, str] | None = None,
    max_length: int | None = None,
    pairs: bool | None = None,
) -> None:
    """Write the model folder: complete, or not at all. `files` are further text files, by name.

    `max_length` is that of the task, in pieces: the tokenizer's file says it to whoever predicts with the model.
    `pairs`: whether its texts are pairs, which config.json says; None leaves what it says.

    A model folder that was saved before is replaced with `replace`; a folder with anything else in it never is.

    Raises:
        UserError: the folder is taken, or cannot be written (disk full, no permission), or the model is in int8.
    """
    refuse_int8(model, "saved")
    check_free(folder, replace=replace)
    if pairs is not None:
        setattr(model.config, PAIRS, pairs)
    with new_folder(folder) as target:
        model.save_pretrained(target, state_dict=state_to_save(model), max_shard_size="1000GB")
        _fill_labels(target / CONFIG, model.config)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if max_length is not None and backend is not None:
            # Else the file says how long a text of the last tokenising was, which may have been general text.
            backend.enable_truncation(max_length)
        tokenizer.save_pretrained(target)
        write_text(target / CARD, card_page(card, model, (target / WEIGHTS).stat().st_size))
        for name, text in (files or {}).items():
            write_text(target / name, text)
        write_manifest(target)


def state_to_save(model: PreTrainedModel) -> dict[str, Tensor]:
    """Every tensor by name; one that the model shares beyond what its class ties is written in each of its places.

    transformers refuses to save those, since its classes would not share them again on loading. Written out, the folder
    gives the same outputs, at the size of a model that shares nothing.
    """
    state = model.state_dict()
    seen: set[int] = set()
    for name, tensor in state.items():
        if name in model.all_tied_weights_keys:
            continue
        if tensor.numel() and tensor.data_ptr() in seen:
            state[name] = tensor.clone()
        seen.add(tensor.data_ptr())
    return state


def load(folder: Path | str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model, in evaluation mode, and the tokenizer of a local folder. Every weight comes from the file.

    Raises:
        UserError: a missing or damaged file, no labels, or tensors that are missing, superfluous or of another shape.
    """
    folder = Path(folder)
    register_architectures()
    _check_files(folder)
    config = _config(folder)
    _check_tensors(folder, config)
    with _explained(folder, "the weights"):
        model = AUTO_CLASSES[head_of_config(config)].from_pretrained(
            folder, config=config, local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
    with _explained(folder, "the tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return aligned(model).eval(), tokenizer


def verify(folder: Path, model: PreTrainedModel, batch: Mapping[str, Tensor]) -> None:
    """Raise UserError unless the model that `folder` holds gives the logits of `model` on `batch`, bit for bit."""
    reloaded, _ = load(folder)
    ours, theirs = _logits(model, batch), _logits(reloaded.to(model.device), batch)  # type: ignore[arg-type]
    if not torch.equal(ours, theirs):
        difference = (ours - theirs).abs().max().item()
        raise UserError(f"{folder}: the saved model's logits differ by up to {difference:.2g}: save it again")


def write_manifest(folder: Path) -> None:
    """List the files of a new model folder in it, the list included."""
    written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    write_json(folder / MANIFEST, {"files": [*written, MANIFEST]})


def check_free(folder: Path, *, replace: bool) -> None:
    """Raise UserError unless a model folder may be written there: it is new, empty, or a model's and to be replaced."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not folder.is_dir():
        raise UserError(f"{folder} is a file: a model needs a folder, choose another name")
    strangers = _strangers(folder)
    if strangers:
        raise UserError(
            f"{folder} holds something else ({', '.join(strangers[:3])}): it is left as it is, choose another"
        )
    if not replace:
        raise UserError(f"{folder} holds a model already: choose another folder, or ask for it to be replaced")


def _strangers(folder: Path) -> list[str]:
    """Files in `folder` that no save wrote, as far as its manifest tells."""
    try:
        known = set(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        known = set()
    found = (
        path for path in sorted(folder.rglob("*")) if path.is_file() or path.is_symlink() or not any(path.iterdir())
    )
    return [name for name in (str(path.relative_to(folder)) for path in found) if name not in known]


def _fill_labels(path: Path, config: PretrainedConfig) -> None:
    """Write the labels out: transformers leaves them out where they are its own default."""
    value = json.loads(path.read_text(encoding="utf-8"))
    names = label_names(config)
    value["id2label"] = {str(index): name for index, name in enumerate(names)}
    value["label2id"] = {name: index for index, name in enumerate(names)}
    write_json(path, value)


def _check_files(folder: Path) -> None:
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: a folder with a saved model was expected")
    missing = [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in TOKENIZER):
        missing.append("the tokenizer (tokenizer.json or vocab.txt)")
    if len(missing) == 3:
        raise UserError(f"{folder} is not a model folder: {', '.join(missing)} were expected in it")
    if missing:
        pickled = " Pickled weights (.bin, .pt) are not read." if WEIGHTS in missing else ""
        raise UserError(f"{folder} lacks {' and '.join(missing)}: save the model again.{pickled}")


def _config(folder: Path) -> PretrainedConfig:
    path = folder / CONFIG
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}): save the model again") from error
    if not isinstance(value, dict) or not value.get("id2label"):
        raise UserError(f"{path} has no labels: id2label with a name for every class was expected")
    with _explained(folder, "the configuration"):
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _check_tensors(folder: Path, config: PretrainedConfig) -> None:
    """Compare names and shapes in the weights file with what the configuration needs."""
    path = folder / WEIGHTS
    try:
        with safe_open(path, framework="pt") as stream:
            found = {name: tuple(stream.get_slice(name).get_shape()) for name in stream.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path} is damaged or cut off ({error}): save the model again") from error
    with _explained(folder, "the configuration"), torch.device("meta"):
        needed = AUTO_CLASSES[head_of_config(config)].from_config(config, trust_remote_code=False).state_dict()
    shapes = {name: tuple(tensor.shape) for name, tensor in needed.items()}
    problems = [f"{name} is missing" for name in shapes if name not in found]
    problems += [f"{name} is not part of this model" for name in found if name not in shapes]
    problems += [
        f"{name} is {list(found[name])} instead of {list(shape)}"
        for name, shape in shapes.items()
        if name in found and found[name] != shape
    ]
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise UserError(f"{path} does not fit {CONFIG}: {'; '.join(problems[:3])}{more}. Save the model again")


@contextlib.contextmanager
def _explained(folder: Path, what: str) -> Iterator[None]:
    try:
        yield
    # The tokenizers library raises plain Exception for a damaged file, so nothing narrower will do.
    except Exception as error:
        raise UserError(f"{folder}: {what} cannot be read ({first_line(error)[:200]}): save the model again") from error


def _logits(model: PreTrainedModel, batch: Mapping[str, Tensor]) -> Tensor:
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            output = model(**{name: tensor.to(model.device) for name, tensor in batch.items() if name != "labels"})
            spans = head_of_model(model) == SPANS
            return torch.stack([output.start_logits, output.end_logits]) if spans else output.logits
    finally:
        model.train(training)
