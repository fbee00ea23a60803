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

OBJECTIVES: dict[str, type[PretrainObjective]] = {
    "mlm+nsp": MlmNsp,
    "mlm": Mlm,
    "mlm+sop": MlmSop,
    "rtd": Rtd,
    "ltr": Ltr,
}


@torch.inference_mode()
def evaluate_pretraining(
    objective: PretrainObjective, batches: Iterable[dict[str, Tensor]], precision: str
) -> dict[str, float]:
    """Held-out figures in evaluation mode, over all predicted pieces and all pairs; the mode is put back.

    Names are those of the objective's terms: NAME_loss (nats) and NAME_accuracy, for pairs and replaced pieces also
    NAME_majority, the accuracy of the more frequent answer, and the counts that they are means over.
    """
    device = objective.model.device
    was_training = objective.training
    objective.eval()
    sums: Counter[str] = Counter()
    for number, batch in enumerate(batches):
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        with drawing(number), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            sums.update(objective.sums(batch))
    objective.train(was_training)
    return objective.figures(sums)
