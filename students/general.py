"""Students that start from a folder: an encoder that was distilled on general text once, for all tasks."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel

from common.errors import UserError
from common.words import first_line
from students.presets import STARTS, StudentConfig


def student_from(folder: Path | str, *, name: str, family: str) -> StudentConfig:
    """The student whose shape and first weights are those of the encoder in `folder`.

    Args:
        folder: config.json, weights and tokenizer, as `python -m distill.general` writes them.
        name: of the student.
        family: that the student's recipe is for, a key of STARTS.

    Raises:
        UserError: no such folder, or an encoder of another family.
    """
    config = folder_configuration(folder)
    if config.model_type != family:
        raise UserError(
            f"--student-from {folder}: its model_type is {config.model_type!r}, student {name!r} is of the family "
            f"{family!r}: name the student that it was made as, or make one with python -m distill.general"
        )
    return StudentConfig(
        name=name,
        family=family,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        ffn=config.hidden_dim if family == "distilbert" else config.intermediate_size,
        embedding=config.embedding_size if family == "albert" else None,
        sharing=_sharing(config) if family == "albert" else None,
        start="general",
        folder=str(folder),
    )


def _sharing(config: PretrainedConfig) -> str | int:
    if part := getattr(config, "shared_part", None):
        return str(part)
    return {1: "all", config.num_hidden_layers: "none"}.get(config.num_hidden_groups, config.num_hidden_groups)


def folder_configuration(folder: Path | str, **changes: Any) -> PretrainedConfig:
    """config.json of a local folder, with `changes`; raises UserError where it is none of a student's family."""
    if not (Path(folder) / "config.json").is_file():
        raise UserError(f"--student-from {folder} has no config.json: python -m distill.general writes such folders")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, **changes)
    except (OSError, ValueError) as error:
        raise UserError(f"--student-from {folder}: config.json cannot be read ({first_line(error)})") from error
    if config.model_type not in STARTS:
        raise UserError(
            f"--student-from {folder}: its model_type is {config.model_type!r}, expected one of {', '.join(STARTS)}"
        )
    return config


@torch.no_grad()
def fill_from_folder(student: PreTrainedModel, folder: str) -> None:
    """Set the student's encoder, in place, to the one in `folder`; a pooler that the folder lacks stays as it is.

    Raises:
        UserError: weights missing or of another shape.
    """
    try:
        source, found = AutoModel.from_pretrained(
            folder, local_files_only=True, output_loading_info=True, dtype=torch.float32
        )
    except Exception as error:  # safetensors' and transformers' errors have no common base
        raise UserError(f"--student-from {folder}: cannot be loaded ({first_line(error)})") from error
    missing = {name for name in found["missing_keys"] if "position_ids" not in name}
    lacking = {name for name in missing if not name.startswith("pooler")}
    if lacking or found["mismatched_keys"]:
        names = sorted(lacking) or sorted(str(entry) for entry in found["mismatched_keys"])
        raise UserError(f"--student-from {folder}: weights are missing or of another shape: {', '.join(names[:3])}")
    weights = source.state_dict()
    for name, parameter in student.base_model.named_parameters():
        if name not in missing:
            parameter.copy_(weights[name])
