"""Contestant: the machine itself. FLOP/s of one product of large matrices, the best of several shapes."""

import statistics
import time

import torch
from pretrain_pace import compete, parser

from teacher.loop_config import resolve_precision

SHAPES = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 1024, 4096), (8192, 4096, 1024), (2048, 768, 3072))
"""Rows, inner and columns: square ones, and those of a large batch's feed-forward part."""

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def median_flops(rows: int, inner: int, columns: int, dtype: torch.dtype, seconds: float) -> float:
    """Of torch.mm again and again for so long, after three for warm-up."""
    left, right = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
    out = torch.empty(rows, columns, dtype=dtype)
    for _ in range(3):
        torch.mm(left, right, out=out)
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        start = time.perf_counter()
        torch.mm(left, right, out=out)
        times.append(time.perf_counter() - start)
    return 2 * rows * inner * columns / statistics.median(times)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=1.0, help="for each shape")
    options.add_argument("--precision", default="auto")
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    precision = resolve_precision(given.precision)
    found = {str(one): median_flops(*one, DTYPES[precision], given.seconds) for one in SHAPES}
    compete(given, {"precision": precision, "peak_flops_a_second": max(found.values()), "by_shape": found})


if __name__ == "__main__":
    main()
