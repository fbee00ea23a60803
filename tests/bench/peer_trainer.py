"""Contestant: transformers' Trainer with the usual distillation loss: the teacher answers every batch anew."""

import argparse
import tempfile
from typing import Any

import torch
from contest import Contestant, Meter, compete, parser
from torch import Tensor
from torch.nn import functional
from transformers import DataCollatorWithPadding, PreTrainedModel, Trainer, TrainingArguments


class DistillationTrainer(Trainer):
    """KL divergence from the teacher's softened distribution, times the squared temperature.

    Args:
        teacher: in evaluation mode.
        temperature: of both.
        settings: of Trainer.
    """

    def __init__(self, *, teacher: PreTrainedModel, temperature: float, **settings: Any) -> None:
        super().__init__(**settings)
        self._teacher, self._temperature = teacher, temperature

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        outputs = model(**inputs)
        with torch.no_grad():
            target = self._teacher(**inputs).logits
        soft = functional.kl_div(
            functional.log_softmax(outputs.logits.float() / self._temperature, dim=-1),
            functional.log_softmax(target.float() / self._temperature, dim=-1),
            log_target=True,
            reduction="batchmean",
        )
        loss = soft * self._temperature**2
        return (loss, outputs) if return_outputs else loss


class TrainerContestant(Contestant):
    """Trainer in fp32 or bf16."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options)
        self.name = f"trainer-{'bf16' if options.bf16 else 'fp32'}"
        self._teacher = self.work.model("teacher")
        self._collate = DataCollatorWithPadding(self.work.tokenizer())
        self._rows = [{"input_ids": ids.tolist()} for ids in self.train_split.ids]

    def train(self, student: PreTrainedModel, steps: int, meter: Meter) -> None:
        def collate(rows: list[dict[str, list[int]]]) -> Any:
            batch = self._collate(rows)
            meter.saw(batch["input_ids"])
            return batch

        with tempfile.TemporaryDirectory() as folder:
            trainer = DistillationTrainer(
                teacher=self._teacher,
                temperature=self.options.temperature,
                model=student,
                args=self._arguments(folder, steps),
                data_collator=collate,
                train_dataset=self._rows,
            )
            trainer.train()

    def _arguments(self, folder: str, steps: int) -> TrainingArguments:
        options = self.options
        return TrainingArguments(
            output_dir=folder,
            use_cpu=True,
            bf16=options.bf16,
            per_device_train_batch_size=options.texts,
            max_steps=steps,
            learning_rate=options.learning_rate,
            weight_decay=0.01,
            warmup_steps=round(0.1 * steps),
            train_sampling_strategy="group_by_length" if options.group_by_length else "random",
            remove_unused_columns=False,
            seed=options.seed,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--bf16", action="store_true")
    options.add_argument("--group-by-length", action="store_true", help="Trainer's own buckets, off by default there")
    options.add_argument("--learning-rate", type=float, default=1e-4)
    options.add_argument("--temperature", type=float, default=2.0)
    compete(TrainerContestant(options.parse_args()))


if __name__ == "__main__":
    main()
