"""What trimming the packaged teacher's vocabulary to a task's texts saves: rows, megabytes, milliseconds a step.

python tests/bench/trim_vocabulary.py TRAIN.tsv DEV.tsv [FREQUENT]  (a heading, the text in the first column; so many
frequent pieces stay beside those of the training texts)
"""

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from students.vocabulary import trim_vocabulary
from teacher.sources import minilm_folder

STEPS = 15


def texts_of(path: str) -> list[str]:
    """The first column without its heading."""
    return [line.split("\t")[0] for line in Path(path).read_text(encoding="utf-8").splitlines()[1:]]


def stepper(model: Any, tokenizer: Any, texts: list[str]) -> Any:
    """A function that takes one step of AdamW over all parameters and returns its milliseconds."""
    batch = dict(tokenizer(texts, return_tensors="pt", padding=True)) | {"labels": torch.zeros(len(texts)).long()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)

    def step() -> float:
        started = time.perf_counter()
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return 1000 * (time.perf_counter() - started)

    return step


def main() -> None:
    """Print the figures."""
    torch.set_num_threads(1)
    train, held_out = map(texts_of, sys.argv[1:3])
    folder = minilm_folder()
    assert folder is not None, "install the extra minilm"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    trimmed = trim_vocabulary(model, tokenizer, train, frequent=int(sys.argv[3]) if len(sys.argv) > 3 else 0)
    rows = (trimmed.rows_before, trimmed.rows_after)
    print(f"rows {rows[0]} to {rows[1]}, {trimmed.bytes_saved / 1e6:.1f} MB less")
    before, after = tokenizer(train)["input_ids"], trimmed.tokenizer(train)["input_ids"]
    equal = all([trimmed.kept[number] for number in new] == old for old, new in zip(before, after, strict=True))
    print(f"encodings of {len(train)} training texts equal: {equal}")
    words = sum(len(text.split()) for text in held_out)
    for name, own in (("before", tokenizer), ("after", trimmed.tokenizer)):
        pieces = [number for ids in own(held_out, add_special_tokens=False)["input_ids"] for number in ids]
        unknown = pieces.count(own.unk_token_id)
        print(f"held out, {name}: {len(pieces) / words:.4f} pieces a word, {unknown} unknown")
    # In turns, so that a busy moment of the machine falls on both.
    steps = [stepper(model, tokenizer, train[:32]), stepper(trimmed.model, trimmed.tokenizer, train[:32])]
    times = [[step() for step in steps] for _ in range(STEPS)]
    print("ms a step, before and after:", *(f"{median(column):.1f}" for column in zip(*times, strict=True)))


if __name__ == "__main__":
    main()
