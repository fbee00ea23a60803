"""The step to int8 with training: when it trains, what it keeps, and that the trained integers are shipped."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from toy import toy_task
from transformers import PreTrainedModel

from common.artifact import CardText, load, save
from common.errors import UserError
from distill.compress_chain import Artifact, Step, run_chain
from distill.compress_options import CompressOptions
from distill.compress_qat import Retraining
from distill.compress_ship import Exporting, Quantising
from distill.compress_steps import Work, reference_steps, steps_for
from distill.placed_answers import Answers
from distill.recovery import Training
from students.int8_grid import quantise_columns
from students.onnx_folder import OnnxInfo
from students.quantize import Quantised

INFO = OnnxInfo(
    kind="sequence-classification", max_length=16, precision="int8", inputs=(), outputs=(), labels=(), opset=20
)
TRAINING = Training(learning_rate=1e-3, precision="fp32", checkpoint_every=50, seed=0)
OPTIONS = CompressOptions(int8=True, qat_epochs=2.0, max_drop=0.01, embedding_bits=4)


class Scripted(Quantising):
    """Scores by folder: in fp32, and in int8 with nothing excluded; with a budget it holds."""

    scores: dict[str, tuple[float, float]]
    log: list[tuple[str, float | None, float | None]]

    def quantised(self, source: Path, out: Path, *, max_drop: float | None, before: float | None = None) -> Quantised:
        self.log.append((source.name, max_drop, before))
        whole, after = self.scores[source.name]
        held = max_drop is not None
        return Quantised(
            folder=out,
            info=INFO,
            method="dynamic",
            embedding_bits=4,
            weight_bits=8,
            excluded=("layer 0 attention",) if held else (),
            drops={},
            before=whole,
            after=whole if held else after,
            within=True,
            model_bytes=1,
            folder_bytes=1,
        )


def scripted(plain: float, trained: float, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Of 0.9 in fp32."""
    quantising = Scripted(task=toy_task(), options=OPTIONS)
    object.__setattr__(quantising, "scores", {"plain": (0.9, plain), "trained": (0.85, trained)})
    object.__setattr__(quantising, "log", [])
    monkeypatch.setattr(Retraining, "_trained", lambda *arguments: Artifact(folder=Path("trained")))
    return quantising


def _step(quantising: Scripted) -> Retraining:
    return Retraining(
        quantising=quantising,
        exporting=Exporting(task=quantising.task, max_length=16),
        training=TRAINING,
        answers=lambda: Answers(logits=np.zeros(0)),
        epochs=2.0,
    )


