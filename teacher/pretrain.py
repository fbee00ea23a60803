"""Pretrain an encoder from random weights, or one further: `python -m teacher.pretrain --corpus pydocs --out DIR`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from common.command import run_command
from common.progress import say
from teacher.attention import use_training_attention
from teacher.continued import Continued, load_continued
from teacher.corpus import Corpus, load_corpus
from teacher.course import best_of, run_course, steps_in
from teacher.loop import Outcome
from teacher.loop_config import resolve_precision
from teacher.maskings import OF_WORDS
from teacher.objectives import OBJECTIVES, evaluate_pretraining
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.pretrain_data import unigram_loss
from teacher.pretrain_folder import Work, open_work, own_folder, refuse_inside, sole_work
from teacher.pretrain_material import Material, gather
from teacher.pretrain_model import finisher, write_model
from teacher.pretrain_objective import PretrainObjective
from teacher.pretrain_summary import report, summarise
from teacher.ranks import from_main, main_first, ranks
from teacher.recompute import recompute_activations
from teacher.scalars import writer_class
from teacher.sources import weights_identity
from teacher.step import refuse_non_finite
from teacher.vocabulary import extend_embeddings
from teacher.word_starts import word_starts
from teacher.wordpiece import check_wordpiece, load_wordpiece, tokenizer_fingerprint

EXAMPLES = """
  python -m teacher.pretrain --corpus pydocs --size mini --out runs/mini
  python -m teacher.pretrain --corpus FOLDER --size small --minutes 60 --out runs/small
  python -m teacher.pretrain --from minilm --corpus FOLDER --objective mlm --out runs/minilm-further
  torchrun --nproc-per-node 2 -m teacher.pretrain --size base --length 128 --long-length 512 --out runs/base
