"""A teacher that reads another vocabulary: what students with a tokenizer of their own start from."""

import copy
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from students.mapping import as_bert, has_bert_layers


def retokenised(
    teacher: PreTrainedModel, table: Tensor, *, pad: int, bos: int | None, eos: int | None
) -> PreTrainedModel:
    """A copy of the teacher, in BERT's class where that is possible, with this table of pieces (pieces, width).

    `pad`, `bos` and `eos`: ids of special pieces in the new vocabulary.
    """
    made: Any = copy.deepcopy(as_bert(teacher) if has_bert_layers(teacher.config) else teacher)
    made.set_input_embeddings(nn.Embedding.from_pretrained(table.clone(), freeze=False, padding_idx=pad))
    made.config.vocab_size = len(table)
    made.config.pad_token_id, made.config.bos_token_id, made.config.eos_token_id = pad, bos, eos
    return made
