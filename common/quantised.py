"""Models whose linear maps are torch's 8-bit integers: the last thing that is done to a model in torch."""

from torch import nn

from common.errors import UserError


def in_int8(model: nn.Module) -> bool:
    """Whether a linear map of the model is one of torch's 8-bit ones, which have no weights to cut, train or save."""
    return any(type(module).__module__.startswith("torch.ao.nn.quantized") for module in model.modules())


def refuse_int8(model: nn.Module, doing: str) -> None:
    """Raise UserError for such a model, with what cannot be done: "pruned"."""
    if in_int8(model):
        raise UserError(
            f"a model in torch's 8-bit integers cannot be {doing}: that is the last step, take the fp32 model that it "
            "was made of, and quantise what comes out"
        )
