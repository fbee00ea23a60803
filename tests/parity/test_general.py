"""General distillation against slow, plain formulations: DistilBERT's triple loss, heads from the teacher, folders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertForPreTraining,
    BertModel,
    PreTrainedModel,
)

from common.artifact import state_to_save
from common.errors import UserError
from common.masked import masked_logits
from distill.general_config import GeneralConfig
from distill.general_objective import TextDistiller
from distill.general_text import masked_batches
from distill.two_tokenizers import reads_otherwise, tokenizer_at
from students.build import build_student, encoder
from students.general import student_from
from students.masked import build_encoder
from students.presets import StudentConfig
from teacher.batches import Batches
from teacher.loop import train
from teacher.pretrained import load_pretrained

Make = Callable[..., PreTrainedModel]
TRIPLE = {"soft": 5.0, "mlm": 2.0, "cosine": 1.0}


@pytest.fixture
def teacher(tiny_bert: Make) -> Any:
    """A pretrained BERT with large weights, so that no term is near 0."""
    model = tiny_bert(layers=4, model_class=BertForPreTraining)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


def shape(family: str, layers: int, hidden: int = 32, **more: Any) -> StudentConfig:
    sizes = {"heads": 4, "ffn": 4 * hidden, "start": "random"}
    return StudentConfig(name="s", family=family, layers=layers, hidden=hidden, **sizes | more)


@pytest.fixture
def batch() -> dict[str, Tensor]:
    """Ragged, with four masked places given."""
    mask = (torch.arange(7)[None] < torch.tensor([[7], [5], [3]])).long()
    whole = torch.randint(5, 90, (3, 7)) * mask
    positions = torch.tensor([1, 4, 8, 15])
    labels = whole.flatten()[positions]
    hidden = whole.clone()
    hidden.view(-1)[positions] = torch.tensor([4, 4, int(labels[2]), 33])
    return {
        "input_ids": hidden,
        "attention_mask": mask,
        "token_type_ids": torch.zeros_like(whole),
        "positions": positions,
        "labels": labels,
    }


def slow_triple(student: Any, teacher: Any, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """A token at a time, from the models' own full outputs."""
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    own = student(**inputs, output_hidden_states=True)
    with torch.no_grad():
        goal = teacher(**inputs, output_hidden_states=True)
    soft, cosine = [], []
    for row, column in batch["attention_mask"].nonzero().tolist():
        p = (goal.prediction_logits[row, column] / 2).softmax(-1)
        q = (own.logits[row, column] / 2).softmax(-1)
        soft.append(4 * (p * (p / q).log()).sum())
        a, b = own.hidden_states[-1][row, column], goal.hidden_states[-1][row, column]
        cosine.append(1 - (a @ b) / (a.norm() * b.norm()))
    mlm = [
        -own.logits[divmod(place, 7)].log_softmax(-1)[label]
        for place, label in zip(batch["positions"].tolist(), batch["labels"].tolist(), strict=True)
    ]
    return {name: torch.stack(each).mean() for name, each in (("soft", soft), ("mlm", mlm), ("cosine", cosine))}


def distiller(student: PreTrainedModel, teacher: PreTrainedModel, **changes: Any) -> TextDistiller:
    settings = {"weights": TRIPLE, "layers": (2, 4), "projection": nn.Identity(), "temperature": 2.0}
    return TextDistiller(student, teacher, **settings | changes)


@pytest.mark.parametrize("family", ["distilbert", "bert", "albert"])
def test_the_triple_loss(teacher: Any, batch: dict[str, Tensor], family: str) -> None:
    more = {"embedding": 16, "sharing": "all"} if family == "albert" else {}
    student = build_encoder(shape(family, 2, **more), teacher, seed=3, masked=True, teacher_masked=True)
    terms = distiller(student, teacher).eval()(batch)
    for name, value in slow_triple(student, teacher, batch).items():
        torch.testing.assert_close(terms[name], value, atol=1e-5, rtol=1e-5)


def test_parts_of_a_batch_add_up_to_it(teacher: Any, batch: dict[str, Tensor]) -> None:
    student = build_encoder(shape("bert", 2), teacher, seed=3, masked=True, teacher_masked=True)
    weights = TRIPLE | dict.fromkeys(("embedding", "hidden", "attention"), 1.0)
    objective = distiller(student, teacher, weights=weights).eval()
    # Masked places of each part: numbers in the batch, and where these are in the part.
    parts = [
        {name: batch[name][rows] for name in ("input_ids", "attention_mask", "token_type_ids")}
        | {"labels": batch["labels"][chosen], "positions": torch.tensor(places)}
        for rows, chosen, places in (([0, 2], [0, 1, 3], [1, 4, 8]), ([1], [2], [1]))
    ]
    totals = objective.counts(batch)
    for name, whole in objective(batch).items():
        shares = [objective.counts(part)[name] / totals[name] for part in parts]
        assert sum(shares) == 1
        added = sum(share * objective(part)[name] for share, part in zip(shares, parts, strict=True))
        torch.testing.assert_close(added, whole, atol=1e-5, rtol=1e-5)


