"""Texts a second of `distill.predict` and of transformers' pipeline, with the same model, texts and threads, in turn.

python tests/bench/predict.py --model DIR [--file TEXTS] [--texts 10000] [--threads 2] [--repeats 1]
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from distill.predict import PredictConfig, Running, predict
from distill.predict_models import find_model
from distill.predict_texts import Reading

WORDS = ("the", "a", "film", "plot", "actor", "music", "good", "bad", "funny", "boring", "it", "is", "never", "story")


def made_up(count: int) -> list[str]:
    """Texts of 2 to 38 words, half of them of 9 at most, as SST-2's training phrases are."""
    draw = random.Random(0)
    lengths = (draw.choice((draw.randint(2, 9), draw.randint(10, 38))) for _ in range(count))
    return [" ".join(draw.choices(WORDS, k=length)) for length in lengths]


def ours(model: Path, texts: Sequence[str], threads: int) -> list[str]:
    """Labels by the command's own function, reading a file and writing one, loading included."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.txt", Path(folder) / "out.jsonl"
        source.write_text("\n".join(texts), encoding="utf-8")
        running = Running(threads=threads)
        predict(PredictConfig(model=model, reading=Reading(file=source), out=target, running=running))
        return [json.loads(line)["label"] for line in target.read_text(encoding="utf-8").splitlines()]


def theirs(model: Path, texts: Sequence[str], threads: int, batch_size: int) -> list[str]:
    """Labels by a pipeline in fp32, loading included."""
    torch.set_num_threads(threads)
    classify = pipeline(
        "text-classification",
        model=AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32).eval(),
        tokenizer=AutoTokenizer.from_pretrained(model),
        batch_size=batch_size,
    )
    found = classify(list(texts), truncation=True, max_length=128, top_k=None)
    return [max(row, key=lambda answer: answer["score"])["label"] for row in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a torch model folder")
    parser.add_argument("--file", type=Path, help="one text a line; made-up ones if not given")
    parser.add_argument("--texts", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    lines = options.file.read_text(encoding="utf-8").splitlines() if options.file else made_up(options.texts)
    texts, model, threads = lines[: options.texts], find_model(options.model), options.threads
    few = texts[: max(1, len(texts) // 10)]
    ways: dict[str, tuple[Callable[[], list[str]], int]] = {
        "distill.predict": (lambda: ours(model, texts, threads), len(texts)),
        "pipeline, batches of 64": (lambda: theirs(model, texts, threads, 64), len(texts)),
        "pipeline as it comes": (lambda: theirs(model, few, threads, 1), len(few)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.repeats):
        labels = {}
        for name, (way, _) in ways.items():
            start = time.perf_counter()
            labels[name] = way()
            seconds[name].append(time.perf_counter() - start)
        first = labels["distill.predict"]
        for name, found in labels.items():
            same = sum(a == b for a, b in zip(found, first, strict=False)) / len(found)
            print(f"{name}: {same:.2%} of the labels are those of distill.predict")
    rates = {name: ways[name][1] / statistics.median(times) for name, times in seconds.items()}
    for name, rate in rates.items():
        print(f"{name:24} {rate:7,.0f} a second, distill.predict {rates['distill.predict'] / rate:.2f} times as fast")


if __name__ == "__main__":
    main()
