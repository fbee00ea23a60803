"""A classifier on a left-to-right encoder, whose [CLS] sees only itself: it reads the last piece instead."""

from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from transformers import BertForSequenceClassification, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from common.aligned import aligned
from teacher.head import start_in_label_units
from teacher.sources import Loaded, read_tokenizer
from teacher.tasks.base import Task


class LastStateClassifier(BertForSequenceClassification):
    """BERT's classifier with the state of the last real piece, which has seen all others, in [CLS]'s place.

    Pooler (dense, tanh) and output layer are BERT's, so that nothing but the place differs. GPT reads a text there too
    (Radford et al. 2018, section 3.2).
    """

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> SequenceClassifierOutput:
        """(batch, length) each, padded on the right, to logits (batch, outputs)."""
        states = self.bert(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids, use_cache=False
        ).last_hidden_state
        last = states[torch.arange(len(states), device=states.device), attention_mask.sum(dim=1) - 1]
        pooler = cast(nn.Module, self.bert.pooler)
        # It takes the first of a row of states.
        pooled = pooler(last[:, None])
        return SequenceClassifierOutput(logits=self.classifier(self.dropout(pooled)))


def load_left_to_right(folder: Path, task: Task, seed: int) -> Loaded:
    """The left-to-right encoder in `folder` with a new pooler and head for `task`, drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = LastStateClassifier.from_pretrained(folder, dtype=torch.float32, **task.head())
    start_in_label_units(aligned(model), task)
    return Loaded(model=model, tokenizer=read_tokenizer(str(folder), model), finetuned=False)
