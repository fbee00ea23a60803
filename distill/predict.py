"""What a model says of texts: `python -m distill.predict --model DIR "a text"`, of a file or of standard input."""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from common.command import run_command, stop_writing
from common.errors import UserError
from common.hardware import usable_cores
from common.progress import Progress, say, say_on_stderr
from common.words import counted
from distill.predict_answers import Answering, Head
from distill.predict_choices import ChoiceRows
from distill.predict_fields import Rows
from distill.predict_heads import head_for
from distill.predict_input import read_texts, source_name
from distill.predict_lines import Faults, count_lines, open_lines
from distill.predict_meaning import refuse_meaningless, require_paired
from distill.predict_models import Precision, load_model
from distill.predict_output import check_out, open_output
from distill.predict_texts import Reading, Text
from distill.predictor import Predictor, chunks
from teacher.decoding import Oddities
from teacher.local import nearest_files
from teacher.windows import LONG, STRIDE

CHUNK = 1024
"""Texts that are held at a time, and sorted by length."""
EXAMPLES = """
  python -m distill.predict --model runs/reviews-tiny/tiny/seed-0 "a great film"
  python -m distill.predict --model runs/reviews-tiny/tiny/seed-0 --file more.csv --out answers.csv
  cat texts.txt | python -m distill.predict --model runs/reviews-tiny/tiny/seed-0 > answers.jsonl
"""


@dataclass(frozen=True, kw_only=True)
class Running:
    """How it is computed."""

    max_length: int | None = None
    """Pieces of a text at most; longer texts are cut, and counted. The task's if not given."""
    batch_size: int = 64
    """Texts of a batch at most; long texts make smaller batches."""
    threads: int | None = None
    """One for each core if not given."""
    precision: Precision | None = None
    """Of a torch model: fp32 if not given, or bf16. An ONNX model has its own."""

    def __post_init__(self) -> None:
        for flag, value in (("--batch-size", self.batch_size), ("--threads", self.threads)):
            if value is not None and value < 1:
                raise UserError(f"{flag} {value}: expected 1 or more")
        if self.max_length is not None and self.max_length < 8:
            raise UserError(f"--max-length {self.max_length}: expected 8 pieces or more")


@dataclass(frozen=True, kw_only=True)
class PredictConfig:
    """What a model says of texts.

    Texts come from the command line, from --file, or from standard input. Each gives one line of JSON on standard
    output, or of --out, in the same order: its line, its id where it has one, and the label with all probabilities, or
    the score. Lines that cannot be read are said, left out and counted.
    """

    model: Path
    """Folder of a model (torch or ONNX), or of a run with one model in it."""
    text: tyro.conf.Positional[tuple[str, ...]] = ()
    """One text, in quotes. - is standard input, which is also read where neither a text nor --file is given."""
    pair: str = ""
    """The second text, for a model of pairs; the context, for one that answers questions."""
    choices: tuple[str, ...] = ()
    """The choices, each in quotes, for a model of multiple choice; files have columns as --task of other commands."""
    reading: Reading = field(default_factory=Reading)
    out: Path | None = None
    """New file for the predictions, .jsonl or .csv; standard output if not given."""
    answering: Answering = field(default_factory=Answering)
    strict: bool = False
    """The first line that cannot be read ends the command (exit code 2)."""
    running: Running = field(default_factory=Running)

    def __post_init__(self) -> None:
        if self.single and self.reading != Reading():
            raise UserError("a text was given, and --file or its columns too: give one of them")
        if len(self.text) > 1:
            raise UserError(f"{len(self.text)} texts were given: put one in quotes, or several into a file (--file)")
        if self.pair and not self.single:
            raise UserError("--pair is the second of two texts: give the first one before it")
        if self.choices and (not self.single or self.pair or len(self.choices) < 2):
            raise UserError("--choices are two or more that may go with one text, which has no --pair: give that text")
        if self.out is not None:
            check_out(self.out)

    @property
    def single(self) -> bool:
        """Whether there is one text, from the command line."""
        return self.text not in ((), ("-",))

    @property
    def path(self) -> Path | None:
        """The file to read; None for standard input."""
        return None if self.reading.file is None or str(self.reading.file) == "-" else self.reading.file


