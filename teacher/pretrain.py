"""Pretrain an encoder from random weights: `python -m teacher.pretrain --corpus pydocs --out DIR`."""

import copy
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from common.command import run_command
from common.progress import say
from teacher.attention import use_training_attention
from teacher.batches import Batches
from teacher.corpus import Corpus, load_corpus
from teacher.loop import resolve_precision, train
from teacher.objectives import OBJECTIVES, MlmNsp, evaluate_pretraining, fresh_bert
from teacher.pairs import Pairs
from teacher.pretrain_config import PretrainConfig, bert_config
from teacher.pretrain_data import held_out_batches, training_batches, training_pairs
from teacher.pretrain_folder import Work, open_work, reusable, write_model
from teacher.pretrain_summary import report, summarise
from teacher.pretrain_text import PretrainData, prepare_data
from teacher.wordpiece import load_wordpiece, tokenizer_fingerprint

DROPOUT = 0.1
"""In the written model, for fine-tuning."""

EXAMPLES = """
  python -m teacher.pretrain --corpus pydocs --size mini --out runs/mini
  python -m teacher.pretrain --corpus FOLDER --size small --minutes 60 --out runs/small
"""


def pretrain(config: PretrainConfig, folder: Path) -> Path:
    """Pretrain, and write `folder`: a model that AutoModel, AutoModelForMaskedLM and AutoModelForPreTraining load.

    A finished `folder` of equal settings and text is left as it is. While it runs, everything is in FOLDER-unfinished.

    Raises:
        UserError: `folder` holds something else; too little text; a vocabulary smaller than the alphabet.
    """
    corpus = load_corpus(config.corpus, text_column=config.text_column)
    settings = config.settings() | {"corpus_fingerprint": corpus.fingerprint()}
    tokenizer = None if config.tokenizer is None else load_wordpiece(config.tokenizer)
    if tokenizer is not None:
        settings["tokenizer_fingerprint"] = tokenizer_fingerprint(tokenizer)
    if reusable(folder, settings):
        say(f"{folder} is pretrained with these settings already: reused. For another one choose another --out")
        return folder
    work = open_work(folder, settings, resume=config.resume)
    data = _data(config, corpus, tokenizer, work)
    precision = resolve_precision(config.precision)
    shape = bert_config(config, len(data.tokenizer), pad=data.tokenizer.pad_token_id)
    model = fresh_bert(shape, config.seed)
    use_training_attention(model)
    objective = OBJECTIVES[config.objective](model)
    steps = work.steps(lambda: config.budget or _calibrate(objective, data, config, work))
    batches, pairs = _batches(config, data, steps, work)
    outcome = train(objective, batches, config.loop(steps), work.folder / "training", label=f"pretrain {config.size}")
    held_out = held_out_batches(data, length=config.length, seed=config.seed)
    measured = evaluate_pretraining(objective, held_out, precision)
    summary = summarise(data, batches, outcome, measured, accumulation=config.accumulation) | {
        "precision": precision,
        "parameters": model.num_parameters(),
        "random_pair_share": pairs.random_share,
        "corpus": corpus.name,
        "sources": corpus.sources,
    }
    report(summary)
    model.config.update({"hidden_dropout_prob": DROPOUT, "attention_probs_dropout_prob": DROPOUT})
    write_model(folder, model, data.tokenizer, settings=settings, summary=summary, work=work)
    return folder


def _data(
    config: PretrainConfig, corpus: Corpus, tokenizer: PreTrainedTokenizerFast | None, work: Work
) -> PretrainData:
    data = prepare_data(
        corpus,
        work.folder / "data",
        tokenizer=tokenizer,
        vocabulary=config.vocabulary,
        cased=config.cased,
        workers=config.workers,
        seed=config.seed,
        enough=None if config.budget is None else config.budget * config.pairs_a_step * config.length,
    )
    for note in data.notes:
        say(note)
    return data


def _batches(config: PretrainConfig, data: PretrainData, steps: int, work: Work) -> tuple[Batches, Pairs]:
    wanted = steps * config.pairs_a_step
    pairs = training_pairs(data, length=config.length, seed=config.seed, wanted=wanted, folder=work.folder / "pairs")
    batches = training_batches(data, pairs, batch_size=config.batch_size, length=config.length, seed=config.seed)
    return batches, pairs


def _calibrate(objective: MlmNsp, data: PretrainData, config: PretrainConfig, work: Work, trial: int = 12) -> int:
    """Steps that fit into config.minutes here and now, from the time of a few on a copy of the model."""
    batches, _ = _batches(config, data, trial, work)
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
