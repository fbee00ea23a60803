"""Examples in docstrings hold."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("common", "teacher", "students", "distill", "reports")
FILES = [path.relative_to(ROOT) for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
WITH_EXAMPLES = [path for path in FILES if ">>> " in (ROOT / path).read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples_in_docstrings_hold(path: Path) -> None:
    result = doctest.testmod(importlib.import_module(".".join(path.with_suffix("").parts)))
    assert result.attempted > 0
    assert result.failed == 0