@pytest.mark.parametrize(
    ("plain", "trained", "calls", "words"),
    [
        (0.895, 0.0, [("plain", None, None)], "4-bit tables"),
        (0.8, 0.895, [("plain", None, None), ("trained", None, None)], "lost 0.1000 without, 0.0050 with it"),
        (0.8, 0.86, [("plain", None, None), ("trained", None, None), ("trained", 0.01, 0.9)], "0.0400 with it"),
        (0.8, 0.8, [("plain", None, None), ("trained", None, None), ("plain", 0.01, 0.9)], "in fp32, since"),
    ],
)
def test_it_is_trained_where_int8_loses_too_much_and_kept_where_that_helps(
    plain: float,
    trained: float,
    calls: list[tuple[str, float | None, float | None]],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    quantising = scripted(plain, trained, monkeypatch)
    step = _step(quantising)
    artifact = step(Artifact(folder=Path("plain"), source=Path("torch")), tmp_path)
    assert quantising.log == calls
    assert artifact.folder == tmp_path / "model"
    assert words in "; ".join(artifact.notes)
    assert ("trained in simulated int8" in artifact.notes[0]) == ("with it" in words)


def test_a_drop_is_counted_from_the_model_before_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quantising = scripted(0.8, 0.895, monkeypatch)
    quantising.scores["trained"] = (0.95, 0.895)
    step = _step(quantising)
    notes = step(Artifact(folder=Path("plain"), source=Path("torch")), tmp_path).notes
    assert "lost 0.1000 without, 0.0050 with it" in notes[0]
    assert not any("larger than --max-drop" in note for note in notes), "0.005 of 0.01"


def test_options_make_the_step_and_the_reference_is_not_trained() -> None:
    work = Work(task=toy_task(), max_length=16, training=TRAINING, answers=lambda: Answers(logits=np.zeros(0)))
    step = steps_for(OPTIONS, work)[-1].apply
    assert isinstance(step, Retraining)
    assert (step.epochs, step.training.learning_rate) == (2.0, 2e-5)
    assert isinstance(reference_steps(OPTIONS, work)[-1].apply, Quantising)
    with pytest.raises(UserError, match=r"--qat-epochs 1.0 is for --int8"):
        CompressOptions(prune=0.5, qat_epochs=1.0)
    with pytest.raises(UserError, match=r"--qat-epochs -1.*--qat-rate 0.*"):
        CompressOptions(int8=True, qat_epochs=-1, qat_rate=0)
    with pytest.raises(UserError, match=r"--qat-rate 0.1 is for --qat-epochs"):
        CompressOptions(int8=True, qat_rate=0.1)


def test_what_an_export_was_made_of_is_remembered(tmp_path: Path) -> None:
    start = Artifact(folder=tmp_path / "torch")

    def export(before: Artifact, folder: Path) -> Artifact:
        return Artifact(folder=folder / "model", kind="onnx", source=before.folder)

    steps = [Step(name="onnx", title="ONNX", apply=export)]
    first, again = (run_chain(start, steps, tmp_path / "chain")[0].artifact for _ in range(2))
    assert first == again
    assert again.source == tmp_path / "torch"
    lost = Retraining(
        quantising=Quantising(task=toy_task(), options=OPTIONS),
        exporting=Exporting(task=toy_task(), max_length=16),
        training=TRAINING,
        answers=lambda: Answers(logits=np.zeros(0)),
        epochs=1.0,
    )
    with pytest.raises(UserError, match="export it again"):
        lost._trained(Artifact(folder=tmp_path), tmp_path, 8)


def _interrupted(*arguments: object, **named: object) -> None:
    raise KeyboardInterrupt


def test_the_integers_that_were_trained_with_are_shipped(
    tmp_path: Path, tiny_bert: Callable[..., PreTrainedModel], tiny_tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole step; that int8 loses much before training, and nothing after it, is made up."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    task = toy_task(texts=["good film", "a bad plot", "the actor is funny"])
    names = ["a", "b", "c"]
    model = tiny_bert(id2label=dict(enumerate(names)), label2id={name: place for place, name in enumerate(names)})
    save(model, tiny_tokenizer, tmp_path / "m", card=CardText(title="m", description="", task="t"))
    step = Retraining(
        quantising=Quantising(task=task, options=OPTIONS),
        exporting=Exporting(task=task, max_length=16),
        training=TRAINING,
        answers=lambda: Answers(logits=np.eye(3, dtype=np.float32)[np.arange(9) % 3]),
        epochs=2.0,
    )
    scores = iter([(0.9, 0.5), (0.9, 0.9)])
    monkeypatch.setattr("distill.compress_qat._scores", lambda found: next(scores))
    exported = step.exporting(Artifact(folder=tmp_path / "m"), tmp_path / "onnx")
    with monkeypatch.context() as stopped:
        stopped.setattr(Exporting, "__call__", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            step(exported, tmp_path / "out")
    # What was trained is kept, and not trained again.
    monkeypatch.setattr("distill.compress_qat.recover", _interrupted)
    scores = iter([(0.9, 0.5), (0.9, 0.9)])
    assert exported.source == tmp_path / "m"
    shipped = step(exported, tmp_path / "out")
    assert shipped.notes[0] == "trained in simulated int8 (2 epochs): lost 0.4000 without, 0.0000 with it"
    trained = load(tmp_path / "out" / "trained")[0]
    before = model.state_dict()["bert.encoder.layer.0.intermediate.dense.weight"]
    weight = trained.state_dict()["bert.encoder.layer.0.intermediate.dense.weight"]
    assert (weight - before).abs().max() > 1e-4, "it was trained"
    arrays = [
        onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load(shipped.folder / "model.onnx").graph.initializer
        if tensor.data_type == onnx.TensorProto.INT8
    ]
    values, scales = quantise_columns(weight.numpy().T)
    assert any(array.shape == values.shape and np.array_equal(array, values) for array in arrays)
    assert np.abs(values * scales - weight.numpy().T).max() < 1e-6, "on its grid"
