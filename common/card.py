"""The model card: what a model folder says about itself to whoever opens it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transformers import PretrainedConfig, PreTrainedModel

from common.heads import head_of_model


@dataclass(frozen=True, kw_only=True)
class CardText:
    """What a model card says beyond what the model itself knows."""

    title: str
    description: str
    """What the model is and how it was made, in sentences."""
    task: str
    teacher: str | None = None
    """Which teacher it was distilled from; None for a teacher."""
    quality: Mapping[str, float] = field(default_factory=dict)
    """Metric with split and n, as in "accuracy (evaluate, n = 872)", to its value."""


def label_names(config: PretrainedConfig) -> list[str]:
    """Class names in index order."""
    labels: dict[Any, str] = dict(config.id2label or {})
    return [labels[index] for index in sorted(labels)]


def card_page(card: CardText, model: PreTrainedModel, size: int) -> str:
    """README.md in Markdown. `size` is that of the weights file, in bytes."""
    quality = [f"| {_cell(name)} | {value:.4f} |" for name, value in card.quality.items()]
    lines = [
        "---",
        "# license: name yours here before you publish",
        "library_name: transformers",
        "pipeline_tag: text-classification",
        "---",
        f"# {_cell(card.title)}",
        "",
        card.description,
        "",
        f"- Architecture: {type(model).__name__}",
        *([f"- Teacher: {card.teacher}"] if card.teacher else []),
        f"- Task: {card.task}",
        f"- Labels: {', '.join(_cell(name) for name in label_names(model.config))}",
        f"- Size: {model.num_parameters():,} parameters, {size / 1e6:.1f} MB",
        "",
        *(["## Quality", "", "| metric | value |", "|---|---|", *quality, ""] if quality else []),
        USAGE.format(auto=f"AutoModel{head_of_model(model)}"),
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Text of the user's as one Markdown table cell."""
    return " ".join(text.split()).replace("|", "\\|")


USAGE = """## Use

```
python -m distill.predict --model "path of this folder" "a text"
```

or, with transformers alone:

```python
from transformers import {auto}, AutoTokenizer

folder = "path of this folder"
tokenizer = AutoTokenizer.from_pretrained(folder)
model = {auto}.from_pretrained(folder)
logits = model(**tokenizer(["a text"], return_tensors="pt")).logits
```
"""
