"""Continued pretraining: an encoder and its tokenizer, masked pieces of other text."""

import hashlib
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerFast

from common.errors import UserError
from common.progress import say
from teacher.attention import use_training_attention
from teacher.batches import Batches
from teacher.continued import Continued, MaskedPieces, evaluate_masked, load_continued, longest_input, set_dropout
from teacher.corpus import Corpus
from teacher.course import best_of, kept, models_of, phased, run_course, steps_in
from teacher.loop import resolve_precision
from teacher.passages import held_out_passages, passage_batches, spaced
from teacher.pretrain_config import PretrainConfig
from teacher.pretrain_data import MOST_HELD_OUT, PretrainData, prepare_data, unigram_loss
from teacher.pretrain_folder import Work, write_model
from teacher.pretrain_summary import report, summarise
from teacher.ranks import main_first, ranks
from teacher.recompute import recompute_activations
from teacher.sources import resolve
from teacher.vocabulary import count_pieces, describe_extension, extend_embeddings, extend_wordpiece


def identity(source: str) -> str:
    """Of a model that is gone on from: a checksum over its weights, or the hub id."""
    where = Path(resolve(source))
    files = sorted((*where.glob("*.safetensors"), *where.glob("pytorch_model*.bin"))) if where.is_dir() else []
    if not files:
        return str(where)
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()[:16]


def pretrain_further(
    config: PretrainConfig, corpus: Corpus, work: Work, settings: dict[str, Any], folder: Path
) -> None:
    """Train, and write `folder`: a model of the same family that AutoModel and AutoModelForMaskedLM load.

    Raises:
        UserError: no such model, inputs longer than its positions, too little text.
    """
    source = config.start.source or ""
    start = load_continued(source, config.seed)
    for note in start.notes:
        say(f"note: {note}")
    _check_length(config, start)
    data = main_first(lambda: _data(config, corpus, work, start))
    extend_embeddings(start.model, start.tokenizer, data.tokenizer)
    objective = _objective(config, start)
    precision = resolve_precision(config.precision)

    def figures() -> dict[str, float]:
        held_out = held_out_passages(
            data.held_out, data.tokenizer, length=config.longest, seed=config.seed, most=MOST_HELD_OUT
        )
        return evaluate_masked(objective, held_out, precision)

    before = None if start.new_head else figures()
    steps = work.steps(
        lambda: config.budget or steps_in(config, objective, lambda trial: _batches(config, data, trial))
    )
    batches = _batches(config, data, steps)
    label = f"pretrain {Path(source).name}"
    outcome = run_course(
        config, objective, batches, steps, work, label=label, unigram=unigram_loss(data.learned), figures=figures
    )
    if not ranks().is_main_process:
        return
    best = best_of(objective, outcome, work)
    summary = summarise(data, batches, outcome, figures(), accumulation=config.accumulation) | {
        "held_out_before": before,
        "new_head": start.new_head,
        "precision": precision,
        "parameters": objective.model.num_parameters(),
        "corpus": corpus.name,
        "sources": corpus.sources,
        **kept(outcome, best),
    }
    summary["notes"] = [*start.notes, *summary["notes"]]
    report(summary)
    for trained in (objective, best):
        if trained is not None and start.pooler is not None:
            trained.model.base_model.pooler = start.pooler
    models = models_of(objective.model, None if best is None else best.model)
    write_model(folder, models, data.tokenizer, settings=settings, summary=summary, work=work)


def _check_length(config: PretrainConfig, start: Continued) -> None:
    room = longest_input(start.model)
    if config.longest > room:
        option = "--length" if config.schedule.long_length is None else "--long-length"
        raise UserError(
            f"{option} {config.longest}: {config.start.source} has positions for {room} pieces, give at most that"
        )


def _data(config: PretrainConfig, corpus: Corpus, work: Work, start: Continued) -> PretrainData:
    data = prepare_data(
        spaced(corpus, start.tokenizer),
        work.folder / "data",
        vocabulary=config.vocabulary,
        cased=config.cased,
        seed=config.seed,
        enough=None if config.budget is None else config.budget * config.pairs_a_step * config.longest,
        given=lambda texts: _tokenizer(start.tokenizer, list(texts), config.start.extend_vocabulary),
    )
    for note in corpus.notes():
        say(note)
    return data


def _tokenizer(own: PreTrainedTokenizerFast, texts: list[str], extend: int | None) -> PreTrainedTokenizerFast:
    """The model's own, or that with the words of a sample of the text that it splits most."""
    if extend is None:
        return own
    extended = extend_wordpiece(own, texts, extend)
    say(describe_extension(own, extended, count_pieces(own, texts), count_pieces(extended, texts)))
    return extended


def _objective(config: PretrainConfig, start: Continued) -> MaskedPieces:
    set_dropout(start.model, config.dropout)
    use_training_attention(start.model)
    if config.schedule.activation_checkpointing:
        recompute_activations(start.model)
    return MaskedPieces(start.model)


def _batches(config: PretrainConfig, data: PretrainData, steps: int) -> Batches:
    return phased(
        config,
        steps,
        lambda length, _: passage_batches(
            data.learned, data.tokenizer, batch_size=config.batch_size, length=length, seed=config.seed
        ),
    )
