"""An exported folder runs where there is neither torch nor transformers nor this project."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertTokenizerFast, PreTrainedModel

from students.export import export_onnx
from students.onnx_card import SCRIPT
from students.quantize import quantise
from students.runtime import OnnxModel, padded_batch

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = ("torch", "transformers", "safetensors", "datasets", "accelerate", "onnx")
TEXTS = ["a good film", "bad plot, and very boring music by the actor", "!"]


@pytest.fixture(scope="module")
def model(tiny_bert: Callable[..., PreTrainedModel]) -> PreTrainedModel:
    names = {"id2label": {0: "bad", 1: "good", 2: "so so"}, "label2id": {"bad": 0, "good": 1, "so so": 2}}
    return tiny_bert(initializer_range=0.5, **names)


@pytest.fixture(scope="module")
def folders(
    model: PreTrainedModel, tiny_tokenizer: BertTokenizerFast, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("without torch")
    export_onnx(model, tiny_tokenizer, base / "fp32", max_length=8)
    quantise(base / "fp32", base / "int8")
    return {name: base / name for name in ("fp32", "int8")}


def run_without(code: str, *arguments: str, blocked: tuple[str, ...] = BLOCKED, cwd: Path = ROOT) -> str:
    """Standard output of `code` in a fresh process in which these modules cannot be imported."""
    block = f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\n"
    path = "" if cwd != ROOT else f"sys.path.insert(0, {str(ROOT)!r})\n"
    command = [sys.executable, "-I", "-c", block + path + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd, timeout=120).stdout


def readme_script() -> str:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (script,) = [block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "tokenizer.json" in block]
    return script


def test_the_readme_s_script_gives_the_models_answers(
    folders: dict[str, Path], model: PreTrainedModel, tiny_tokenizer: BertTokenizerFast, tmp_path: Path
) -> None:
    assert readme_script() == SCRIPT
    assert SCRIPT in (folders["fp32"] / "README.md").read_text(encoding="utf-8")
    project = ("common", "teacher", "students", "distill", "reports")
    output = run_without(readme_script(), str(folders["fp32"]), *TEXTS, blocked=BLOCKED + project, cwd=tmp_path)
    batch = tiny_tokenizer(TEXTS, padding=True, truncation=True, max_length=8, return_tensors="pt")
    with torch.no_grad():
        expected = model(**batch).logits.softmax(dim=-1)
    lines = [re.fullmatch(r"(.+) (\d\.\d{4}) (.+)", line) for line in output.splitlines()]
    for text, row, line in zip(TEXTS, expected, lines, strict=True):
        assert line is not None
        assert line[1].strip() == model.config.id2label[int(row.argmax())]
        assert float(line[2]) == pytest.approx(float(row.max()), abs=1e-3)
        assert line[3] == text


@pytest.mark.parametrize("kind", ["fp32", "int8"])
def test_a_fresh_process_gives_the_logits_that_were_measured(
    kind: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    ids = [np.array([2, 30, 41, 3]), np.array([2, 77, 3]), np.array([2, 9, 8, 7, 6, 5, 4, 3])]
    ours = OnnxModel(folders[kind]).text_logits(ids, batch_size=2)
    code = (
        "import json, numpy as np\n"
        "from students.runtime import OnnxModel\n"
        "ids = [np.array(row) for row in json.loads(sys.argv[2])]\n"
        "print(json.dumps(OnnxModel(sys.argv[1]).text_logits(ids, batch_size=2).tolist()))\n"
    )
    theirs = run_without(code, str(folders[kind]), json.dumps([row.tolist() for row in ids]))
    assert np.array_equal(np.array(json.loads(theirs), dtype=np.float32), ours)


def test_ragged_texts_come_back_in_their_order(folders: dict[str, Path]) -> None:
    runtime = OnnxModel(folders["fp32"])
    ids = [np.array([2, 30, 41, 3]), np.array([2, 77, 3]), np.array([2, 9, 8, 7, 6, 5, 4, 3]), np.array([2, 3])]
    types = [np.arange(len(row)) // 2 % 2 for row in ids]
    together = runtime.text_logits(ids, types, batch_size=3)
    for row, kinds, logits in zip(ids, types, together, strict=True):
        np.testing.assert_allclose(runtime.logits(padded_batch([row], [kinds]))[0], logits, atol=1e-5)
    assert np.abs(together - runtime.text_logits(ids)).max() > 1e-3
