"""From the options to the sets of examples without labels that a run distils on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from torch import nn

from common.errors import UserError
from common.heads import SEQUENCE
from common.progress import say
from common.words import counted
from distill.augment import Augmented, AugmentSettings, Proposers, augmented
from distill.config import RunConfig
from distill.proposals import MaskedModel, load_masked_model
from distill.teacher_outputs import TeacherOutputs, read_outputs
from distill.text import named_corpus
from distill.transfer_sets import TransferSet, file_digest, key_of, stored_set, weights_digest, write_set
from distill.two_tokenizers import tokenizer_files
from distill.unlabeled import read_unlabeled
from distill.word_vectors import WordVectors, vectors_from_file, vectors_from_pieces
from distill.words import has_words
from teacher.data import Example, TaskData
from teacher.loop_config import resolve_precision
from teacher.prepare import Prepared
from teacher.ready import Teacher
from teacher.scratch import expected_tokenizer
from teacher.sources import read_config, resolve
from teacher.splits import same
from teacher.tasks import TASKS


@dataclass(frozen=True, kw_only=True)
class TransferInputs:
    """What the user gave, read and checked before anything is trained."""

    unlabeled: Sequence[Example] = ()
    masked: MaskedModel | None = None
    """Of --augment-mlm."""
    vectors: WordVectors | None = None
    """Of --word-vectors."""
    outputs: TeacherOutputs | None = None
    """Of --teacher-outputs."""


def read_inputs(config: RunConfig, data: TaskData) -> TransferInputs:
    """Read the files and the model that the options name.

    Raises:
        UserError: a fault in one of them, or a model without an MLM head.
    """
    options = config.transfer
    _refuse_sets(config, data)
    for flag, source in _corpora(config).items():
        named_corpus(source, flag)
    unlabeled: list[Example] = []
    if options.unlabeled is not None:
        unlabeled, notes = read_unlabeled(
            options.unlabeled, data, text_column=config.data.text_column, pair_column=config.data.pair_column
        )
        for line in [f"unlabeled: {counted(len(unlabeled), 'text')} from {options.unlabeled}", *notes]:
            say(line)
    masked = None
    if options.augment and options.augment_mlm is None:
        _check_words(config, data)
    if options.augment_mlm is not None:
        masked = load_masked_model(options.augment_mlm)
        if masked is None:
            raise UserError(
                f"--augment-mlm {options.augment_mlm} has no masked-language-modelling head: give a BERT that has one, "
                "or leave the option out"
            )
    vectors = None if options.word_vectors is None else vectors_from_file(options.word_vectors)
    outputs = _read_outputs(config, data, unlabeled) if options.teacher_outputs is not None else None
    return TransferInputs(unlabeled=unlabeled, masked=masked, vectors=vectors, outputs=outputs)


def _corpora(config: RunConfig) -> dict[str, str]:
    """Option to the general text that it names."""
    general, text = config.compress.general_text, config.distilling.text
    named = {"--general-text": general, "--text": None if text in ("auto", "task") else text}
    return {flag: source for flag, source in named.items() if source is not None}


def _check_words(config: RunConfig, data: TaskData) -> None:
    """Refuse augmentation by a teacher whose vocabulary does not tell words from parts of words."""
    tokenizer = expected_tokenizer(config.teacher, data)
    if tokenizer is not None and not has_words(tokenizer):
        raise UserError(
            f"--augment takes its words from a WordPiece vocabulary, and --teacher {config.teacher} has another: give "
            "a BERT with a masked-language-modelling head with --augment-mlm, or leave --augment out"
        )


def _refuse_sets(config: RunConfig, data: TaskData) -> None:
    """Raise UserError for sets of texts with a task whose examples are more than texts."""
    options = config.transfer
    given = {
        "--unlabeled": options.unlabeled,
        "--augment": options.augment,
        "--teacher-outputs": options.teacher_outputs,
    }
    named = [flag for flag, value in given.items() if value]
    if data.long == "windows" and config.committee.others:
        # Their tokenizers would cut other windows.
        named.insert(0, "--more-teachers")
    if named and data.long == "windows":
        raise UserError(f"{named[0]} cannot be combined with --long windows: leave one out, or give --long head+tail")
    if named and TASKS[data.kind].head_kind != SEQUENCE:
        raise UserError(f"{named[0]} is for tasks of texts and pairs of texts; this one is {data.kind}: leave it out")


def _read_outputs(config: RunConfig, data: TaskData, unlabeled: Sequence[Example]) -> TeacherOutputs:
    """The teacher's outputs, which must be there for all that is learned from; the evaluation split's are welcome."""
    options = config.transfer
    outputs = read_outputs(
        Path(str(options.teacher_outputs)),
        data,
        text_column=config.data.text_column,
        pair_column=config.data.pair_column,
    )
    outputs.require(data.splits["train"], "the training split", allow_missing=options.allow_missing)
    if unlabeled:
        outputs.require(unlabeled, f"--unlabeled {options.unlabeled}", allow_missing=options.allow_missing)
    if missing := outputs.missing(data.splits["evaluate"]):
        say(
            f"  note: {outputs.path} lacks {counted(len(missing), 'text')} of the evaluation split: the teacher is not "
            "measured, students have nothing to be compared with"
        )
    return outputs


def transfer_sets(
    config: RunConfig, inputs: TransferInputs, teacher: Teacher, pretrained: str | None, run: Path
) -> dict[str, TransferSet]:
    """Set name to the set, in the run's folder; what an earlier sitting wrote is used again where nothing changed."""
    found: dict[str, TransferSet] = {}
    if inputs.unlabeled:
        found["unlabeled"] = _unlabeled_set(config, inputs.unlabeled, run / "transfer" / "unlabeled")
    if config.transfer.augment:
        found["augmented"] = _augmented_set(config, inputs, teacher, pretrained, run / "transfer" / "augmented")
    return found


