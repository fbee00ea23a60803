"""ALBERT's five sharing modes: exact counts, weights from the teacher, and folders that transformers loads."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AlbertModel, AutoModel, AutoModelForSequenceClassification, BertConfig, PreTrainedModel

from common.artifact import CardText, load, save
from students.albert import share, sharing_note
from students.build import FAMILIES, build_student
from students.presets import StudentConfig

MODES = ["all", "attention", "ffn", "none", 2]


def albert(sharing: str | int, layers: int = 4, hidden: int = 32, heads: int = 4, **more: Any) -> StudentConfig:
    settings = {"embedding": 16, "start": "random"} | more
    return StudentConfig(
        name="a",
        family="albert",
        layers=layers,
        hidden=hidden,
        heads=heads,
        ffn=4 * hidden,
        sharing=sharing,
        **settings,
    )


@pytest.fixture
def teacher(tiny_bert: Callable[..., PreTrainedModel]) -> PreTrainedModel:
    """Weights large enough for every part to matter."""
    model = tiny_bert(layers=4)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.fixture
def batch() -> dict[str, Tensor]:
    mask = (torch.arange(9)[None] < torch.tensor([[9], [5], [2]])).long()
    return {"input_ids": torch.randint(5, 90, (3, 9)) * mask, "attention_mask": mask}


def closed_form(layers: int, hidden: int, sharing: str | int, embedding: int = 128, vocabulary: int = 30000) -> int:
    """Tables, their LayerNorm, E to H, pooler; then so many attention and feed-forward parts, LayerNorms with them."""
    ffn = 4 * hidden
    rest = (vocabulary + 512 + 2) * embedding + 2 * embedding + (embedding + 1) * hidden + (hidden + 1) * hidden
    attention = 4 * (hidden + 1) * hidden + 2 * hidden
    feed = (hidden + 1) * ffn + (ffn + 1) * hidden + 2 * hidden
    groups = sharing if isinstance(sharing, int) else None
    attentions = groups or {"all": 1, "attention": 1, "ffn": layers, "none": layers}[sharing]
    feeds = groups or {"all": 1, "attention": layers, "ffn": 1, "none": layers}[sharing]
    return rest + attentions * attention + feeds * feed


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "sharing", "published"),
    [
        (12, 768, 12, "all", 11_683_584),
        (12, 768, 12, "none", 89_650_176),
        (24, 1024, 16, "all", 17_683_968),
        # ALBERT's table 4 has 64 M and 38 M for these.
        (12, 768, 12, "attention", 63_647_232),
        (12, 768, 12, "ffn", 37_686_528),
        (12, 768, 12, 3, None),
        (24, 1024, 16, "attention", None),
        (24, 1024, 16, "ffn", None),
        (24, 1024, 16, 4, None),
    ],
)
def test_parameters_of_every_mode(
    layers: int, hidden: int, heads: int, sharing: str | int, published: int | None
) -> None:
    config = albert(sharing, layers=layers, hidden=hidden, heads=heads, embedding=128)
    settings = FAMILIES["albert"].configuration(config, BertConfig(vocab_size=30000))
    with torch.device("meta"):
        count = share(AutoModel.from_config(settings)).num_parameters()
    assert count == closed_form(layers, hidden, sharing)
    assert published is None or count == published


@pytest.mark.parametrize("sharing", MODES)
def test_a_mode_is_an_albert_whose_layers_have_those_weights(
    teacher: PreTrainedModel, batch: dict[str, Tensor], sharing: str | int
) -> None:
    """Against transformers' AlbertModel with a group a layer, whose layers are filled by hand."""
    student: Any = build_student(albert(sharing), teacher, seed=0).base_model
    settings = copy.deepcopy(student.config)
    settings.num_hidden_groups = 4
    plain: Any = AlbertModel(settings).eval()
    groups = {"all": [0, 0, 0, 0], "none": [0, 1, 2, 3], 2: [0, 0, 1, 1]}
    attention = groups.get(sharing, [0, 0, 0, 0] if sharing == "attention" else [0, 1, 2, 3])
    feed = groups.get(sharing, [0, 0, 0, 0] if sharing == "ffn" else [0, 1, 2, 3])
    weights = student.state_dict()
    for name in plain.state_dict():
        if ".albert_layer_groups." not in name:
            continue
        before, _, rest = name.partition(".albert_layer_groups.")
        layer, _, part = rest.partition(".")
        source = (attention if ".attention." in part else feed)[int(layer)]
        weights[name] = student.state_dict()[f"{before}.albert_layer_groups.{source}.{part}"]
    plain.load_state_dict(weights)
    with torch.no_grad():
        ours, theirs = (model(**batch, output_hidden_states=True) for model in (student, plain))
    for one, two in zip(ours.hidden_states, theirs.hidden_states, strict=True):
        torch.testing.assert_close(one, two, atol=1e-6, rtol=0)


@pytest.mark.parametrize("sharing", MODES)
def test_parts_start_from_the_layers_that_they_serve(teacher: PreTrainedModel, sharing: str | int) -> None:
    student: Any = build_student(albert(sharing, teacher_layers=(0, 1, 2, 3), start="svd"), teacher, seed=0)
    layers = teacher.base_model.encoder.layer
    wholes = {"all": [range(4)], "none": [[0], [1], [2], [3]], 2: [[0, 1], [2, 3]]}
    single = [[0], [1], [2], [3]]
    attention = wholes.get(sharing, [range(4)] * 4 if sharing == "attention" else single)
    feed = wholes.get(sharing, [range(4)] * 4 if sharing == "ffn" else single)
    blocks = [group.albert_layers[0] for group in student.base_model.encoder.albert_layer_groups]
    assert len(blocks) == len(attention)
    for block, keys, units in zip(blocks, attention, feed, strict=True):
        mean = torch.stack([layers[index].attention.self.key.weight for index in keys]).mean(0)
        torch.testing.assert_close(block.attention.key.weight, mean)
        mean = torch.stack([layers[index].attention.output.LayerNorm.bias for index in keys]).mean(0)
        torch.testing.assert_close(block.attention.LayerNorm.bias, mean)
        mean = torch.stack([layers[index].intermediate.dense.weight for index in units]).mean(0)
        torch.testing.assert_close(block.ffn.weight, mean)
        mean = torch.stack([layers[index].output.LayerNorm.weight for index in units]).mean(0)
        torch.testing.assert_close(block.full_layer_layer_norm.weight, mean)


@pytest.mark.parametrize("sharing", MODES)
def test_a_trained_one_is_saved_and_loaded_by_transformers(
    tmp_path: Path, teacher: PreTrainedModel, batch: dict[str, Tensor], tiny_tokenizer, sharing: str | int
) -> None:
    config = albert(sharing, teacher_layers=(0, 1, 2, 3), start="svd")
    student = build_student(config, teacher, seed=0)
    count = student.num_parameters()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
    student(**batch).logits.square().sum().backward()
    optimizer.step()
    save(student, tiny_tokenizer, tmp_path / "model", card=CardText(title="t", description="d", task="t"))
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    with torch.no_grad():
        assert torch.equal(loaded(**batch).logits, student(**batch).logits)
        again = share(load(tmp_path / "model")[0])
        assert torch.equal(again(**batch).logits, student(**batch).logits)
    assert again.num_parameters() == count
    assert (loaded.num_parameters() > count) == (sharing in ("attention", "ffn"))
    assert bool(sharing_note(config)) == (sharing in ("attention", "ffn"))
    assert f"{count:,} parameters" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