def test_padding_changes_nothing(teacher: Any, batch: dict[str, Tensor]) -> None:
    student = build_encoder(shape("distilbert", 2), teacher, seed=3, masked=True, teacher_masked=True)
    objective = distiller(student, teacher).eval()
    longer = {name: nn.functional.pad(batch[name], (0, 5)) for name in ("attention_mask", "token_type_ids")}
    longer["input_ids"] = nn.functional.pad(batch["input_ids"], (0, 5), value=7)
    rows, columns = batch["positions"] // 7, batch["positions"] % 7
    longer |= {"positions": rows * 12 + columns, "labels": batch["labels"]}
    for name, value in objective(batch).items():
        torch.testing.assert_close(objective(longer)[name], value, atol=1e-6, rtol=1e-5)


def test_a_step_of_distilbert(tmp_path: Path, teacher: Any, batch: dict[str, Tensor]) -> None:
    """One step of the loop with the published settings: AdamW 5e-4, betas 0.9 and 0.98, eps 1e-6, clip 5."""
    fast, slow = (
        build_encoder(
            shape("distilbert", 2, start="copy", teacher_layers=(0, 3)),
            teacher,
            seed=3,
            masked=True,
            teacher_masked=True,
        )
        for _ in range(2)
    )
    for model in (fast, slow):
        for part in model.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
        model.config.attention_dropout = 0.0
    config = GeneralConfig(out=tmp_path / "x", student="distil", precision="fp32")
    loop = config.loop(1)
    # Adam's first step does not see the size of the gradient, and so not the clip.
    assert (loop.learning_rate, loop.betas, loop.epsilon) == (5e-4, (0.9, 0.98), 1e-6)
    assert (loop.clip, loop.warmup, loop.weight_decay) == (5.0, 0.05, 0.0)
    batches = Batches(lengths=np.array([7]), batch_size=1, seed=0, collate=lambda indices, step: batch)
    train(distiller(fast, teacher), batches, loop, tmp_path / "training", label="one step")
    optimizer = torch.optim.AdamW(slow.parameters(), lr=5e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.0)
    terms = slow_triple(slow.train(), teacher, batch)
    (5 * terms["soft"] + 2 * terms["mlm"] + terms["cosine"]).backward()
    norm = nn.utils.clip_grad_norm_(slow.parameters(), 5.0)
    assert norm > 5
    optimizer.step()
    moved = build_encoder(
        shape("distilbert", 2, start="copy", teacher_layers=(0, 3)), teacher, seed=3, masked=True, teacher_masked=True
    )
    for (name, ours), theirs, before in zip(
        fast.named_parameters(), slow.parameters(), moved.parameters(), strict=True
    ):
        assert not torch.equal(theirs, before), name
        # Adam's first step is rate x sign where gradients are far from eps; near 0 a rounding shows.
        assert float((ours - theirs).detach().abs().mean()) < 2e-6, name


def test_layer_losses_do_not_touch_a_head(teacher: Any, batch: dict[str, Tensor]) -> None:
    config = shape("bert", 2, start="prune", teacher_layers=(0, 3))
    student = build_encoder(config, teacher, seed=3, masked=True, teacher_masked=True)
    objective = distiller(student, teacher, weights={"embedding": 1.0, "hidden": 1.0, "attention": 1.0})
    assert not any("cls" in name for name, _ in objective.named_parameters())
    assert sorted(objective.eval()(batch)) == ["attention", "embedding", "hidden"]
    teacher.train()
    with pytest.raises(RuntimeError, match="evaluation mode"):
        objective(batch)


@pytest.mark.parametrize(("family", "start"), [("distilbert", "copy"), ("bert", "prune")])
def test_the_head_of_a_student_in_the_teachers_shape_is_the_teachers(
    teacher: Any, batch: dict[str, Tensor], family: str, start: str
) -> None:
    config = shape(family, 4, start=start, teacher_layers=(0, 1, 2, 3))
    student = build_encoder(config, teacher, seed=0, masked=True, teacher_masked=True)
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    valid = batch["attention_mask"].bool()
    with torch.no_grad():
        ours, theirs = student(**inputs).logits[valid], teacher(**inputs).prediction_logits[valid]
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
        states = encoder(student)(**inputs).last_hidden_state[valid]
        torch.testing.assert_close(masked_logits(student, states), ours)
    assert student.get_output_embeddings().weight is student.get_input_embeddings().weight


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("bert", {}),
        ("distilbert", {}),
        ("albert", {"embedding": 16, "sharing": "all"}),
        ("albert", {"embedding": 16, "sharing": "attention"}),
        ("albert", {"embedding": 16, "sharing": 2}),
    ],
)
@pytest.mark.parametrize("masked", [True, False])
def test_folders_load_with_the_auto_classes_and_start_students(
    tmp_path: Path,
    teacher: Any,
    batch: dict[str, Tensor],
    tiny_tokenizer,
    family: str,
    more: dict[str, Any],
    masked: bool,
) -> None:
    student: Any = build_encoder(shape(family, 4, **more), teacher, seed=3, masked=masked, teacher_masked=True)
    student.save_pretrained(tmp_path, state_dict=state_to_save(student))
    tiny_tokenizer.save_pretrained(tmp_path)
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    with torch.no_grad():
        states = encoder(student)(**inputs).last_hidden_state
        assert torch.equal(AutoModel.from_pretrained(tmp_path).eval()(**inputs).last_hidden_state, states)
        if masked:
            again = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
            assert torch.equal(again(**inputs).logits, student(**inputs).logits)
        classifier = AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=5).eval()
        assert classifier(**inputs).logits.shape == (3, 5)
        config = student_from(tmp_path, name="s", family=family)
        assert (config.layers, config.sharing, config.start) == (4, more.get("sharing"), "general")
        built = build_student(config, teacher, seed=0, num_labels=3)
        assert built(**inputs).logits.shape == (3, 3)
        torch.testing.assert_close(encoder(built)(**inputs).last_hidden_state, states, atol=1e-6, rtol=0)
    assert encoder(built).num_parameters() >= encoder(student).num_parameters()
    assert not reads_otherwise(tmp_path, tiny_tokenizer)


