"""Contestant: transformers' Trainer with its collator for masked pieces, on texts in a row, as run_mlm.py has them."""

import argparse
import tempfile
from typing import Any

import numpy as np
import torch
from pretrain_pace import Meter, Work, compete, parser, shape, text
from transformers import BertForMaskedLM, DataCollatorForLanguageModeling, Trainer, TrainingArguments

from teacher.pieces import Pieces


def rows_of(pieces: Pieces, count: int, length: int, *, cls: int, sep: int) -> list[dict[str, list[int]]]:
    """The first `count` runs of `length` pieces of all documents in a row, each between [CLS] and [SEP]."""
    stream: list[np.ndarray] = []
    found, document = 0, 0
    starts = pieces.sentences[pieces.documents]
    while found < count * length and document < len(pieces):
        ids = pieces.ids[starts[document] : starts[document + 1]]
        stream.append(np.concatenate([[cls], ids, [sep]]).astype(np.int64))
        found, document = found + len(ids) + 2, document + 1
    flat = np.concatenate(stream)
    cut = flat[: len(flat) // length * length].reshape(-1, length)[:count]
    special = (cut == cls) | (cut == sep)
    return [
        {
            "input_ids": ids.tolist(),
            "attention_mask": [1] * length,
            "token_type_ids": [0] * length,
            "special_tokens_mask": marks.tolist(),
        }
        for ids, marks in zip(cut, special.astype(int), strict=True)
    ]


def arguments(options: argparse.Namespace, folder: str, steps: int) -> TrainingArguments:
    return TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        bf16=options.bf16,
        per_device_train_batch_size=options.batch_size,
        max_steps=steps,
        learning_rate=1e-4,
        weight_decay=0.01,
        warmup_steps=round(0.1 * steps),
        seed=options.seed,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--bf16", action="store_true")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    data, steps = text(given.corpus, given.work), given.warmup + given.steps
    specials = {"cls": int(data.tokenizer.cls_token_id), "sep": int(data.tokenizer.sep_token_id)}
    rows = rows_of(data.learned, (steps + 2) * given.batch_size, given.length, **specials)
    model = BertForMaskedLM(shape(given, data))
    collate = DataCollatorForLanguageModeling(data.tokenizer, mlm_probability=0.15)
    with tempfile.TemporaryDirectory() as folder, Meter() as meter:

        def seen(examples: list[dict[str, Any]]) -> Any:
            batch = collate(examples)
            meter.saw(batch["attention_mask"], int((batch["labels"] != -100).sum()))
            return batch

        Trainer(model=model, args=arguments(given, folder, steps), data_collator=seen, train_dataset=rows).train()
    result = meter.result(given.warmup, Work(config=model.config, pooled=False))
    compete(given, {"precision": "bf16" if given.bf16 else "fp32", "parameters": model.num_parameters()} | result)


if __name__ == "__main__":
    main()
