"""Where the time of training steps goes, by torch's profiler."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

GROUPS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mkldnn_linear", "aten::linear"),
    "optimizer and clipping": (
        *("aten::_fused_adamw_", "aten::_foreach_norm", "aten::_foreach_mul_", "aten::linalg_vector_norm"),
        *("aten::_foreach_add_", "Optimizer.step#AdamW.step", "Optimizer.zero_grad#AdamW.zero_grad"),
    ),
    "attention's softmax and mask": (
        *("aten::_softmax", "aten::_softmax_backward_data", "aten::masked_fill", "aten::masked_fill_"),
        "aten::bitwise_not",
    ),
    "layer norm": ("aten::native_layer_norm", "aten::native_layer_norm_backward"),
    "gelu": ("aten::gelu", "aten::gelu_backward", "aten::tanh", "aten::tanh_backward"),
    "embeddings": (
        *("aten::embedding", "aten::embedding_dense_backward", "aten::index_select", "aten::index_add_"),
        *("aten::index_put_", "aten::_index_put_impl_", "aten::index"),
    ),
    "loss": (
        *("aten::_log_softmax", "aten::_log_softmax_backward_data", "aten::nll_loss_forward"),
        "aten::nll_loss_backward",
    ),
    "casts and copies": ("aten::copy_", "aten::fill_", "aten::zero_", "aten::constant_pad_nd", "aten::cat"),
    "element by element, and sums": ("aten::add", "aten::add_", "aten::mul", "aten::mul_", "aten::sum", "aten::div"),
    "batches": ("data",),
}
"""What is told apart, with the operators whose own time it is."""

REST = "other operators"
PYTHON = "Python, autograd, and the profiler itself"
SHOWN = 40
"""Rows of the table."""


def profiled(run: Callable[[], Any], warmup: int, steps: int, table: Path) -> dict[str, Any]:
    """Shares of the wall time of the `steps` steps after the first `warmup`, and the operators' table in a file.

    Operations are seen in the thread that runs them all, so there must be one lane.
    """
    schedule = torch.profiler.schedule(wait=warmup - 1, warmup=1, active=steps, repeat=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as profiler:
        handle = register_optimizer_step_post_hook(lambda *_: profiler.step())
        try:
            run()
        finally:
            handle.remove()
    averages = profiler.key_averages()
    table.write_text(averages.table(sort_by="self_cpu_time_total", row_limit=SHOWN), encoding="utf-8")
    # ProfilerStep#N frames hold everything that happens in a step.
    wall = sum(entry.cpu_time_total for entry in averages if entry.key.startswith("ProfilerStep"))
    own = {entry.key: entry.self_cpu_time_total for entry in averages if not entry.key.startswith("ProfilerStep")}
    names = {operator: group for group, operators in GROUPS.items() for operator in operators}
    shares = dict.fromkeys([*GROUPS, REST, PYTHON], 0.0)
    for key, time in own.items():
        group = names.get(key, REST if key.startswith("aten::") else PYTHON)
        shares[group] += time / wall
    shares[PYTHON] += 1 - sum(own.values()) / wall
    return {"profiled_milliseconds_a_step": wall / 1000 / steps, "shares": shares}
