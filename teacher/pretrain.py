"""Pretrain an encoder from random weights: `python -m teacher.pretrain --corpus pydocs --out DIR`."""

import copy
import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from common.command import run_command
from common.progress import say
from teacher.attention import use_training_attention
from teacher.batches import Batches
from teacher.corpus import Corpus, load_corpus
from teacher.domain import general_counts, piece_counts
from teacher.examples import Examples, draw_examples
from teacher.loop import resolve_precision, train
from teacher.maskings import MASKINGS, PIECES, Masks
from teacher.objectives import OBJECTIVES, evaluate_pretraining
from teacher.pairs import Pairs
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.pretrain_data import PretrainData, held_out_batches, prepare_data, training_batches
from teacher.pretrain_folder import Work, open_work, reusable, write_model
from teacher.pretrain_objective import PretrainObjective
from teacher.pretrain_summary import report, summarise

DROPOUT = 0.1
"""In the written model, for fine-tuning."""

EXAMPLES = """
  python -m teacher.pretrain --corpus pydocs --size mini --out runs/mini
  python -m teacher.pretrain --corpus FOLDER --size small --minutes 60 --out runs/small
"""


def pretrain(config: PretrainConfig, folder: Path) -> Path:
    """Pretrain, and write `folder`: a model that transformers' Auto classes load.

    A finished `folder` of equal settings and text is left as it is. While it runs, everything is in FOLDER-unfinished.

    Raises:
        UserError: `folder` holds something else; too little text; a vocabulary smaller than the alphabet.
    """
    corpus = load_corpus(config.corpus)
    general = load_corpus(config.compared_with) if config.masking == "domain" else None
    settings = config.settings() | {"corpus_fingerprint": corpus.fingerprint()}
    if general is not None:
        settings["general_fingerprint"] = general.fingerprint()
    if reusable(folder, settings):
        say(f"{folder} is pretrained with these settings already: reused. For another one choose another --out")
        return folder
    work = open_work(folder, settings, resume=config.resume)
    data = _data(config, corpus, work)
    precision = resolve_precision(config.precision)
    # Before anything is trained, since there may be no example in what is held out.
    held_out = list(_held_out(config, data))
    objective = _objective(config, len(data.tokenizer))
    masks = _masks(config, data, general) if objective.masked else None
    steps = work.steps(lambda: config.budget or _calibrate(objective, data, masks, config))
    batches, examples = _batches(config, data, masks, steps)
    outcome = train(objective, batches, config.loop(steps), work.folder / "training", label=f"pretrain {config.size}")
    measured = evaluate_pretraining(objective, held_out, precision)
    summary = summarise(data, batches, outcome, measured, accumulation=config.accumulation) | {
        "precision": precision,
        "parameters": objective.model.num_parameters(),
        **_shares(config, examples),
        "corpus": corpus.name,
        "sources": corpus.sources,
    }
    report(summary)
    for model in objective.models.values():
        model.config.update({"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT})
    write_model(folder, objective.models, data.tokenizer, settings=settings, summary=summary, work=work)
    return folder


def _data(config: PretrainConfig, corpus: Corpus, work: Work) -> PretrainData:
    data = prepare_data(
        corpus,
        work.folder / "data",
        vocabulary=config.vocabulary,
        cased=config.cased,
        seed=config.seed,
        enough=None if config.budget is None else config.budget * config.pairs_a_step * config.length,
    )
    for note in corpus.notes():
        say(note)
    return data


def _objective(config: PretrainConfig, vocabulary: int) -> PretrainObjective:
    """With its first weights."""
    shape = bert_config(config, vocabulary)
    objective = OBJECTIVES[config.objective].fresh(shape, config.seed, generator_width=config.generator_width)
    for model in objective.models.values():
        use_training_attention(model)
    return objective


def _masks(config: PretrainConfig, data: PretrainData, general: Corpus | None) -> Masks:
    own = partial(piece_counts, data.learned, len(data.tokenizer))
    choose = MASKINGS[config.masking](
        data.tokenizer, own, lambda: general_counts(general or (), data.tokenizer, config.compared_with)
    )
    return Masks(choose=choose, static=config.masks == "static")


def _held_out(config: PretrainConfig, data: PretrainData) -> Iterator[dict[str, Tensor]]:
    """Pieces are hidden at random whatever --masking is, so that figures can be compared."""
    kind = OBJECTIVES[config.objective]
    masks = PIECES if kind.masked else None
    return held_out_batches(data, length=config.length, seed=config.seed, kind=kind.examples, masks=masks)


def _batches(config: PretrainConfig, data: PretrainData, masks: Masks | None, steps: int) -> tuple[Batches, Examples]:
    examples = draw_examples(
        data.learned,
        OBJECTIVES[config.objective].examples,
        length=config.length,
        seed=config.seed,
        wanted=steps * config.pairs_a_step,
        most=config.dupe_factor,
        all_passes=config.masks == "static",
    )
    batches = training_batches(
        data, examples, batch_size=config.batch_size, length=config.length, seed=config.seed, masks=masks
    )
    return batches, examples


def _shares(config: PretrainConfig, examples: Examples) -> dict[str, float]:
    """The share of pairs whose label is 1: random ones, or swapped ones."""
    if not isinstance(examples, Pairs):
        return {}
    name = "random" if OBJECTIVES[config.objective].examples == "nsp" else "swapped"
    return {f"{name}_pair_share": examples.random_share}


def _calibrate(
    objective: PretrainObjective, data: PretrainData, masks: Masks | None, config: PretrainConfig, trial: int = 12
) -> int:
    """Steps that fit into config.minutes here and now, from the time of a few on a copy of the model."""
    batches, _ = _batches(config, data, masks, trial)
    with tempfile.TemporaryDirectory() as folder:
        outcome = train(copy.deepcopy(objective), batches, config.loop(trial), Path(folder), label="time a few steps")
    assert config.minutes is not None
    return max(1, math.floor(60 * config.minutes / (outcome.seconds / outcome.steps)))


@dataclass(frozen=True, kw_only=True)
class PretrainCommand(PretrainConfig):
    """Pretrain an encoder from random weights, with a vocabulary of its own, and write a model folder."""

    out: Path
    """Model folder to be written; while it runs, everything is in OUT-unfinished."""


def main(command: PretrainCommand) -> None:
    """The command."""
    say(f"model: {pretrain(command, command.out)}")


if __name__ == "__main__":
    raise SystemExit(run_command(main, PretrainCommand, examples=EXAMPLES))
