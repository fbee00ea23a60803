"""The card of a pretrained model, and the figures that it and the closing lines of the command name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A held-out figure and what reaches how much without learning."""

    name: str
    """In the summary's held_out."""
    title: str
    baseline: str | None = None
    """In held_out or the summary."""


FIGURES = (
    Figure(name="mlm_loss", title="loss of masked pieces (nats)", baseline="unigram_loss"),
    Figure(name="mlm_accuracy", title="accuracy of masked pieces"),
    Figure(name="nsp_accuracy", title="accuracy of next sentence", baseline="nsp_majority"),
    Figure(name="sop_accuracy", title="accuracy of sentence order", baseline="sop_majority"),
    Figure(name="generator_loss", title="loss of the generator's masked pieces (nats)", baseline="unigram_loss"),
    Figure(name="generator_accuracy", title="accuracy of the generator's masked pieces"),
    Figure(name="rtd_loss", title="loss of replaced pieces (nats)"),
    Figure(name="rtd_accuracy", title="accuracy of replaced pieces", baseline="rtd_majority"),
    Figure(name="replaced_share", title="share of replaced pieces"),
    Figure(name="ltr_loss", title="loss of next pieces (nats)", baseline="unigram_loss"),
    Figure(name="ltr_accuracy", title="accuracy of next pieces"),
    Figure(name="ltr_perplexity", title="perplexity of next pieces"),
)
"""In the order of the card; an objective has those that its evaluation gave."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """What differs in the card by objective."""

    architecture: str = "BERT"
    examples: str = "pairs"
    loaded_by: str = "`AutoModel`, `AutoModelForMaskedLM` and `AutoModelForPreTraining` load it."


_ONE_SEGMENT = "The second segment's embedding was never trained."

WORDS = {
    "mlm+nsp": Words(),
    "mlm": Words(
        examples="segments",
        loaded_by=f"`AutoModel` and `AutoModelForMaskedLM` load it. It has no pooler. {_ONE_SEGMENT}",
    ),
    "mlm+sop": Words(),
    "rtd": Words(
        architecture="ELECTRA",
        examples="segments",
        loaded_by="`AutoModel` and `AutoModelForPreTraining` load it, the discriminator. The generator is in the "
        f"folder `generator`, for `AutoModelForMaskedLM`. {_ONE_SEGMENT}",
    ),
    "ltr": Words(
        architecture="Left-to-right BERT",
        examples="segments",
        loaded_by="`AutoModel` and `AutoModelForCausalLM` load it. Its attention is causal (`is_decoder`): [CLS] sees "
        f"only itself, so a text is in the last state or in the mean of all. It has no pooler. {_ONE_SEGMENT}",
    ),
}


def figure_rows(summary: Mapping[str, Any]) -> list[tuple[Figure, float, float | None]]:
    """The figures that there are, each with its value and that of its baseline."""
    held_out = summary["held_out"]
    values = {**summary, **held_out}
    return [
        (figure, held_out[figure.name], None if figure.baseline is None else values[figure.baseline])
        for figure in FIGURES
        if figure.name in held_out
    ]


def card(settings: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """The model card."""
    words, held_out = WORDS[settings["objective"]], summary["held_out"]
    batch, case = settings["batch_size"] * settings["accumulation"], "cased" if summary["cased"] else "lower case"
    notes = "".join(f"- {note}\n" for note in summary["notes"])
    # As JSON in a code span, a corpus name cannot change the page.
    corpus = json.dumps(summary["corpus"]).replace("`", "'")
    rows = "\n".join(
        f"| {figure.title} | {value:.3f} | {'' if baseline is None else f'{baseline:.3f} '}|"
        for figure, value, baseline in figure_rows(summary)
    )
    tested = held_out.get("pairs", held_out.get("sequences"))
    longest = settings.get("long_length", settings["length"])
    return f"""# {words.architecture} {_shape(settings)}, pretrained from random weights

Objective {settings["objective"]} on `{corpus}`: {summary["steps"]:,} steps of {batch} {words.examples} of at most
{settings["length"]} pieces{second_phase(settings)}, {summary["tokens"]:,} tokens in
{summary["seconds"]:.0f} s.{what_was_hidden(settings)}
{summary["parameters"]:,} parameters, {summary["vocabulary"]:,} WordPieces, {case}.

| {tested:,} {words.examples} of held-out documents | model | without context |
|---|---|---|
{rows}

{notes}
{words.loaded_by} Positions from {longest} on were
never trained. All settings and figures are in pretraining.json, the curves in history.jsonl.
"""


def part_card(name: str, settings: Mapping[str, Any]) -> str:
    """The card of a model that stands in the folder `name` inside another one's."""
    whole = f"{WORDS[settings['objective']].architecture} {settings['size']}"
    return f"""# The {name} of {whole}

It was trained beside the model in the folder above, which says how. `AutoModelForMaskedLM` loads it.
"""


def _shape(settings: Mapping[str, Any]) -> str:
    """The size, and what differs from it."""
    changes = [f"{name} {settings[name]}" for name in ("layers", "hidden", "heads", "ffn") if name in settings]
    return settings["size"] + (f" ({', '.join(changes)})" if changes else "")


def second_phase(settings: Mapping[str, Any]) -> str:
    """The second phase, where there is one."""
    if "long_length" not in settings:
        return ""
    return f" ({settings['long_length']} in the last {settings.get('long_share', 0.1):.0%} of the steps)"


def what_was_hidden(settings: Mapping[str, Any]) -> str:
    """What was hidden, where that is not the default, as a sentence after a space."""
    masking, masks = settings.get("masking", "piece"), settings.get("masks", "dynamic")
    if (masking, masks) == ("piece", "dynamic"):
        return ""
    return f" Masking {masking}, {masks}; the figures are with pieces hidden at random."
