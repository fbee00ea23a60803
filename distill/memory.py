"""Peak memory of a model, in a process of its own.

Linux tells the peak of a process in /proc; its ru_maxrss would not do, since a new process starts with the peak of the
one that started it.
"""

import contextlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from common.errors import UserError
from common.progress import say

_STATUS = Path("/proc/self/status")
_TIMEOUT_SECONDS = 300


def peak_memory(folder: Path, *, batch: int = 32, length: int = 128, threads: int = 1) -> int | None:
    """Bytes that loading the model in `folder` and one fp32 pass over `batch` x `length` tokens need at their highest.

    Measured in a fresh process, above what that process has after importing torch and transformers. None where the
    system does not tell, or where the process failed, which is said.

    Raises:
        UserError: no model in `folder`.
    """
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} has no config.json: a model folder was expected")
    if platform.system() not in ("Linux", "Darwin"):
        return None
    command = [sys.executable, "-m", "distill.memory", str(folder.resolve()), str(batch), str(length), str(threads)]
    root = Path(__file__).resolve().parents[1]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    try:
        answer = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        say(f"peak memory of {folder} was not measured: {_last_line(error)}")
        return None
    # Libraries may greet on standard output; the figure is the last line.
    return int(json.loads(answer.stdout.splitlines()[-1]))


def _last_line(error: subprocess.CalledProcessError | subprocess.TimeoutExpired) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took more than {_TIMEOUT_SECONDS} seconds"
    lines = str(error.stderr).strip().splitlines()
    return lines[-1] if lines else f"the process ended with code {error.returncode}"


def _work(folder: Path, batch: int, length: int, threads: int) -> int:
    """Bytes between the process before the model and its peak: what the fresh process prints."""
    import torch
    import transformers

    from common.architectures import model_class, register_architectures
    from common.families import max_length
    from distill.flops import random_batch

    torch.set_num_threads(threads)
    register_architectures()
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = model_class((config.architectures or ["AutoModel"])[0])
    before = _restart_peak()
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        model(**random_batch(model, batch=batch, length=min(length, max_length(config))))
    return _peak() - before


def _restart_peak() -> int:
    """Forget the peak that importing left; bytes in use now, or that peak where the system does not forget."""
    with contextlib.suppress(OSError):
        # See proc(5): 5 resets the peak resident size to the current one.
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _peak()


def _peak() -> int:
    """Bytes of the highest resident size so far."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    import resource

    # Bytes on macOS, the only other system that comes here.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(json.dumps(_work(Path(sys.argv[1]), *(int(argument) for argument in sys.argv[2:5]))))
