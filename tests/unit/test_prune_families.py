"""Pruning of every family that can be, by whatever it pools: shapes, folders that reload bit for bit, closed forms."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from families import flat_scores, tiny_classifier, tiny_config
from torch import Tensor
from torch.nn.functional import cross_entropy
from toy import toy_task
from transformers import AutoConfig, PreTrainedModel

from common.architectures import register_architectures
from common.artifact import CardText, load, save, verify
from common.errors import UserError
from common.families import max_length
from common.heads import AUTO_CLASSES, CHOICE, SPANS, TOKENS
from common.pooled import POOLED, family_type, pooled_configuration, pooling_of
from common.uneven import FAMILIES, Uneven, plain_class
from distill.compress_chain import Artifact
from distill.compress_options import CompressOptions
from distill.compress_prune import Pruning
from distill.flops import flops, random_batch
from distill.measure import count_parameters
from distill.placed_answers import Answers
from distill.recovery import Training
from students.anatomy import anatomy
from students.export import export_onnx
from students.importance import Loss, Seen, taylor
from students.prune import cut, pruned
from students.pruned_shape import EncoderShape, shape_of
from students.ranking import Kept, everything
from students.runtime import OnnxModel
from teacher.prepare import output_logits

PLAIN = ("roberta", "xlm-roberta", "camembert", "electra", "electra-wide", "distilbert")
POOLING = ("bert mean", "roberta max", "electra mean", "distilbert mean", "xlm-roberta mean")
KINDS = (*PLAIN, *POOLING)


def model_of(kind: str) -> PreTrainedModel:
    """Two layers of 32 with 4 heads and 64 units, all weights drawn; "bert mean" pools so."""
    family, _, pooling = kind.partition(" ")
    if not pooling:
        return tiny_classifier(family)
    config = pooled_configuration(tiny_config(family), pooling, num_labels=3)
    torch.manual_seed(1)
    model = POOLED[family](config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def padded(model: PreTrainedModel) -> dict[str, Tensor]:
    """4 texts of up to 9 pieces, half of them shorter, with labels."""
    torch.manual_seed(2)
    mask = torch.tensor([[1] * 9, [1] * 6 + [0] * 3] * 2)
    ids = torch.where(mask == 1, torch.randint(5, 90, (4, 9)), int(model.config.pad_token_id or 0))
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([0, 1, 2, 1])}


def loss_of(model: PreTrainedModel):
    return lambda batch: cross_entropy(
        model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits, batch["labels"]
    )


def in_vain(kind: str, shape: EncoderShape) -> int:
    """FLOPs of [CLS] through the pooler, which BERT's encoder runs by itself; ONNX leaves it out."""
    return 2 * shape.hidden**2 if kind == "bert mean" else 0


