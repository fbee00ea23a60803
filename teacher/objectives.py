"""Pretraining objectives: models with their heads, and losses over what was masked."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForPreTraining, PreTrainedModel

from teacher.batches import on_full_rows
from teacher.loop import Objective


class MlmNsp(Objective):
    """Masked language modelling and next-sentence prediction (BERT, arXiv 1810.04805, section 3.1).

    A batch has input_ids, attention_mask, token_type_ids (batch, length); positions (k,), places of the masked pieces
    in the flattened batch; labels (k,), the pieces that stood there; next_labels (batch,), 0 for the next sentence.
    """

    complete = True

    def __init__(self, model: BertForPreTraining) -> None:
        super().__init__()
        self.model = model
        self.weights = {"mlm": 1.0, "nsp": 1.0}

    def forward(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        scores, relations = self.logits(batch)
        return {
            "mlm": masked_mean(functional.cross_entropy(scores, batch["labels"], reduction="none")),
            "nsp": functional.cross_entropy(relations, batch["next_labels"]),
        }

    def counts(self, batch: dict[str, Tensor]) -> dict[str, int]:
        return {"mlm": len(batch["labels"])}

    def logits(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """fp32 logits: (k, vocabulary) at the masked positions only, and (batch, 2) of the pair."""
        output = self.model.bert(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], token_type_ids=batch["token_type_ids"]
        )
        masked = output.last_hidden_state.flatten(0, 1).index_select(0, batch["positions"])
        return on_full_rows(self.model.cls.predictions, masked).float(), self.model.cls.seq_relationship(
            output.pooler_output
        ).float()


def masked_mean(losses: Tensor, weights: Tensor | None = None) -> Tensor:
    """sum(loss x weight) / (sum(weight) + 1e-5) over masked positions, as in BERT's released code; None: all 1."""
    if weights is None:
        return losses.sum() / (losses.numel() + 1e-5)
    return (losses * weights).sum() / (weights.sum() + 1e-5)


def fresh_bert(config: BertConfig, seed: int) -> BertForPreTraining:
    """A BERT with random weights: matrices from a normal cut at two standard deviations, biases 0, LayerNorm 1."""
    torch.manual_seed(seed)
    model = BertForPreTraining(config)
    truncated_normal(model, config.initializer_range)
    return model


@torch.no_grad()
def truncated_normal(model: PreTrainedModel, deviation: float) -> None:
    """Redraw every matrix in place; padding rows of embeddings are 0, as transformers has them."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.trunc_normal_(parameter, std=deviation, a=-2 * deviation, b=2 * deviation)
    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()


@torch.inference_mode()
def evaluate_pretraining(objective: MlmNsp, batches: Iterable[dict[str, Tensor]], precision: str) -> dict[str, float]:
    """Held-out figures, over all masked pieces and all pairs: mlm_loss (nats), mlm_accuracy, nsp_loss, nsp_accuracy.

    Also masked and pairs, the counts they are means over, and nsp_majority, the accuracy of the more frequent label.
    """
    sums = dict.fromkeys(("mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"), 0.0)
    masked = pairs = random = 0
    device = objective.model.device
    was_training = objective.training
    objective.eval()
    for batch in batches:
        batch = {name: tensor.to(device) for name, tensor in batch.items()}
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            scores, relations = objective.logits(batch)
        for name, logits, labels in (("mlm", scores, batch["labels"]), ("nsp", relations, batch["next_labels"])):
            sums[f"{name}_loss"] += float(functional.cross_entropy(logits, labels, reduction="sum"))
            sums[f"{name}_accuracy"] += int((logits.argmax(dim=-1) == labels).sum())
        masked, pairs, random = masked + len(scores), pairs + len(relations), random + int(batch["next_labels"].sum())
    objective.train(was_training)
    means = {name: value / (masked if name.startswith("mlm") else pairs) for name, value in sums.items()}
    return means | {"masked": masked, "pairs": pairs, "nsp_majority": max(random, pairs - random) / pairs}


OBJECTIVES = {"mlm+nsp": MlmNsp}