"""


def pretrain(config: PretrainConfig, folder: Path, *, beside: bool = False) -> Path:
    """Pretrain, and write `folder`, which is returned: a model that transformers' Auto classes load.

    A finished `folder` of equal settings and text is left as it is. While it runs, everything is in FOLDER-unfinished,
    which a second run waits for. With `beside` a `folder` of other settings or text is no error: another one is made
    beside it, and returned.

    Raises:
        UserError: `folder` holds something else, or does at the end; curves inside it; too little text; a vocabulary
        smaller than the alphabet; no model to go on from, or one that lacks what is asked for; bf16 that is emulated.
    """
    ranks()
    resolve_precision(config.precision)
    if config.schedule.tensorboard is not None:
        refuse_inside(config.schedule.tensorboard, folder)
        writer_class()
    corpus = load_corpus(config.corpus, text_column=config.text_column)
    general = load_corpus(config.compared_with) if config.masking == "domain" else None
    tokenizer = None if config.tokenizer is None else load_wordpiece(config.tokenizer)
    settings = config.settings() | _fingerprints(config, corpus, general, tokenizer)
    if beside:
        folder = from_main(lambda: own_folder(folder, settings))
    with sole_work(folder, settings) as needed:
        if needed:
            _make(config, corpus, general, tokenizer, settings, folder)
        else:
            say(f"{folder} is pretrained with these settings already: reused. For another one choose another --out")
    # The others go on only when the folder is there.
    ranks().wait_for_everyone()
    return folder


def _fingerprints(
    config: PretrainConfig, corpus: Corpus, general: Corpus | None, tokenizer: PreTrainedTokenizerFast | None
) -> dict[str, str]:
    """Of everything that options only name."""
    found = {"corpus_fingerprint": corpus.fingerprint()}
    if general is not None:
        found["general_fingerprint"] = general.fingerprint()
    if tokenizer is not None:
        found["tokenizer_fingerprint"] = tokenizer_fingerprint(tokenizer)
    if config.start.source is not None:
        found["from_weights"] = weights_identity(config.start.source)
    return found


def _make(
    config: PretrainConfig,
    corpus: Corpus,
    general: Corpus | None,
    tokenizer: PreTrainedTokenizerFast | None,
    settings: dict[str, Any],
    folder: Path,
) -> None:
    """Start, or go on, and finish."""
    work = from_main(lambda: open_work(folder, settings, resume=config.resume))
    source = config.start.source
    with work.unless_refused():
        start = None if source is None else _continued(config, source)
        given = tokenizer if start is None else start.tokenizer
        material = main_first(lambda: gather(config, corpus, general, work, given))
    _learn(config, corpus, material, start, settings, work, folder)


def _continued(config: PretrainConfig, source: str) -> Continued:
    """The encoder at `source`. What cannot be done with it is said before hours of reading text, not after them."""
    start = load_continued(source, config.seed, config.longest)
    if config.start.extend_vocabulary is not None:
        check_wordpiece(start.tokenizer)
    if config.masking in OF_WORDS:
        word_starts(start.tokenizer)
    if config.schedule.activation_checkpointing:
        recompute_activations(start.model)
    return start


def _learn(
    config: PretrainConfig,
    corpus: Corpus,
    material: Material,
    start: Continued | None,
    settings: dict[str, Any],
    work: Work,
    folder: Path,
) -> None:
    """Train, and write the finished folder."""
    data, precision = material.data, resolve_precision(config.precision)
    # Before anything is trained, since there may be no example in what is held out.
    held_out = list(material.held_out())
    objective = _objective(config, material, start)

    def figures() -> dict[str, float]:
        return evaluate_pretraining(objective, held_out, precision)

    before = None if start is None or start.new_head else figures()
    steps = work.steps(
        lambda: config.budget or steps_in(config, objective, lambda trial: material.batches(trial)[0], figures)
    )
    batches, examples = material.batches(steps)
    unigram = unigram_loss(data.learned)
    outcome = run_course(config, objective, batches, steps, work, unigram=unigram, figures=figures)
    if not ranks().is_main_process:
        return
    best, held_out_figures = best_of(objective, outcome, work), figures()
    refuse_non_finite(held_out_figures, "after the last step", outcome.steps - 1, what="held-out figure")
    summary = summarise(data, batches, outcome, held_out_figures, accumulation=config.accumulation) | {
        "precision": precision,
        "parameters": objective.model.num_parameters(),
        **material.shares(examples),
        "corpus": corpus.name,
        "sources": corpus.sources,
    }
    report(summary)
    summary |= _of_start(start, before, summary["notes"]) | _of_best(best, outcome)
    finish = finisher(start)
    models = {name: finish(model) for name, model in objective.models.items()}
    if best is not None:
        models |= {f"best/{name}".rstrip("/"): finish(model) for name, model in best.models.items()}
    write_model(folder, models, data.tokenizer, settings=settings, summary=summary, work=work)


def _objective(config: PretrainConfig, material: Material, start: Continued | None) -> PretrainObjective:
    """With its first weights."""
    tokenizer = material.data.tokenizer
    objective: PretrainObjective
    if start is None:
        shape = bert_config(config, len(tokenizer), pad=int(tokenizer.pad_token_id))
        objective = OBJECTIVES[config.objective].fresh(shape, config.seed, generator_width=config.generator_width)
    else:
        extend_embeddings(start.model, start.tokenizer, tokenizer)
        objective = start.objective(config.dropout)
    for model in objective.models.values():
        use_training_attention(model)
        if config.schedule.activation_checkpointing:
            recompute_activations(model)
    return objective


def _of_start(start: Continued | None, before: dict[str, float] | None, notes: list[str]) -> dict[str, Any]:
    """What the summary says about the model that was gone on from."""
    if start is None:
        return {}
    return {"held_out_before": before, "new_head": start.new_head, "notes": [*start.notes, *notes]}


def _of_best(best: PretrainObjective | None, outcome: Outcome) -> dict[str, Any]:
    """What the summary says about weights that were better than the last."""
    if best is None:
        return {}
    say(f"the weights of step {outcome.selected_step:,} were better on held-out text: they are in the folder best")
    return {"best_step": outcome.selected_step, "best_loss": -(outcome.selected_value or 0.0)}


@dataclass(frozen=True, kw_only=True)
class PretrainCommand(PretrainConfig):
    """Pretrain an encoder, from random weights and a vocabulary of its own, or further (--from); write its folder."""

    out: Path
    """Model folder to be written; while it runs, everything is in OUT-unfinished."""


def main(command: PretrainCommand) -> None:
    """The command."""
    say(f"model: {pretrain(command, command.out)}")


if __name__ == "__main__":
    raise SystemExit(run_command(main, PretrainCommand, examples=EXAMPLES))
