"""The history of a run as TensorBoard scalars."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.errors import UserError


class Scalars:
    """Told the rows of a history, it writes an event file in `folder`, beside those of earlier sittings."""

    def __init__(self, folder: Path) -> None:
        self._writer = writer_class()(str(folder))

    def __call__(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def writer_class() -> Any:
    """The class that writes event files; raises UserError where the package tensorboard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UserError(
            "--tensorboard needs the package tensorboard, which is not installed: "
            "pip install 'distillery[tensorboard]', or leave the option out (the curves are in history.jsonl too)"
        ) from error
    return SummaryWriter
