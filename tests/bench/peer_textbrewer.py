"""Contestant: TextBrewer's GeneralDistiller, set up as its documentation does for a three-layer BERT.

That is: cross-entropy of the logits at a temperature, and for embeddings and every layer the mean squared error of the
hidden states and the "mmd" loss (matches L3_hidden_mse and L3_hidden_smmd of its examples), with dynamic padding. The
losses are its own: no squared temperature with the logits, and mmd divides by the padded length where there is a mask.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from contest import Contestant, Meter, compete, parser
from textbrewer import DistillationConfig, GeneralDistiller, TrainingConfig  # type: ignore[import-not-found]
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import DataCollatorWithPadding, PreTrainedModel, get_linear_schedule_with_warmup


class TextBrewer(Contestant):
    """GeneralDistiller in fp32: half precision is there for graphics cards with apex only."""

    name = "textbrewer"

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self._teacher = self.work.model("teacher")
        self._collate = DataCollatorWithPadding(self.work.tokenizer())
        self._rows: list[Any] = [{"input_ids": ids.tolist()} for ids in self.train_split.ids]

    def train(self, student: PreTrainedModel, steps: int, meter: Meter) -> None:
        options = self.options
        with _distiller(options, self._teacher, student, steps) as distiller:
            distiller.train(
                torch.optim.AdamW(student.parameters(), lr=options.learning_rate, weight_decay=0.01),
                self._loader(meter),
                scheduler_class=get_linear_schedule_with_warmup,
                scheduler_args={"num_warmup_steps": round(0.1 * steps), "num_training_steps": steps},
                max_grad_norm=1.0,
                num_steps=steps,
                output_hidden_states=not options.logits_only,
            )

    def _loader(self, meter: Meter) -> DataLoader:
        def collate(rows: list[dict[str, list[int]]]) -> dict[str, Tensor]:
            # A plain dict: TextBrewer passes any other mapping on as positional arguments.
            batch = dict(self._collate(rows))
            meter.saw(batch["input_ids"])
            return batch

        return DataLoader(
            self._rows,  # type: ignore[arg-type]
            batch_size=self.options.texts,
            shuffle=True,
            collate_fn=collate,
            generator=torch.Generator().manual_seed(self.options.seed),
        )


@contextmanager
def _distiller(
    options: argparse.Namespace, teacher: PreTrainedModel, student: PreTrainedModel, steps: int
) -> Iterator[GeneralDistiller]:
    with tempfile.TemporaryDirectory() as folder:
        distiller = GeneralDistiller(
            # "cuda" is its default; `ckpt_steps` has to be a number, and it saves at the end in any case.
            TrainingConfig(device="cpu", output_dir=folder, ckpt_steps=steps),
            DistillationConfig(
                temperature=options.temperature,
                intermediate_matches=None if options.logits_only else _matches(options.layers),
            ),
            teacher,
            student,
            _adaptor,
            _adaptor,
        )
        with distiller:
            yield distiller


def _adaptor(batch: Mapping[str, Tensor], outputs: Any) -> dict[str, Any]:
    return {"logits": outputs.logits, "hidden": outputs.hidden_states, "inputs_mask": batch["attention_mask"]}


def _matches(layers: str) -> list[dict[str, Any]]:
    """Embeddings to embeddings, each student layer to its teacher layer: both losses with weight 1."""
    pairs = list(enumerate([0, *(int(layer) for layer in layers.split(","))]))
    common = {"feature": "hidden", "weight": 1}
    return [
        *({"layer_S": own, "layer_T": other, "loss": "hidden_mse", **common} for own, other in pairs),
        *({"layer_S": [own, own], "layer_T": [other, other], "loss": "mmd", **common} for own, other in pairs),
    ]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--learning-rate", type=float, default=1e-4)
    options.add_argument("--temperature", type=float, default=4.0)
    options.add_argument("--logits-only", action="store_true", help="no hidden states")
    compete(TextBrewer(options.parse_args()))


if __name__ == "__main__":
    main()
