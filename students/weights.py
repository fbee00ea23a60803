"""First weights: random ones, and those taken over from a teacher's modules."""

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from common.errors import UserError
from common.output_layer import output_path
from students.presets import StudentConfig


def randomise(model: nn.Module, *, seed: int, std: float) -> None:
    """BERT's first weights: matrices and tables truncated normal (2 std), biases and padding rows 0, LayerNorm 1 and 0.

    Draws from a generator of its own, so the caller's random state stays as it is.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
            if isinstance(module, nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx].zero_()
            if isinstance(module, nn.LayerNorm):
                module.weight.fill_(1.0)
            if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
                module.bias.zero_()


@torch.no_grad()
def copy_mean(target: nn.Module, sources: Sequence[nn.Module]) -> None:
    """Set every parameter of `target` to the mean of the same one over `sources` (one source: a copy)."""
    for name, parameter in target.named_parameters():
        parameter.copy_(torch.stack([source.get_parameter(name).float().cpu() for source in sources]).mean(0))


def copy_layer(target: nn.Module, sources: Sequence[nn.Module], names: Mapping[str, str]) -> None:
    """`copy_mean` for each part of a layer; `names` maps the path in a source layer to the path in the target."""
    for theirs, ours in names.items():
        copy_mean(target.get_submodule(ours), [source.get_submodule(theirs) for source in sources])


def same_head(student: PreTrainedModel, teacher: PreTrainedModel) -> bool:
    """Whether the teacher has an output layer for the student's labels, so that its weights mean something here."""
    return output_path(teacher) is not None and student.config.id2label == teacher.config.id2label


def check_same_width(config: StudentConfig, teacher: PretrainedConfig) -> None:
    """Raise UserError unless whole layers of the teacher fit into the student."""
    ours = (config.hidden, config.heads, config.ffn)
    theirs = (teacher.hidden_size, teacher.num_attention_heads, teacher.intermediate_size)
    if ours != theirs:
        raise UserError(
            f"student {config.name!r} cannot start from this teacher: width, heads and FFN must be the teacher's, "
            f"{theirs}, and are {ours}. Change them, or choose --start random"
        )
