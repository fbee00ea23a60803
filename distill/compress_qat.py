"""int8 that a model is trained for, where it loses too much as it is: quantisation-aware training by distillation.

The model learns, in simulated 8-bit integers, its teacher's answers and its own hidden states of before (see
students.fake_quantise).
"""

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from transformers import PreTrainedModel

from common.artifact import CONFIG, CardText, save
from common.errors import UserError
from common.families import max_length as longest
from common.progress import say
from distill.compress_chain import Artifact
from distill.compress_ship import Exporting, Quantising, notes_of
from distill.placed_answers import Answers, Placed, placed
from distill.recovery import Training, recover, recovery_stage
from distill.stages import Stage
from students.fake_quantise import int8_simulated
from students.quantize import Quantised
from teacher.checkpoint import Checkpoints
from teacher.prepare import Prepared, prepare
from teacher.sources import load_for_task


@dataclass(frozen=True, kw_only=True)
class Retraining:
    """The step to int8, with training where parts would have to stay in fp32 without."""

    quantising: Quantising
    exporting: Exporting
    training: Training
    """In bf16 the rounding that is to be learned would be lost among bf16's own: it is always in fp32."""
    answers: Callable[[], Answers]
    """The teacher's to the training split."""
    epochs: float

    def __call__(self, artifact: Artifact, folder: Path) -> Artifact:
        """The int8 folder; what is trained lies beside it, and is gone on with."""
        budget = self.quantising.options.max_drop
        out = folder / "model"
        found = self.quantising.quantised(artifact.folder, out, max_drop=None)
        before, plain = _scores(found)
        notes: tuple[str, ...] = ()
        if before - plain > budget:
            say(
                f"  int8 loses {before - plain:.4f} on the selection split, --max-drop is {budget:g}: it is trained for"
            )
            exported = self._trained(artifact, folder, found.weight_bits)
            found = self.quantising.quantised(exported.folder, out, max_drop=None)
            trained = _scores(found)[1]
            source, better = exported.folder, trained > plain
            if not better:
                say(f"  training did no good (int8 {plain:.4f}, then {trained:.4f}) and is left out")
                source = artifact.folder
            if not better or before - trained > budget:
                found = self.quantising.quantised(source, out, max_drop=budget, before=before)
            words = f"trained in simulated int8 ({self.epochs:g} epochs): lost {before - plain:.4f} without"
            notes = (f"{words}, {before - trained:.4f} with it", *exported.notes) if better else ()
        # What is lost is counted from the model as it came: the trained one may score more than that in fp32.
        notes = (*notes, *notes_of(dataclasses.replace(found, before=before), budget))
        for note in notes:
            say(f"  {note}")
        return Artifact(folder=out, kind="onnx", notes=notes)

    def _trained(self, artifact: Artifact, folder: Path, weight_bits: int) -> Artifact:
        """The ONNX folder, in fp32, of the model after training; its weights lie on their grids."""
        if artifact.source is None:
            raise UserError(f"{artifact.folder} does not say which model it was exported from: export it again")
        task = self.quantising.task
        loaded = load_for_task(str(artifact.source), task, seed=0)
        prepared = prepare(task, loaded.tokenizer, min(self.exporting.max_length, longest(loaded.model.config)))
        answers = placed(task, self.answers(), prepared.splits["train"])
        for note in answers.notes:
            say(f"  {note}")
        # The folder is there as a whole or not at all: what was stopped after training is not trained again.
        if not (folder / "trained" / CONFIG).is_file():
            self._train(loaded.model, prepared, answers, weight_bits, folder)
        Checkpoints.clear(folder / "training")
        exported = self.exporting(Artifact(folder=folder / "trained"), folder / "trained-onnx")
        return dataclasses.replace(exported, notes=answers.notes)

    def _train(
        self, model: PreTrainedModel, prepared: Prepared, answers: Placed, weight_bits: int, folder: Path
    ) -> None:
        """Train the model in place, and save it to `folder`/trained."""
        recover(
            model,
            copy.deepcopy(model),
            prepared,
            answers,
            qat_stage(model.config.num_hidden_layers, epochs=self.epochs, learning_rate=self.training.learning_rate),
            dataclasses.replace(self.training, precision="fp32"),
            folder / "training",
            label="training for int8",
            within=partial(
                int8_simulated,
                weight_bits=weight_bits,
                table_bits=self.quantising.options.embedding_bits,
                settle=True,
            ),
        )
        name = prepared.task.data.name
        card = CardText(title=f"{name}: trained for int8", description="Its weights lie on int8's grids.", task=name)
        save(model, prepared.tokenizer, folder / "trained", card=card, replace=True)


def qat_stage(layers: int, *, epochs: float, learning_rate: float) -> Stage:
    """The stage of training for int8 of a model with so many layers."""
    stage = recovery_stage(tuple(range(1, layers + 1)), epochs=epochs, learning_rate=learning_rate)
    return dataclasses.replace(
        stage,
        name="int8",
        description="The teacher's logits, and the model's own hidden states in fp32, in simulated 8-bit integers.",
    )


def _scores(found: Quantised) -> tuple[float, float]:
    """On the selection split, higher better: in fp32, and in int8."""
    if found.before is None or found.after is None:
        raise RuntimeError("int8 is measured wherever it may be trained for")
    return found.before, found.after