def _unlabeled_set(config: RunConfig, examples: Sequence[Example], folder: Path) -> TransferSet:
    key = key_of([(example.text, example.pair) for example in examples])
    rows = (Augmented(example.text, example.pair, index) for index, example in enumerate(examples))
    return stored_set(folder, key) or write_set(
        folder, key, rows, name="unlabeled", origin=f"text without labels from {config.transfer.unlabeled}"
    )


def _augmented_set(
    config: RunConfig, inputs: TransferInputs, teacher: Teacher, pretrained: str | None, folder: Path
) -> TransferSet:
    options, data = config.transfer, teacher.prepared.task.data
    settings = AugmentSettings(
        copies=options.augment,
        seed=config.data.data_seed,
        max_length=teacher.prepared.max_length,
        precision=resolve_precision(config.precision),
    )
    sources = [options.augment_mlm or pretrained, str(teacher.folder)]
    digests = [weights_digest(resolve(source)) for source in sources if source is not None]
    vectors = None if options.word_vectors is None else file_digest(options.word_vectors)
    key = key_of(data.fingerprint, asdict(settings), options.augment_mlm, digests, vectors)
    stored = stored_set(folder, key)
    if stored is not None:
        say(f"augment: reusing {folder}")
        return stored
    proposers, origin = _proposers(options.augment_mlm, inputs, teacher, pretrained)
    say(f"augment: {origin}")
    held_out = (*data.splits["select"], *data.splits["evaluate"])
    excluded = frozenset(same(example.text, example.pair) for example in held_out)
    rows = augmented(data.splits["train"], settings, proposers, excluded=excluded)
    made = write_set(
        folder, key, rows, name="augmented", origin=f"{counted(settings.copies, 'version')} a text; {origin}"
    )
    say(f"augment: {counted(made.card.rows, 'text')} made of {counted(len(data.splits['train']), 'training text')}")
    return made


def _proposers(
    named: str | None, inputs: TransferInputs, teacher: Teacher, pretrained: str | None
) -> tuple[Proposers, str]:
    """Who proposes words, and that in words."""
    masked, who = inputs.masked, named
    if masked is None and pretrained is not None and read_config(resolve(pretrained)).model_type == "bert":
        masked, who = load_masked_model(pretrained), pretrained
    owner = "the teacher's own" if masked is None or has_words(teacher.prepared.tokenizer) else "that model's"
    by_vectors = "the nearest word vectors" + ("" if inputs.vectors else f" ({owner} embeddings)")
    vectors = _vectors(inputs, teacher, masked)
    if masked is not None:
        origin = f"words of one piece by the masked language model of {Path(str(who)).name}, others by {by_vectors}"
        return Proposers(tokenizer=masked.tokenizer, masked=masked, vectors=vectors), origin
    origin = (
        f"all words by {by_vectors}: the teacher has no masked-language-modelling head (--augment-mlm names a model "
        "that has one)"
    )
    return Proposers(tokenizer=teacher.prepared.tokenizer, masked=None, vectors=vectors), origin


def _vectors(
    inputs: TransferInputs, teacher: Teacher, masked: MaskedModel | None
) -> Callable[[Sequence[str]], WordVectors]:
    if inputs.vectors is not None:
        given = inputs.vectors
        return lambda _: given
    model, tokenizer = teacher.model, teacher.prepared.tokenizer
    if masked is not None and not has_words(tokenizer):
        model, tokenizer = masked.model, masked.tokenizer
    table = cast(nn.Embedding, model.get_input_embeddings()).weight
    return lambda words: vectors_from_pieces(table, tokenizer, words)


def digests(config: RunConfig) -> dict[str, str]:
    """Option to the digest of the file or model folders it names: a run is not gone on with where one has changed."""
    options = config.transfer
    files = {
        "--unlabeled": options.unlabeled,
        "--teacher-outputs": options.teacher_outputs,
        "--word-vectors": options.word_vectors,
    }
    models = {
        "--teacher": [config.teacher],
        "--more-teachers": config.committee.others,
        "--augment-mlm": [options.augment_mlm],
        "--student-from": [config.distilling.student_from],
    }
    folders = {flag: [str(name) for name in names if name and Path(name).is_dir()] for flag, names in models.items()}
    texts = {flag: named_corpus(source, flag).fingerprint() for flag, source in _corpora(config).items()}
    found = (
        texts
        | {flag: file_digest(path) for flag, path in files.items() if path is not None}
        | {flag: key_of([weights_digest(resolve(name)) for name in names]) for flag, names in folders.items() if names}
    )
    reader = config.distilling.student_tokenizer
    if reader is not None and Path(reader).is_dir():
        found["--student-tokenizer"] = key_of([file_digest(file) for file in tokenizer_files(reader)])
    return found


def set_sizes(prepared: Prepared, sets: Mapping[str, TransferSet]) -> dict[str, int]:
    """Set name to its number of examples, the labelled rows among them."""
    return {"labeled": len(prepared.splits["train"]), **{name: entry.card.rows for name, entry in sets.items()}}
