"""README.md of an exported folder."""

from common.card import CardText
from students.onnx_folder import OnnxInfo

SCRIPT = """import json
import sys

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder, texts = sys.argv[1], sys.argv[2:]
with open(f"{folder}/onnx.json", encoding="utf-8") as stream:
    about = json.load(stream)
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")  # it pads and truncates as the model needs
session = onnxruntime.InferenceSession(f"{folder}/model.onnx", providers=about["providers"])
pieces = tokenizer.encode_batch(texts)
rows = {
    "input_ids": [piece.ids for piece in pieces],
    "attention_mask": [piece.attention_mask for piece in pieces],
    "token_type_ids": [piece.type_ids for piece in pieces],
}
(logits,) = session.run(["logits"], {name: np.array(rows[name]) for name in about["inputs"]})
for text, row in zip(texts, logits):
    probabilities = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
    print(about["labels"][row.argmax()], f"{probabilities.max():.4f}", text)
"""
"""Runs a classifier's folder with numpy, ONNX Runtime and tokenizers alone."""


def onnx_card(info: OnnxInfo, card: CardText | None, size: int) -> str:
    """The page, in Markdown. `size` is that of model.onnx, in bytes."""
    fused = ", ".join(f"{count} {name}" for name, count in info.fused.items())
    facts = [
        f"- Kind: {info.kind}, {info.precision}",
        f"- Inputs: {', '.join(info.inputs)}, int64 (batch, length), up to {info.max_length} pieces a text",
        f"- Outputs: {', '.join(info.outputs)}, float32",
        f"- Labels: {', '.join(' '.join(name.split()) for name in info.labels)}",
        f"- Size: {size / 1e6:.1f} MB",
        f"- Fused operators: {fused or 'none'}",
    ]
    about = [] if card is None else [card.description, "", f"- Task: {card.task}"]
    quality = [] if card is None else [f"| {name} | {value:.4f} |" for name, value in card.quality.items()]
    table = ["", "| metric | value |", "|---|---|", *quality] if quality else []
    title = "An exported model" if card is None else " ".join(card.title.split())
    header = ["---", "# license: name yours here before you publish", "---", f"# {title}", ""]
    usage = ["", "Made for ONNX Runtime.", *_usage(info)]
    return "\n".join([*header, *about, *facts, *table, *usage, ""])


def _usage(info: OnnxInfo) -> list[str]:
    if info.problem != "single_label_classification":
        return ["", "`python -m distill.predict --model FOLDER` answers texts with it, without torch."]
    return [
        "`pip install numpy onnxruntime tokenizers` is all that this script needs:",
        "",
        "```python",
        SCRIPT + "```",
    ]
