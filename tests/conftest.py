"""What every test stands on: one thread, no network, a cache of its own, tiny models."""

import atexit
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_USER_CACHE = os.environ.get("XDG_CACHE_HOME")
_SESSION_CACHE = Path(tempfile.mkdtemp(prefix="distillery-tests-"))
atexit.register(shutil.rmtree, _SESSION_CACHE, ignore_errors=True)
# Set before torch and transformers are imported, since they read these once. Two threads on a busy machine spin
# against each other.
os.environ |= {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HOME": str(_SESSION_CACHE / "huggingface"),
    "XDG_CACHE_HOME": str(_SESSION_CACHE),
    # Matplotlib lists the fonts of the system on its first run, which takes seconds: the user's list is as good.
    "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR", str(Path(_USER_CACHE or Path.home() / ".cache") / "matplotlib")),
}

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast, PreTrainedModel  # noqa: E402

torch.set_num_threads(1)

SHARED_DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"

_WORDS = (
    "the a of to and in is it this that not good bad film play great poor story plot music very boring funny actor "
    "array model token return value list"
)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Every test starts from the same random state, alone or in company."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - libraries that are called draw from the old global generator
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def session_cache() -> Path:
    """The folder that XDG_CACHE_HOME names during the tests: empty at first, shared by all, removed at the end."""
    return _SESSION_CACHE


@pytest.fixture
def user_cache(monkeypatch: pytest.MonkeyPatch) -> Path:
    """XDG_CACHE_HOME as the user has it, for one test that gains from an extracted pydocs corpus lying there."""
    folder = Path(_USER_CACHE) if _USER_CACHE else Path.home() / ".cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real task data beside the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real task data is not there: {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def tiny_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> BertTokenizerFast:
    """A WordPiece tokenizer of about 100 pieces: letters, ## letters, digits, some words. It knows every ASCII word."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += [*"0123456789", *".,!?'-()", *(word for word in _WORDS.split() if word not in letters)]
    folder = tmp_path_factory.mktemp("tiny_tokenizer")
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=128).save_pretrained(folder)
    return BertTokenizerFast.from_pretrained(folder)


@pytest.fixture(scope="session")
def tiny_bert(tiny_tokenizer: BertTokenizerFast) -> Callable[..., PreTrainedModel]:
    """A function that makes a BERT of random weights in eval mode: hidden 32, 4 heads, the tiny tokenizer's vocabulary.

    `tiny_bert(layers=2, hidden=32, labels=3, seed=0, model_class=BertForSequenceClassification, **config)`
    """

    def make(
        *,
        layers: int = 2,
        hidden: int = 32,
        labels: int = 3,
        seed: int = 0,
        model_class: type[PreTrainedModel] = BertForSequenceClassification,
        **config: Any,
    ) -> PreTrainedModel:
        sizes = {
            "vocab_size": len(tiny_tokenizer),
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": 4,
            "intermediate_size": 4 * hidden,
            "max_position_embeddings": 128,
            "num_labels": labels,
        }
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return model_class(BertConfig(**sizes | config)).eval()

    return make
