"""The text of a pretraining, tokenised, and how it is served: examples, masks, phases of length."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from common.progress import say
from teacher.batches import Batches
from teacher.corpus import Corpus
from teacher.course import phased
from teacher.domain import general_counts
from teacher.examples import Examples, draw_examples
from teacher.maskings import MASKINGS, PIECES, Masks
from teacher.objectives import OBJECTIVES
from teacher.pairs import Pairs
from teacher.pretrain_config import PretrainConfig
from teacher.pretrain_data import held_out_batches, training_batches
from teacher.pretrain_folder import Work
from teacher.pretrain_text import PretrainData, prepare_data
from teacher.ranks import ranks


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a run learns from."""

    config: PretrainConfig
    data: PretrainData
    masks: Masks | None
    """None: nothing is hidden."""
    folder: Path
    """Where its examples lie while it runs."""

    @property
    def kind(self) -> str:
        """Of its examples."""
        return OBJECTIVES[self.config.objective].examples

    def held_out(self) -> Iterator[dict[str, Tensor]]:
        """Of the run's greatest length. Pieces are hidden at random whatever --masking is: figures can be compared."""
        masks = None if self.masks is None else PIECES
        return held_out_batches(
            self.data, length=self.config.longest, seed=self.config.seed, kind=self.kind, masks=masks
        )

    def batches(self, steps: int) -> tuple[Batches, Examples]:
        """Those of a run of so many steps in all its phases, and the examples of the first."""
        drawn: list[Examples] = []

        def draw(length: int, wanted: int) -> Batches:
            drawn.append(self._examples(length, wanted))
            return training_batches(
                self.data,
                drawn[-1],
                batch_size=self.config.batch_size,
                length=length,
                seed=self.config.seed,
                masks=self.masks,
            )

        return phased(self.config, steps, draw), drawn[0]

    def _examples(self, length: int, wanted: int) -> Examples:
        return draw_examples(
            self.data.learned,
            self.kind,
            length=length,
            seed=self.config.seed,
            wanted=wanted,
            most=self.config.dupe_factor,
            all_passes=self.config.masks == "static",
            # Several processes may be told to use one disk.
            folder=self.folder / f"{length}-{ranks().process_index}",
        )

    def shares(self, examples: Examples) -> dict[str, float]:
        """The share of pairs whose label is 1: random ones, or swapped ones."""
        if not isinstance(examples, Pairs):
            return {}
        return {f"{'random' if self.kind == 'nsp' else 'swapped'}_pair_share": examples.random_share}


def gather(
    config: PretrainConfig,
    corpus: Corpus,
    general: Corpus | None,
    work: Work,
    tokenizer: PreTrainedTokenizerFast | None,
) -> Material:
    """The material of a run, kept in `work`; with a vocabulary of its own where no `tokenizer` is given."""
    data = prepare_data(
        corpus,
        work.folder / "data",
        seed=config.seed,
        tokenizer=tokenizer,
        extend=config.start.extend_vocabulary,
        vocabulary=config.vocabulary,
        cased=config.cased,
        workers=config.workers,
        enough=None if config.budget is None else config.budget * config.examples_a_step * config.longest,
    )
    for note in data.notes:
        say(note)
    masks = _masks(config, data, general) if OBJECTIVES[config.objective].masked else None
    return Material(config=config, data=data, masks=masks, folder=work.folder / "examples")


def _masks(config: PretrainConfig, data: PretrainData, general: Corpus | None) -> Masks:
    tokenizer = data.tokenizer

    def counts_elsewhere() -> np.ndarray:
        assert general is not None
        return general_counts(general, tokenizer, config.compared_with)

    own = partial(data.learned.counts, len(tokenizer))
    choose = MASKINGS[config.masking](tokenizer, own, counts_elsewhere)
    return Masks(choose=choose, static=config.masks == "static")
