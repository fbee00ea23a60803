"""A table of pieces for another vocabulary, and the teacher that has it."""

import pytest
import torch
from families import TEACHERS, tiny_classifier
from toy_tokenizers import byte_level, unigram
from transformers import BertTokenizerFast, PreTrainedTokenizerBase

from students.build import build_student
from students.presets import STUDENTS, student_preset
from students.retokenised import retokenised
from teacher.carried import carried, forms


@pytest.fixture(scope="module")
def tokenizers(
    tmp_path_factory: pytest.TempPathFactory, tiny_tokenizer: BertTokenizerFast
) -> dict[str, PreTrainedTokenizerBase]:
    folder = tmp_path_factory.mktemp("tokenizers")
    return {"wordpiece": tiny_tokenizer, "bytes": byte_level(folder), "unigram": unigram(folder)}


@pytest.mark.parametrize("name", ["wordpiece", "bytes", "unigram"])
def test_the_same_vocabulary_keeps_its_table(name: str, tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    tokenizer = tokenizers[name]
    table = torch.randn(len(tokenizer), 4)
    made = carried(table, tokenizer, tokenizer)
    known = [*forms(tokenizer), *tokenizer.all_special_ids]
    torch.testing.assert_close(made[known], table[known])
    assert len(known) >= len(tokenizer) * (0.5 if name == "bytes" else 1)


def test_words_keep_their_rows_and_others_are_means(tokenizers: dict[str, PreTrainedTokenizerBase]) -> None:
    words, data = tokenizers["wordpiece"], tokenizers["bytes"]
    table = torch.randn(len(data), 4)
    made = carried(table, data, words)
    assert words.convert_ids_to_tokens(words("film")["input_ids"])[1] == "film"
    assert data.tokenize(" film") == ["Ġfilm"]
    torch.testing.assert_close(made[words.convert_tokens_to_ids("film")], table[data.convert_tokens_to_ids("Ġfilm")])
    torch.testing.assert_close(made[words.convert_tokens_to_ids("##z")], table[data.convert_tokens_to_ids("z")])
    # "return" at the beginning has no row of its own among theirs, but pieces.
    pieces = data("  return"[1:], add_special_tokens=False)["input_ids"]
    torch.testing.assert_close(made[words.convert_tokens_to_ids("return")], table[pieces].mean(0))
    for ours, theirs in (
        ("[PAD]", "<pad>"),
        ("[CLS]", "<s>"),
        ("[SEP]", "</s>"),
        ("[MASK]", "<mask>"),
        ("[UNK]", "<unk>"),
    ):
        row = table[data.convert_tokens_to_ids(theirs)]
        torch.testing.assert_close(made[words.convert_tokens_to_ids(ours)], row)


@pytest.mark.parametrize("kind", TEACHERS)
def test_every_student_of_every_teacher_takes_another_vocabulary(
    kind: str, tokenizers: dict[str, PreTrainedTokenizerBase]
) -> None:
    data = tokenizers["bytes"]
    teacher = tiny_classifier(kind, len(tokenizers["wordpiece"]))
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    table = carried(teacher.get_input_embeddings().weight.detach(), tokenizers["wordpiece"], data)
    other = retokenised(teacher, table, pad=1, bos=0, eos=2)
    assert torch.equal(other.get_input_embeddings().weight, table)
    for name in STUDENTS:
        student = build_student(student_preset(name, other.config), other, seed=0)
        assert student.config.vocab_size == len(data)
        assert (student.config.pad_token_id, student.config.bos_token_id, student.config.eos_token_id) == (1, 0, 2)
        ids = torch.tensor([[0, 20, 300, 2, 1]])
        assert student(input_ids=ids, attention_mask=(ids != 1).long()).logits.shape == (1, 3)
    assert teacher.config.vocab_size == len(tokenizers["wordpiece"])
    assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())
