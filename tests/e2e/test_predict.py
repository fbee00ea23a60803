"""`distill.predict` as a user types it: a text, a file, standard input, a pipe that closes, and Ctrl-C."""

import csv
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from e2e.conftest import ROOT, command
from onnx import TensorProto, helper, numpy_helper
from transformers import BertTokenizerFast, PreTrainedModel

from common.artifact import save
from common.card import CardText
from common.command import run_command
from distill.predict import PredictConfig, main

LABELS = ("bad", "good", "odd")


@pytest.fixture
def exported(tmp_path: Path, tiny_tokenizer: BertTokenizerFast) -> Path:
    """An ONNX folder whose logits are sums over a text's pieces of rows of a table, so that padding would show."""
    folder = tmp_path / "run" / "exported"
    folder.mkdir(parents=True)
    table = np.random.default_rng(0).normal(size=(len(tiny_tokenizer), 3)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["real", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "pieces"], ["logits"], keepdims=0),
    ]
    constants = {"table": table, "last": np.array([2]), "pieces": np.array([1])}
    inputs = ("input_ids", "attention_mask")
    graph = helper.make_graph(
        nodes,
        "toy",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx"
    )
    tiny_tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "architectures": ["BertForSequenceClassification"],
        "problem_type": "single_label_classification",
        "id2label": dict(enumerate(LABELS)),
    }
    (folder / "config.json").write_text(json.dumps(config))
    about = {"kind": "sequence-classification", "max_length": 16, "precision": "fp32", "opset": 17, "labels": LABELS}
    (folder / "onnx.json").write_text(json.dumps(about | {"inputs": inputs, "outputs": ["logits"]}))
    np.save(tmp_path / "table.npy", table)
    return folder


@pytest.fixture
def expected(exported: Path, tiny_tokenizer: BertTokenizerFast) -> Callable[[str], dict[str, float]]:
    """Probabilities of a text by the formula."""
    table = np.load(exported.parents[1] / "table.npy").astype(np.float64)

    def probabilities(text: str) -> dict[str, float]:
        logits = table[tiny_tokenizer(text, truncation=True, max_length=16)["input_ids"]].sum(axis=0)
        powers = np.exp(logits - logits.max())
        return dict(zip(LABELS, (powers / powers.sum()).tolist(), strict=True))

    return probabilities


def predict(*arguments: object, stdin: bytes = b"", code: int = 0) -> tuple[bytes, str]:
    """Standard output and standard error of the command."""
    result = subprocess.run(
        command("distill.predict", *arguments), cwd=ROOT, input=stdin, capture_output=True, timeout=120, check=False
    )
    error = result.stderr.decode()
    assert result.returncode == code, error
    assert "Traceback" not in error
    return result.stdout, error


def rows_of(output: bytes) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


def test_a_text_without_torch(exported: Path, expected: Callable[[str], dict[str, float]]) -> None:
    script = (
        "import sys; from common.command import run_command; from distill.predict import PredictConfig, main\n"
        "code = run_command(main, PredictConfig, arguments=sys.argv[1:])\n"
        "print(sorted({'torch', 'transformers', 'scipy', 'pandas'} & set(sys.modules)), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    options = ["--model", str(exported.parent), "a good film"]
    result = subprocess.run(
        [sys.executable, "-c", script, *options], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stderr == "[]\n"
    found = json.loads(result.stdout)
    assert found["probabilities"] == pytest.approx(expected("a good film"), abs=2e-6)
    assert found["label"] == max(found["probabilities"], key=found["probabilities"].get)


def test_a_file_with_bad_lines_to_csv(
    exported: Path, tmp_path: Path, expected: Callable[[str], dict[str, float]]
) -> None:
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(["good", "bad", "the", "film"], rng.integers(1, 25))) for _ in range(1500)]
    lines = [f"{index},{text},x".encode() for index, text in enumerate(texts)]
    lines[3:3] = [b"900,caf\xe9,x", b"901,,x", b"902,only"]
    path = tmp_path / "in.csv"
    path.write_bytes(b"\n".join([b"id,sentence,other", *lines]))
    out = tmp_path / "new" / "out.csv"
    options = ("--model", exported, "--file", path, "--out", out, "--with-text")
    output, error = predict(*options)
    assert output == b""
    assert re.search(r"^1,500 texts in .* \(.* a second, ONNX Runtime fp32", error, re.MULTILINE)
    assert "3 lines left out" in error
    assert f"{path}:5 is not UTF-8 in column 'sentence'" in error
    assert re.search(r"^\d+ texts longer than 16 pieces, cut there", error, re.MULTILINE)
    with out.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["text"] for row in rows] == texts
    assert [row["id"] for row in rows] == [str(index) for index in range(1500)]
    assert [int(row["line"]) for row in rows] == [2, 3, 4, *range(8, 1505)]
    for row in rows[::50]:
        found = {label: float(row[f"probability_{label}"]) for label in LABELS}
        assert found == pytest.approx(expected(row["text"]), abs=2e-6)
    _, error = predict(*options, code=2)
    assert "is there already" in error
    _, error = predict("--model", exported, "--file", path, "--out", tmp_path / "o.jsonl", "--strict", code=2)
    assert f"{path}:5 is not UTF-8" in error
    assert not list(tmp_path.glob("*o.jsonl*"))