def inputs(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in padded(model).items() if name != "labels"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_shape_says_what_its_model_costs(kind: str) -> None:
    model = model_of(kind)
    shape = shape_of(model)
    assert (shape.heads, shape.ffn, shape.hidden, shape.head_dim) == ((4, 4), (64, 64), 32, 8)
    assert shape.embedding == (16 if kind.startswith("electra") and kind != "electra-wide" else None)
    assert shape.even
    assert shape.parameters == count_parameters(model)
    assert shape.flops(16) == flops(model, length=16) - in_vain(kind, shape)


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_half_of_every_part_goes_and_the_folder_reloads_bit_for_bit(
    kind: str, even: bool, tiny_tokenizer, tmp_path: Path
) -> None:
    model = model_of(kind)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    whole, batch = shape_of(model), padded(model)
    smaller, kept = pruned(
        model,
        [batch],
        loss_of(model),
        parts=["heads", "ffn", "hidden"],
        cost=lambda shape: shape.encoder_parameters,
        most=0.5 * whole.encoder_parameters,
        even=even,
    )
    shape = shape_of(smaller)
    assert shape == kept.shape(whole)
    assert shape.encoder_parameters <= 0.5 * whole.encoder_parameters
    assert shape.parameters == count_parameters(smaller)
    assert shape.flops(16) == flops(smaller, length=16) - in_vain(kind, shape)
    assert isinstance(smaller, Uneven) is not shape.even
    assert shape.even or not even or shape.embedding == shape.hidden
    assert plain_class(smaller) is type(model)
    assert family_type(smaller.config) == kind.split(maxsplit=1)[0].removesuffix("-wide")
    assert pooling_of(smaller.config) == pooling_of(model.config)
    assert max_length(smaller.config) == max_length(model.config)
    folder = tmp_path / "model"
    save(smaller, tiny_tokenizer, folder, card=CardText(title="pruned", description="A test.", task="toy"))
    verify(folder, smaller, inputs(model))
    again = load(folder)[0]
    twice, _ = pruned(
        again,
        [batch],
        loss_of(again),
        parts=["ffn"],
        cost=lambda shape: shape.encoder_parameters,
        most=shape.encoder_parameters - 1,
    )
    assert sum(shape_of(twice).ffn) < sum(shape.ffn)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def with_head(family: str, head: str) -> PreTrainedModel:
    """The same for tags of 3 kinds, for spans, or for choices."""
    config = tiny_config(family)
    config.num_labels = {TOKENS: 3, SPANS: 2, CHOICE: 1}[head]
    torch.manual_seed(1)
    model = AUTO_CLASSES[head].from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def batch_for(model: PreTrainedModel, head: str) -> tuple[dict[str, Tensor], Loss]:
    """Two examples, of two choices each where choices are scored, and a mean over examples of a made-up loss."""
    batch = padded(model)
    del batch["labels"]
    if head == CHOICE:
        batch = {name: tensor.unflatten(0, (2, 2)) for name, tensor in batch.items()}

    def loss(batch: Mapping[str, Tensor]) -> Tensor:
        logits = output_logits(model(**batch), {}).flatten(1)
        return (logits.sin().sum(1)).mean()

    return batch, loss


@pytest.mark.parametrize("head", [TOKENS, SPANS, CHOICE])
@pytest.mark.parametrize("family", ["bert", *PLAIN])
def test_models_with_other_heads_lose_half_and_reload_bit_for_bit(
    family: str, head: str, tiny_tokenizer, tmp_path: Path
) -> None:
    model = with_head(family, head)
    whole = shape_of(model)
    assert whole.parameters == count_parameters(model)
    assert whole.flops(16) == flops(model, length=16)
    assert (whole.pooled, whole.everywhere) == ((True, False) if head == CHOICE else (False, True))
    batch, loss = batch_for(model, head)
    smaller, kept = pruned(
        model,
        [batch],
        loss,
        parts=["heads", "ffn", "hidden"],
        cost=lambda shape: shape.encoder_parameters,
        most=0.5 * whole.encoder_parameters,
    )
    shape = shape_of(smaller)
    assert shape == kept.shape(whole)
    assert shape.encoder_parameters <= 0.5 * whole.encoder_parameters
    assert shape.parameters == count_parameters(smaller)
    assert shape.flops(16) == flops(smaller, length=16)
    assert plain_class(smaller) is type(model)
    save(smaller, tiny_tokenizer, tmp_path / "m", card=CardText(title="pruned", description="A test.", task="toy"))
    verify(tmp_path / "m", smaller, batch)


@pytest.mark.parametrize("head", [TOKENS, CHOICE])
def test_importance_under_other_heads_is_the_derivative_by_a_gate(head: str) -> None:
    model = with_head("roberta", head)
    batch, loss = batch_for(model, head)
    scores = taylor(model, [batch], loss).scores
    gate = torch.ones(64, requires_grad=True)
    anatomy(model).layers[0].ffn_out.register_forward_pre_hook(lambda _, inputs: (inputs[0] * gate,))
    rows = range(len(batch["input_ids"]))
    examples = [{name: tensor[row : row + 1] for name, tensor in batch.items()} for row in rows]
    wanted = torch.stack([torch.autograd.grad(loss(example), gate)[0].square() for example in examples]).mean(0)
    assert torch.allclose(scores.ffn[0], wanted, rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("kind", ["bert", *KINDS])
def test_what_adds_nothing_can_go_without_a_change(kind: str) -> None:
    model = model_of(kind)
    layers = anatomy(model).layers
    with torch.no_grad():
        layers[0].attention_output.weight[:, 8:24] = 0
        layers[1].ffn_out.weight[:, 40:] = 0
    kept = Kept(
        layers=(0, 1),
        heads=((0, 3), (0, 1, 2, 3)),
        ffn=(tuple(range(64)), tuple(range(40))),
        hidden=tuple(range(32)),
    )
    smaller = cut(model, kept, Seen(scores=flat_scores(shape_of(model))))
    assert (smaller.config.heads, smaller.config.intermediate_sizes) == ([2, 4], [64, 40])
    with torch.no_grad():
        assert torch.allclose(smaller(**inputs(model)).logits, model(**inputs(model)).logits, atol=1e-5)


@pytest.mark.parametrize("hidden", [16, 24])
def test_a_map_from_electras_tables_stays_also_where_both_are_equally_wide(
    hidden: int, tiny_tokenizer, tmp_path: Path
) -> None:
    model = model_of("electra")
    whole = everything(shape_of(model))
    kept = Kept(layers=(0, 1), heads=((0, 1),) * 2, ffn=whole.ffn, hidden=tuple(range(hidden)))
    smaller = cut(model, kept, Seen(scores=flat_scores(shape_of(model))))
    assert smaller.base_model.embeddings_project.weight.shape == (hidden, 16)
    assert torch.equal(
        smaller.base_model.embeddings_project.weight, model.base_model.embeddings_project.weight[:hidden]
    )
    assert smaller.config.embedding_size == 16
    assert shape_of(smaller).embedding == 16
    save(smaller, tiny_tokenizer, tmp_path / "m", card=CardText(title="pruned", description="A test.", task="toy"))
    verify(tmp_path / "m", smaller, inputs(model))


def test_an_electra_without_a_map_loses_columns_of_its_tables_with_its_channels() -> None:
    model = model_of("electra-wide")
    whole = everything(shape_of(model))
    kept = Kept(layers=(0, 1), heads=((0, 1),) * 2, ffn=whole.ffn, hidden=tuple(range(16)))
    smaller = cut(model, kept, Seen(scores=flat_scores(shape_of(model))))
    assert type(smaller) is type(model)
    assert smaller.config.embedding_size == smaller.config.hidden_size == 16
    assert smaller.base_model.embeddings.word_embeddings.weight.shape == (120, 16)


@pytest.mark.parametrize("kind", ["electra", "roberta max", "bert mean"])
def test_taylor_is_the_derivative_by_a_gate(kind: str) -> None:
    """Second formula: a real gate on every unit, derivatives by autograd, one example at a time."""
    model = model_of(kind)
    parts, batch = anatomy(model), padded(model)
    scores = taylor(model, [batch], loss_of(model)).scores
    heads, pooler = torch.ones(4, requires_grad=True), torch.ones(32, requires_grad=True)
    channels = [torch.ones(32, requires_grad=True) for _ in range(5)]
    handles = [
        parts.layers[0].attention_output.register_forward_pre_hook(lambda _, x: (x[0] * heads.repeat_interleave(8),)),
        parts.head.register_forward_pre_hook(lambda _, x: (x[0] * pooler,)),
    ]
    sites = [parts.norm, *(norm for layer in parts.layers for norm in (layer.attention_norm, layer.ffn_norm))]
    handles += [
        site.register_forward_hook(lambda _, __, output, gate=gate: output * gate)
        for site, gate in zip(sites, channels, strict=True)
    ]
    gates = [heads, pooler, *channels]
    sums = [torch.zeros(len(gate)) for gate in gates]
    for row in range(4):
        example = {name: tensor[row : row + 1] for name, tensor in batch.items()}
        for total, gradient in zip(sums, torch.autograd.grad(loss_of(model)(example), gates), strict=True):
            total += gradient.square() / 4
    for handle in handles:
        handle.remove()
    assert torch.allclose(scores.heads[0], sums[0], rtol=1e-3, atol=1e-8)
    assert torch.allclose(scores.pooler, sums[1], rtol=1e-3, atol=1e-8)
    assert torch.allclose(scores.hidden, torch.stack(sums[2:]).sum(0), rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("kind", ["electra", "xlm-roberta mean"])
def test_uneven_models_are_exported(kind: str, tiny_tokenizer, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = model_of(kind)
    whole = everything(shape_of(model))
    kept = Kept(layers=(0, 1), heads=((0,), (1, 2, 3)), ffn=(tuple(range(24)), whole.ffn[1]), hidden=tuple(range(20)))
    smaller = cut(model, kept, Seen(scores=flat_scores(shape_of(model))))
    exported = export_onnx(smaller, tiny_tokenizer, tmp_path / "onnx", max_length=16)
    assert exported.difference < 1e-4
    batch = {name: tensor.numpy() for name, tensor in inputs(model).items()} | {
        "token_type_ids": 0 * padded(model)["input_ids"].numpy()
    }
    with torch.no_grad():
        wanted = smaller(**inputs(model)).logits.numpy()
    assert OnnxModel(tmp_path / "onnx").logits(batch) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("kind", ["roberta", "electra", "xlm-roberta mean"])
def test_a_step_of_a_chain_prunes_and_recovers_from_folder_to_folder(kind: str, tiny_tokenizer, tmp_path: Path) -> None:
    model = model_of(kind)
    model.config.pad_token_id = 0
    model.config.id2label, model.config.label2id = {0: "a", 1: "b", 2: "c"}, {"a": 0, "b": 1, "c": 2}
    save(model, tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"))
    pruning = Pruning(
        task=toy_task(texts=["good film", "a bad plot", "the actor is funny"]),
        options=CompressOptions(prune=0.4, prune_steps=1, prune_parts="heads,ffn,hidden"),
        training=Training(learning_rate=1e-3, precision="fp32", checkpoint_every=50, seed=0),
        max_length=16,
        answers=lambda: Answers(logits=np.eye(3, dtype=np.float32)[np.arange(9) % 3]),
    )
    artifact = pruning(Artifact(folder=tmp_path / "m"), tmp_path / "out")
    smaller = load(artifact.folder)[0]
    assert shape_of(smaller).encoder_parameters <= 0.6 * shape_of(model).encoder_parameters
    assert family_type(smaller.config) == family_type(model.config)
    assert "became" in artifact.notes[0]


def test_every_uneven_type_has_a_name_of_its_own_and_leads_back_to_its_family() -> None:
    register_architectures()
    names = [f"distillery-{family}" for family in FAMILIES]
    names += [f"distillery-pooled-uneven-{family}" for family in POOLED if family in FAMILIES]
    for name in names:
        config = AutoConfig.for_model(name)
        assert config.model_type == name
        assert family_type(config) in FAMILIES
    assert random_batch(model_of("roberta"), batch=1, length=4)["input_ids"].min() > 1


@pytest.mark.parametrize("kind", ["albert", "deberta", "modernbert"])
def test_other_families_are_refused_with_a_reason(kind: str) -> None:
    words = "share their weights" if kind == "albert" else "give one of bert, roberta"
    with pytest.raises(UserError, match=words):
        shape_of(tiny_classifier(kind))
