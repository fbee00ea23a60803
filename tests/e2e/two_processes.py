"""Commands of a file, one after the other: what test_scale_out.py does in one process, for torchrun to do in two."""

import json
import sys
from pathlib import Path

from common.command import run_command
from teacher.finetune import FinetuneConfig
from teacher.finetune import main as finetune
from teacher.pretrain import PretrainCommand
from teacher.pretrain import main as pretrain

COMMANDS = {"pretrain": (pretrain, PretrainCommand), "finetune": (finetune, FinetuneConfig)}


def run_all(commands: list[list[str]]) -> int:
    """Run them; the first exit code that is not 0, or 0."""
    for name, *arguments in commands:
        function, config = COMMANDS[name]
        code = run_command(function, config, arguments=arguments)
        if code:
            return code
    return 0


if __name__ == "__main__":
    raise SystemExit(run_all(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
