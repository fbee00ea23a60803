"""The table of pretraining objectives, and their figures over held-out text."""

from collections import Counter
from collections.abc import Iterable

import torch
from torch import Tensor

from teacher.causal import Ltr
from teacher.dropout import drawing
from teacher.electra import Rtd
from teacher.masked_language import Mlm, MlmNsp, MlmSop
from teacher.pretrain_objective import PretrainObjective
from teacher.ranks import ranks

OBJECTIVES: dict[str, type[PretrainObjective]] = {
    "mlm+nsp": MlmNsp,
    "mlm": Mlm,
    "mlm+sop": MlmSop,
    "rtd": Rtd,
    "ltr": Ltr,
}


def evaluate_pretraining(
    objective: PretrainObjective, batches: Iterable[dict[str, Tensor]], precision: str
) -> dict[str, float]:
    """Held-out figures in evaluation mode, over all predicted pieces and all pairs; the mode is put back.

    They are computed where training is: before and after it the model lies in plain memory, whose processor may take an
    hour for what an accelerator does in seconds.

    Names are those of the objective's terms: NAME_loss (nats) and NAME_accuracy, for pairs and replaced pieces also
    NAME_majority, the accuracy of the more frequent answer, and the counts that they are means over.
    """
    # Outside of inference mode: weights that were moved in it could not be trained afterwards.
    home, was_training = objective.model.device, objective.training
    device = ranks().device
    objective.to(device).eval()
    sums = _sums(objective, batches, device, precision)
    objective.to(home).train(was_training)
    return objective.figures(sums)


@torch.inference_mode()
def _sums(
    objective: PretrainObjective, batches: Iterable[dict[str, Tensor]], device: torch.device, precision: str
) -> Counter[str]:
    """What all batches add up to."""
    sums: Counter[str] = Counter()
    for number, batch in enumerate(batches):
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        with drawing(number), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            sums.update(objective.sums(batch))
    return sums