def main(config: PredictConfig) -> None:
    """Predict. Ends quietly where nobody reads the output any more, or on Ctrl-C."""
    say_on_stderr()
    try:
        predict(config)
        sys.stdout.flush()
    except BrokenPipeError:
        stop_writing()
    except KeyboardInterrupt as error:
        say("stopped" if config.out is None else f"stopped: {config.out} was not written")
        raise SystemExit(130) from error


def predict(config: PredictConfig) -> None:
    """Write an answer to every text."""
    if not config.text and config.reading.file is None and sys.stdin.isatty():
        raise UserError("no text: give one, --file FILE, or - to type texts")
    if config.path is not None and not config.path.exists():
        raise UserError(f"--file {config.path} does not exist.{nearest_files(config.path)}")
    running = config.running
    model = load_model(config.model, threads=running.threads or usable_cores(), precision=running.precision)
    head = head_for(model.config, config.answering, str(config.model))
    second = "--pair" if config.pair else "--pair-column" if config.reading.pair_column else None
    refuse_meaningless(head, config.answering, where=str(config.model), second=second, choices=bool(config.choices))
    predictor = Predictor(
        model,
        max_length=running.max_length,
        batch_size=running.batch_size,
        rows=head.rows,
        long=model.config.get(LONG),
        stride=model.config.get(STRIDE),
    )
    with open_output(config.out, head) as write:

        def answer(texts: list[Text]) -> None:
            require_paired(head, texts, where=str(config.model))
            write(texts, head.answers(texts, *predictor(texts)))

        if config.single:
            answer([_single(config, head.places)])
        else:
            _stream(config, answer, model.words, head)
    if predictor.cut:
        what = counted(predictor.cut, "question" if head.rows == "windows" else "text")
        say(f"{what} longer than {predictor.most} pieces, cut there")


def _single(config: PredictConfig, places: str) -> Text:
    """The texts of the command line, of which the one that answers have `places` in stays as it stands."""
    text, pair = config.text[0].strip(), config.pair.strip() or None
    if not text:
        raise UserError("the text is empty")
    if places == "text":
        text = config.text[0]
    elif places == "pair" and pair is not None:
        pair = config.pair
    return Text(1, text, pair, choices=tuple(choice.strip() for choice in config.choices))


def _stream(config: PredictConfig, answer: Callable[[list[Text]], None], words: str, head: Head) -> None:
    """Answer all texts of a file or of standard input, and say at the end how many, how fast, and what was left out."""
    path, rows = config.path, ChoiceRows if head.rows == "choices" else Rows
    faults, oddities = Faults(source_name(path), strict=config.strict), Oddities()
    start, count = time.monotonic(), 0
    # Where answers appear on the terminal, they are the progress.
    shown = config.out is not None or not sys.stdout.isatty()
    with open_lines(path, faults) as lines:
        texts = read_texts(lines, path, config.reading, faults, oddities, rows, whole=head.places)
        parts = chunks(texts, CHUNK, lines.idle)
        for chunk in _with_progress(parts, count_lines(path)) if shown else parts:
            answer(chunk)
            count += len(chunk)
    seconds = time.monotonic() - start
    rate = f" ({count / seconds:,.0f} a second, {words})" if count else ""
    for line in (f"{counted(count, 'text')} in {seconds:.1f} s{rate}", faults.summary(), *oddities.notes()):
        if line:
            say(line)


def _with_progress(parts: Iterator[list[Text]], total: int | None) -> Iterator[list[Text]]:
    """Counts lines, since the number of texts is known only at the end."""
    with Progress("predict", total=total, unit="line", closing=False) as bar:
        for part in parts:
            yield part
            bar.advance(part[-1].line - bar.done)


if __name__ == "__main__":
    sys.exit(run_command(main, PredictConfig, examples=EXAMPLES))
