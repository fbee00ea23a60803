"""Checkpoints of the loop: complete or absent, and without pickle."""

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from common.errors import UserError
from common.files import new_folder, write_text
from common.progress import say
from teacher.history import History


@dataclass
class LoopState:
    """Where a stage stands. The learning rate and the data position follow from `step`."""

    step: int = 0
    """Optimizer steps done."""
    seconds: float = 0.0
    best_value: float | None = None
    best_step: int | None = None
    worse: int = 0
    """Evaluations since the best one."""
    pending: dict[str, float] = field(default_factory=dict)
    """Sums that the history has not written yet."""
    pending_count: int = 0

    def stopped(self, patience: int | None) -> bool:
        return patience is not None and self.worse >= patience


class Checkpoints:
    """The checkpoints of one stage in `folder`: `step-N/`, the newest, and `best-M/`, the best weights that it knows of
    and those that are better since.
    """

    def __init__(self, folder: Path, module: nn.Module, optimizer: Any) -> None:
        self.folder, self.module, self.optimizer = folder, module, optimizer
        self.names = {parameter: name for name, parameter in module.named_parameters()}
        self._known_best: int | None = None

    def save(self, state: LoopState, history: History) -> None:
        """Write `step-N`, then drop the older ones, and best weights that it does not refer to."""
        state.pending, state.pending_count = dict(history.sums), history.count
        with new_folder(self.folder / f"step-{state.step}") as target:
            save_file(self._weights(), target / "weights.safetensors")
            save_file(self._moments(state.step), target / "optimizer.safetensors")
            save_file(_generators(), target / "generators.safetensors")
            write_text(target / "state.json", json.dumps(asdict(state)))
        for older in self._steps()[:-1]:
            shutil.rmtree(older)
        self._known_best = state.best_step
        self._keep_best(state.best_step)

    def restore(self) -> LoopState | None:
        """Load the newest complete checkpoint; one that cannot be read is named and passed over for an older one.

        Best weights of later steps are dropped: those steps are done again, and may end otherwise.
        """
        for folder in reversed(self._steps()):
            try:
                state = LoopState(**json.loads((folder / "state.json").read_text(encoding="utf-8")))
                weights = load_file(folder / "weights.safetensors")
                moments = load_file(folder / "optimizer.safetensors")
                generators = load_file(folder / "generators.safetensors")
            except Exception as error:  # safetensors, JSON and file errors have no common base
                say(f"checkpoint {folder} is damaged ({error}): passed over")
                continue
            self._load_weights(weights, folder)
            self._load_moments(moments, state.step)
            torch.set_rng_state(generators["torch"])
            for index in range(torch.cuda.device_count()):
                # The sitting before may have had fewer devices.
                if f"cuda{index}" in generators:
                    torch.cuda.set_rng_state(generators[f"cuda{index}"], index)
            say(f"going on from {folder}")
            if state.best_step is not None and not (self.folder / f"best-{state.best_step}").is_dir():
                say(f"its best weights, of step {state.best_step:,}, are gone: the best from here on are kept")
                state.best_value, state.best_step, state.worse = None, None, 0
            self._known_best = state.best_step
            self._keep_best(state.best_step)
            return state
        self._keep_best()
        return None

    def save_best(self, step: int) -> None:
        """Keep the weights as they are now as `best-{step}`, beside those that the newest checkpoint refers to."""
        with new_folder(self.folder / f"best-{step}") as target:
            save_file(self._weights(), target / "weights.safetensors")
        self._keep_best(step, self._known_best)

    def load_best(self, step: int) -> None:
        """Load the weights that were kept after `step`."""
        folder = self.folder / f"best-{step}"
        self._load_weights(load_file(folder / "weights.safetensors"), folder)

    @staticmethod
    def clear(folder: Path) -> None:
        """Remove the checkpoints of a stage whose result is saved elsewhere; its history stays."""
        for path in [*_numbered(folder, "step-"), *_numbered(folder, "best-")]:
            shutil.rmtree(path)

    def _steps(self) -> list[Path]:
        return _numbered(self.folder, "step-")

    def _keep_best(self, *steps: int | None) -> None:
        for folder in _numbered(self.folder, "best-"):
            if folder.name not in {f"best-{step}" for step in steps}:
                # Several processes that are resumed do this at once.
                shutil.rmtree(folder, ignore_errors=True)

    def _weights(self) -> dict[str, Tensor]:
        # A tied tensor appears once among the named parameters, so nothing is written twice.
        return {name: parameter.detach().contiguous() for parameter, name in self.names.items()}

    def _load_weights(self, weights: dict[str, Tensor], folder: Path) -> None:
        if set(weights) != set(self.names.values()):
            raise UserError(f"{folder} is of another model: start a new run with another --name")
        with torch.no_grad():
            for parameter, name in self.names.items():
                parameter.copy_(weights[name])

    def _moments(self, step: int) -> dict[str, Tensor]:
        """AdamW's, and for parameters that learned in fewer steps than `step` in how many."""
        state = {self.names[parameter]: entry for parameter, entry in self.optimizer.state.items()}
        moments = {
            f"{kind}/{name}": entry[kind].contiguous()
            for name, entry in state.items()
            for kind in ("exp_avg", "exp_avg_sq")
        }
        return moments | {f"step/{name}": entry["step"] for name, entry in state.items() if entry["step"] != step}

    def _load_moments(self, moments: dict[str, Tensor], step: int) -> None:
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                name = self.names[parameter]
                if f"exp_avg/{name}" in moments:
                    self.optimizer.state[parameter] = {
                        "step": moments.get(f"step/{name}", torch.tensor(float(step))).to(parameter.device),
                        "exp_avg": moments[f"exp_avg/{name}"].to(parameter.device),
                        "exp_avg_sq": moments[f"exp_avg_sq/{name}"].to(parameter.device),
                    }


def _numbered(folder: Path, prefix: str) -> list[Path]:
    """Finished folders `prefix` + number, in order of the number."""
    found = [path for path in folder.glob(f"{prefix}*") if path.name.removeprefix(prefix).isdigit()]
    return sorted(found, key=lambda path: int(path.name.removeprefix(prefix)))


def _generators() -> dict[str, Tensor]:
    states = {"torch": torch.get_rng_state()}
    for index in range(torch.cuda.device_count()):
        states[f"cuda{index}"] = torch.cuda.get_rng_state(index)
    return states
