"""Pretrain an encoder from random weights, or one further: `python -m teacher.pretrain --corpus pydocs --out DIR`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.command import run_command
from common.progress import say
from teacher.attention import use_training_attention
from teacher.batches import Batches
from teacher.corpus import Corpus, load_corpus
from teacher.course import best_of, kept, models_of, phased, run_course, steps_in
from teacher.loop import resolve_precision
from teacher.objectives import OBJECTIVES, evaluate_pretraining, fresh_bert
from teacher.pairs import Pairs
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.pretrain_data import (
    PretrainData,
    held_out_batches,
    prepare_data,
    training_batches,
    training_pairs,
    unigram_loss,
)
from teacher.pretrain_folder import Work, open_work, reusable, write_model
from teacher.pretrain_further import identity, pretrain_further
from teacher.pretrain_summary import report, summarise
from teacher.ranks import from_main, main_first, ranks
from teacher.recompute import recompute_activations
from teacher.scalars import writer_class

DROPOUT = 0.1
"""In the written model, for fine-tuning."""

EXAMPLES = """
  python -m teacher.pretrain --corpus pydocs --size mini --out runs/mini
  python -m teacher.pretrain --corpus FOLDER --size small --minutes 60 --out runs/small
  python -m teacher.pretrain --from minilm --corpus FOLDER --objective mlm --out runs/minilm-further
  torchrun --nproc-per-node 2 -m teacher.pretrain --size base --length 128 --long-length 512 --out runs/base
"""


def pretrain(config: PretrainConfig, folder: Path) -> Path:
    """Pretrain, and write `folder`: a model that AutoModel, AutoModelForMaskedLM and AutoModelForPreTraining load.

    A finished `folder` of equal settings and text is left as it is. While it runs, everything is in FOLDER-unfinished.

    Raises:
        UserError: `folder` holds something else; too little text; a vocabulary smaller than the alphabet.
    """
    ranks()
    if config.schedule.tensorboard is not None:
        writer_class()
    corpus = load_corpus(config.corpus)
    settings = config.settings() | {"corpus_fingerprint": corpus.fingerprint()}
    if config.start.source is not None:
        settings["from_weights"] = identity(config.start.source)
    if from_main(lambda: reusable(folder, settings)):
        say(f"{folder} is pretrained with these settings already: reused. For another one choose another --out")
        return folder
    work = from_main(lambda: open_work(folder, settings, resume=config.resume))
    if config.start.source is not None:
        pretrain_further(config, corpus, work, settings, folder)
    else:
        _from_nothing(config, corpus, work, settings, folder)
    # The others go on only when the folder is there.
    ranks().wait_for_everyone()
    return folder


def _from_nothing(config: PretrainConfig, corpus: Corpus, work: Work, settings: dict[str, Any], folder: Path) -> None:
    data = main_first(lambda: _data(config, corpus, work))
    precision = resolve_precision(config.precision)
    model = fresh_bert(bert_config(config, len(data.tokenizer)), config.seed)
    use_training_attention(model)
    if config.schedule.activation_checkpointing:
        recompute_activations(model)
    objective = OBJECTIVES[config.objective](model)

    def figures() -> dict[str, float]:
        held_out = held_out_batches(data, length=config.longest, seed=config.seed)
        return evaluate_pretraining(objective, held_out, precision)

    steps = work.steps(
        lambda: config.budget or steps_in(config, objective, lambda trial: _batches(config, data, trial)[0])
    )
    batches, pairs = _batches(config, data, steps)
    label = f"pretrain {config.size}"
    outcome = run_course(
        config, objective, batches, steps, work, label=label, unigram=unigram_loss(data.learned), figures=figures
    )
    if not ranks().is_main_process:
        return
    best = best_of(objective, outcome, work)
    summary = summarise(data, batches, outcome, figures(), accumulation=config.accumulation) | {
        "precision": precision,
        "parameters": model.num_parameters(),
        "random_pair_share": pairs.random_share,
        "corpus": corpus.name,
        "sources": corpus.sources,
        **kept(outcome, best),
    }
    report(summary)
    models = models_of(model, None if best is None else best.model)
    for written in models.values():
        written.config.update({"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT})
    write_model(folder, models, data.tokenizer, settings=settings, summary=summary, work=work)


def _data(config: PretrainConfig, corpus: Corpus, work: Work) -> PretrainData:
    data = prepare_data(
        corpus,
        work.folder / "data",
        vocabulary=config.vocabulary,
        cased=config.cased,
        seed=config.seed,
        enough=None if config.budget is None else config.budget * config.pairs_a_step * config.longest,
    )
    for note in corpus.notes():
        say(note)
    return data


def _batches(config: PretrainConfig, data: PretrainData, steps: int) -> tuple[Batches, Pairs]:
    """Those of all phases, and the pairs of the first."""
    drawn: list[Pairs] = []

    def draw(length: int, wanted: int) -> Batches:
        drawn.append(training_pairs(data, length=length, seed=config.seed, wanted=wanted))
        return training_batches(data, drawn[-1], batch_size=config.batch_size, length=length, seed=config.seed)

    return phased(config, steps, draw), drawn[0]


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