def test_standard_input_to_standard_output(exported: Path, expected: Callable[[str], dict[str, float]]) -> None:
    stdin = b'{"id": 4, "text": "a good film", "label": "x"}\n{"text": \n{"id": "b", "text": "bad"}\n'
    output, error = predict("--model", exported, "--top", "1", stdin=stdin)
    found = rows_of(output)
    assert [(row["line"], row["id"]) for row in found] == [(1, "4"), (3, "b")]
    for row, text in zip(found, ("a good film", "bad"), strict=True):
        label, value = max(expected(text).items(), key=lambda pair: pair[1])
        assert row["probabilities"] == pytest.approx({label: value}, abs=2e-6)
        assert row["label"] == label
    assert "standard input:2 is broken JSON" in error
    assert "1 line left out" in error
    assert rows_of(predict("--model", exported, "-", stdin=b"None\n")[0])[0]["line"] == 1


@pytest.fixture
def waiting(exported: Path) -> Iterator[subprocess.Popen]:
    """The command with open pipes, after its first answer."""
    process = subprocess.Popen(
        command("distill.predict", "--model", exported),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"a good film\n")
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["line"] == 1
    yield process
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        stream.close()


def test_a_text_is_answered_before_the_next_one_is_there(waiting: subprocess.Popen) -> None:
    output, error = waiting.communicate(b"bad film\nodd", timeout=60)
    assert [row["line"] for row in rows_of(output)] == [2, 3]
    assert b"3 texts in" in error


def test_ctrl_c_ends_without_a_traceback(waiting: subprocess.Popen) -> None:
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(timeout=60) == 130
    assert waiting.stderr.read() == b"stopped\n"


def test_a_pipe_that_closes_ends_it_quietly(waiting: subprocess.Popen) -> None:
    waiting.stdout.close()
    waiting.stdin.write(b"a good film\n" * 5000)
    waiting.stdin.close()
    assert waiting.wait(timeout=60) == 0
    assert waiting.stderr.read() == b""


def test_a_file_piped_to_head(exported: Path, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("a good film\n" * 20_000)
    words = shlex.join(command("distill.predict", "--model", exported, "--file", path))
    line = words + " | head -1; echo ${PIPESTATUS[0]}"
    result = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    first, code = result.stdout.splitlines()
    assert (json.loads(first)["line"], code, result.stderr) == (1, "0", "")


def test_a_trained_folder_by_torch(
    tiny_bert: Callable[..., PreTrainedModel],
    tiny_tokenizer: BertTokenizerFast,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # In this process, since another takes seconds to import torch; what the command sets in it is set back.
    monkeypatch.setattr("common.progress._on_stderr", False)
    model = tiny_bert(id2label=dict(enumerate(LABELS)), problem_type="multi_label_classification")
    card = CardText(title="t", description="d", task="t")
    save(model, tiny_tokenizer, tmp_path / "run" / "tiny" / "seed-0" / "model", card=card, max_length=16)
    path = tmp_path / "in.txt"
    texts = ["a good film", "bad", "the plot of a very funny film is good " * 3]
    path.write_text("\n".join(texts))
    options = ["--model", str(tmp_path / "run"), "--file", str(path), "--threads", "1", "--batch-size", "2"]
    assert run_command(main, PredictConfig, arguments=options) == 0
    output, error = capsys.readouterr()
    found = rows_of(output.encode())
    for row, text in zip(found, texts, strict=True):
        inputs = tiny_tokenizer(text, truncation=True, max_length=16, return_tensors="pt")
        with torch.inference_mode():
            wanted = dict(zip(LABELS, model(**inputs).logits.sigmoid()[0].tolist(), strict=True))
        assert row["probabilities"] == pytest.approx(wanted, abs=2e-6)
        assert row["labels"] == [label for label, value in wanted.items() if value >= 0.5]
    assert "1 text longer than 16 pieces, cut there" in error
    assert "torch fp32" in error


def test_the_readme_s_examples_run(exported: Path, tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("### Predictions")[2].partition("###")[0]
    examples = section.partition("```\n")[2].partition("```")[0].splitlines()
    assert len(examples) == 4
    (tmp_path / "more.csv").write_text("text,label\na good film,1\nbad,0\n")
    (tmp_path / "texts.txt").write_text("a good film\nbad\n")
    for example in examples:
        # A run's models say which they read.
        name = "pairs" if "--pair" in example else "texts"
        model = shutil.copytree(exported, tmp_path / name, dirs_exist_ok=True)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "text_pairs": name == "pairs"}))
        line = re.sub(r"--model \S+", f"--model {shlex.quote(str(model))}", example)
        line = line.replace("python -m", f"PYTHONPATH={shlex.quote(str(ROOT))} {shlex.quote(sys.executable)} -m")
        subprocess.run(line, shell=True, cwd=tmp_path, check=True, timeout=60, stdin=subprocess.DEVNULL)  # noqa: S602
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == 3
    assert len(rows_of((tmp_path / "answers.jsonl").read_bytes())) == 2
