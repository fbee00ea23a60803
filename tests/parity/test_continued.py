"""Masked positions alone give the logits, losses and gradients of each family's own masked language model."""

import pytest
import torch
from families import KINDS, tiny_masked_model
from torch import Tensor

from teacher.attention import use_training_attention
from teacher.continued import MaskedPieces, longest_input
from teacher.objectives import evaluate_pretraining
from teacher.recompute import recompute_activations


def _batch(pad: int, *, rows: tuple[int, ...] = (9, 5, 12), width: int = 16) -> dict[str, Tensor]:
    """Random pieces, padded on the right; one masked piece has been replaced by the padding's id."""
    lengths = torch.tensor(rows)
    mask = (torch.arange(width) < lengths[:, None]).long()
    ids = torch.where(mask.bool(), torch.randint(5, 120, (len(rows), width)), pad)
    positions = torch.tensor([3, width + 2, 2 * width + 7])
    ids.view(-1)[positions[1]] = pad
    labels = torch.randint(5, 120, (3,))
    return {"input_ids": ids, "attention_mask": mask, "positions": positions, "labels": labels}


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_gradients_are_those_of_the_full_model(kind: str) -> None:
    model, theirs = tiny_masked_model(kind), tiny_masked_model(kind)
    use_training_attention(model)
    batch = _batch(int(model.config.pad_token_id))
    # Where the padding's id stands for a masked piece, transformers would count RoBERTa's positions wrongly.
    ids = torch.where(batch["attention_mask"].bool() & (batch["input_ids"] == model.config.pad_token_id), 7, 0)
    batch["input_ids"] = torch.where(ids > 0, ids, batch["input_ids"])
    full = theirs(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.flatten(0, 1)
    ours = MaskedPieces(model)
    torch.testing.assert_close(ours.logits(batch), full[batch["positions"]], atol=1e-5, rtol=1e-4)
    loss = ours(batch)["mlm"]
    expected = torch.nn.functional.cross_entropy(full[batch["positions"]], batch["labels"])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    loss.backward()
    expected.backward()
    for (name, one), (_, two) in zip(model.named_parameters(), theirs.named_parameters(), strict=True):
        if two.grad is not None:
            torch.testing.assert_close(one.grad, two.grad, atol=1e-5, rtol=1e-3, msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_a_padding_id_inside_a_text_move_no_position(kind: str) -> None:
    model = tiny_masked_model(kind)
    objective = MaskedPieces(model)
    batch = _batch(int(model.config.pad_token_id))
    together = objective.logits(batch)
    for row, length in enumerate((9, 5, 12)):
        alone = {
            "input_ids": batch["input_ids"][row : row + 1, :length],
            "attention_mask": torch.ones(1, length, dtype=torch.long),
            "positions": batch["positions"][row : row + 1] - 16 * row,
        }
        torch.testing.assert_close(objective.logits(alone)[0], together[row], atol=1e-5, rtol=1e-4)
    changed = batch["input_ids"].clone()
    changed[1, 2] = 7
    others = objective.logits(batch | {"input_ids": changed})
    # Only the row in which the piece stands sees it.
    torch.testing.assert_close(others[[0, 2]], together[[0, 2]], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_may_be_as_long_as_there_are_positions(kind: str) -> None:
    model = tiny_masked_model(kind)
    assert longest_input(model) == 64
    batch = _batch(int(model.config.pad_token_id), rows=(64, 64, 64), width=64)
    assert torch.isfinite(MaskedPieces(model).logits(batch)).all()


def test_figures_are_those_of_all_batches_at_once() -> None:
    objective = MaskedPieces(tiny_masked_model("electra")).train()
    batches = [_batch(0), _batch(0, rows=(8, 8, 8))]
    found = evaluate_pretraining(objective, batches, "fp32")
    assert objective.training
    objective.eval()
    scores = torch.cat([objective.logits(batch) for batch in batches])
    labels = torch.cat([batch["labels"] for batch in batches])
    assert found["mlm_loss"] == pytest.approx(torch.nn.functional.cross_entropy(scores, labels).item(), rel=1e-5)
    assert found["mlm_accuracy"] == pytest.approx((scores.argmax(-1) == labels).float().mean().item())
    assert found["masked"] == 6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "albert"])
def test_every_layer_of_the_family_can_be_computed_again(kind: str) -> None:
    model = tiny_masked_model(kind).train()
    recompute_activations(model)
    calls = []
    layers = [module for module in model.modules() if getattr(module, "gradient_checkpointing", False) is True]
    for layer in layers:
        layer.register_forward_pre_hook(lambda *_: calls.append(1))
    MaskedPieces(model)(_batch(int(model.config.pad_token_id)))["mlm"].backward()
    assert len(layers) == 2 and len(calls) >= 2
