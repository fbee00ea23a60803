"""What a family of teachers cannot give: the loss that stands in its place, and what is said of it."""

import pytest
from transformers import BertConfig, DebertaV2Config, ModernBertConfig, PretrainedConfig, RobertaConfig

from common.errors import UserError
from common.families import local_layers, max_length, scored_layers
from distill.config import DistilOptions, RunConfig
from distill.contest import check_recipes, chosen_recipes
from distill.recipes import tiny_recipe
from distill.stages import Stage
from distill.substitutes import answerable
from students.mapping import in_bert_terms
from students.presets import student_preset
from teacher.options import TaskOptions

DEBERTA = DebertaV2Config(
    hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, type_vocab_size=0
)
MODERN = ModernBertConfig()


def _config(recipe: str = "fast", *, max_length: int = 128, student: str = "tiny", **options: object) -> RunConfig:
    return RunConfig(
        student=student,
        distilling=DistilOptions(recipe=recipe, **options),  # type: ignore[arg-type]
        data=TaskOptions(max_length=max_length),
    )


def test_relations_stand_in_for_scores_with_their_weight() -> None:
    stage = Stage(
        name="s",
        description="What.",
        teacher="finetuned",
        data="train",
        losses={"hidden": 1.0, "attention": 3.0, "attention_kl": 2.0},
        learning_rate=1e-3,
    )
    (changed,) = answerable((stage,), 4, DEBERTA, 128)
    assert changed.losses == {"hidden": 1.0, "relations": 3.0}
    assert "relations of queries, keys and values are compared instead" in changed.note
    assert changed.words == f"What. {changed.note}"
    assert answerable((stage,), 4, BertConfig(), 128) == (stage,)
    assert answerable(tiny_recipe(), 4, RobertaConfig(), 128) == tiny_recipe()


def test_it_is_said_before_anything_is_trained() -> None:
    notes = check_recipes(_config(), "classification", DEBERTA)
    assert any("table of pieces alone" in note for note in notes)
    assert any(note.startswith("Attention scores of DeBERTa") for note in notes)
    assert len(notes) == 2
    student = student_preset("tiny", DEBERTA)
    (stages,) = chosen_recipes(_config(), "classification", "tiny", student, DEBERTA).values()
    assert [set(stage.losses) for stage in stages] == [
        {"embedding", "hidden", "relations"},
        {"embedding", "hidden", "relations"},
        {"soft", "hard"},
    ]
    assert not any(stage.note for stage in stages if "soft" in stage.losses)
    # 768 and 312 have 24 as their most common heads.
    with pytest.raises(UserError, match="--relation-heads 5 must divide the widths of student"):
        check_recipes(_config(relation_heads=5), "classification", DEBERTA)


def test_a_student_that_is_not_told_the_two_texts_of_a_pair_apart_is_named() -> None:
    config = _config(student="tiny,distil")
    (note,) = check_recipes(config, "classification", BertConfig(), paired=True)
    assert note.startswith("distil: no segment embeddings")
    assert check_recipes(config, "classification", BertConfig()) == ()
    assert check_recipes(_config(), "classification", BertConfig(), paired=True) == ()
    # RoBERTa's one type says as little.
    assert check_recipes(config, "classification", RobertaConfig(type_vocab_size=1), paired=True) == ()


def test_local_layers_see_all_of_short_texts() -> None:
    assert MODERN.sliding_window == 64
    assert local_layers(MODERN, 65) == ()
    assert local_layers(MODERN, 66)[:4] == (2, 3, 5, 6)
    assert 1 in scored_layers(MODERN, 66)
    assert scored_layers(MODERN, 65) == frozenset(range(1, 23))
    assert scored_layers(DEBERTA, 8) == frozenset()
    assert any("a window alone" in note for note in check_recipes(_config(), "classification", MODERN))
    short = check_recipes(_config(max_length=64), "classification", MODERN)
    assert not any("a window alone" in note for note in short)


@pytest.mark.parametrize(("layers", "kept"), [("1,4,7,22", True), ("1,2,7,22", False), ("nearest", False)])
def test_global_layers_of_modernbert_may_be_named(layers: str, kept: bool) -> None:
    named = Stage(
        name="s",
        description="",
        teacher="finetuned",
        data="train",
        losses={"hidden": 1.0, "attention": 1.0},
        learning_rate=1e-3,
        layers=layers,
    )
    (changed,) = answerable((named,), 4, MODERN, 512)
    assert ("attention" in changed.losses) == kept
    assert (changed.note == "") == kept


@pytest.mark.parametrize(("student", "start"), [("tiny", "prune"), ("distil", "copy"), ("albert", "svd")])
def test_a_start_from_layers_of_another_kind_is_refused_by_name(student: str, start: str) -> None:
    with pytest.raises(UserError, match=rf"student '{student}': start '{start}' .*DeBERTa v2/v3.*start 'embeddings'"):
        check_recipes(_config(student=student, start=start), "classification", DEBERTA)
    assert len(check_recipes(_config(student=student, start="random"), "classification", DEBERTA)) == (
        1 if student == "tiny" else 0
    )
    assert check_recipes(_config(student=student, start="embeddings"), "classification", RobertaConfig()) == ()


@pytest.mark.parametrize(
    ("config", "positions"),
    [
        (BertConfig(), 512),
        (RobertaConfig(max_position_embeddings=514, pad_token_id=1), 512),
        (DEBERTA, 512),
        (MODERN, 8192),
    ],
)
def test_the_longest_text_of_a_family(config: PretrainedConfig, positions: int) -> None:
    assert max_length(config) == positions
    assert in_bert_terms(config).max_position_embeddings == min(positions, 512)
    assert in_bert_terms(config, length=1024).max_position_embeddings == (1024 if config is MODERN else 512)