def test_a_pooler_is_kept_where_it_is_the_teachers(tmp_path: Path, teacher: Any, tiny_bert: Make) -> None:
    pruned = shape("bert", 2, start="prune", teacher_layers=(0, 3))
    bare: Any = tiny_bert(layers=4, model_class=BertModel)
    bare.pooler = None
    for config, source, kept in (
        (pruned, teacher, True),
        (shape("bert", 2), teacher, False),
        (pruned, bare, False),
    ):
        student: Any = build_encoder(config, source, seed=0, masked=False, teacher_masked=False)
        assert (student.pooler is not None) == kept
        student.save_pretrained(tmp_path)
        _, found = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
        assert bool(found["missing_keys"]) == (not kept)


def test_a_teacher_says_what_it_has(tmp_path: Path, teacher: Any, tiny_bert: Make, tiny_tokenizer) -> None:
    tiny_tokenizer.save_pretrained(tmp_path)
    teacher.save_pretrained(tmp_path)
    loaded = load_pretrained(str(tmp_path))
    assert loaded.masked and not loaded.finetuned and loaded.model.bert.pooler is not None
    for model, masked, pooled, finetuned in (
        (AutoModelForMaskedLM.from_pretrained(tmp_path), True, False, False),
        (tiny_bert(model_class=BertModel), False, True, False),
        (tiny_bert(), False, True, True),
    ):
        model.save_pretrained(tmp_path)
        loaded = load_pretrained(str(tmp_path))
        found = (loaded.masked, loaded.model.bert.pooler is not None, loaded.finetuned)
        assert found == (masked, pooled, finetuned), type(model)


def test_folders_of_others_are_refused(tmp_path: Path, teacher: Any, tiny_tokenizer) -> None:
    with pytest.raises(UserError, match=r"has no config\.json"):
        student_from(tmp_path, name="tiny", family="bert")
    build_encoder(shape("distilbert", 2), teacher, seed=3, masked=False, teacher_masked=False).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="model_type is 'distilbert', student 'tiny' is of the family 'bert'"):
        student_from(tmp_path, name="tiny", family="bert")
    with pytest.raises(UserError, match="has no tokenizer"):
        tokenizer_at(str(tmp_path), "--student-from")
    words = list(tiny_tokenizer.get_vocab())
    swapped = sorted(words, key=tiny_tokenizer.get_vocab().get)
    swapped[20], swapped[21] = swapped[21], swapped[20]
    (tmp_path / "vocab.txt").write_text("\n".join(swapped) + "\n", encoding="utf-8")
    assert len(tokenizer_at(str(tmp_path), "--student-from")) == len(tiny_tokenizer)
    assert reads_otherwise(tmp_path, tiny_tokenizer)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match="its tokenizer cannot be read"):
        tokenizer_at(str(tmp_path), "--student-from")


def test_masks_follow_from_seed_and_step(tiny_tokenizer) -> None:
    sequences = [np.array([2, *np.random.default_rng(index).integers(40, 90, size=12), 3]) for index in range(8)]
    one, other = (masked_batches(sequences, tiny_tokenizer, batch_size=4, seed=seed) for seed in (0, 1))
    first = one.collate([0, 1, 2, 3], 5)
    assert len(first["labels"]) == 9  # 0.15 x 56, rounded up
    whole = np.concatenate(sequences[:4])
    assert first["labels"].tolist() == whole[first["positions"].numpy()].tolist()
    again = one.collate([0, 1, 2, 3], 5)
    assert all(torch.equal(first[name], again[name]) for name in first)
    for changed in (one.collate([0, 1, 2, 3], 6), other.collate([0, 1, 2, 3], 5)):
        assert changed["positions"].tolist() != first["positions"].tolist()
