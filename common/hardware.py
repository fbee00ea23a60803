"""What this machine has: processor, instruction sets, cores and memory. Reads system files, imports no torch."""

import functools
import math
import os
import platform
import subprocess
from pathlib import Path

INSTRUCTION_SETS = (
    *("avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "bf16", "i8mm", "sve", "sve2"),
)
"""The ones that decide how fast matrices are multiplied, x86 then Arm, by their names in /proc/cpuinfo."""

_CPUINFO = Path("/proc/cpuinfo")
_CGROUP = Path("/sys/fs/cgroup")


def instruction_sets() -> tuple[str, ...]:
    """Those of INSTRUCTION_SETS that this processor has, in that order; empty where the system does not tell."""
    flags = set(_cpuinfo().get("flags", "").split()) | set(_cpuinfo().get("Features", "").split())
    if not flags and platform.machine() == "arm64":
        flags = {"asimd"} | {
            name for name in ("bf16", "i8mm") if _sysctl(f"hw.optional.arm.FEAT_{name.upper()}") == "1"
        }
    return tuple(name for name in INSTRUCTION_SETS if name in flags)


def bf16_pays() -> bool:
    """Whether bf16 matrix products are faster than fp32 ones here: AVX512-BF16 or AMX-BF16.

    Other processors emulate bf16, and training in it is slower than in fp32.
    """
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(instruction_sets())


def int8_saturates() -> bool:
    """Whether sums of two 8-bit products overflow 16 bits here: x86 without VNNI. Weights of 7 bits then stay exact."""
    known = set(instruction_sets())
    return "avx" in known and known.isdisjoint({"avx_vnni", "avx512_vnni", "amx_int8"})


def cpu_name() -> str:
    """The processor's model name, or its architecture where the system gives no name."""
    name = _cpuinfo().get("model name") or _sysctl("machdep.cpu.brand_string") or platform.processor()
    return name or platform.machine() or "unknown"


def usable_cores() -> int:
    """Cores that this process may use: the affinity mask, and a container's quota rounded up."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = _cgroup_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def memory_bytes() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's where that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [_number(_CGROUP / "memory.max"), _number(_CGROUP / "memory" / "memory.limit_in_bytes")]
    return min([total, *(limit for limit in limits if limit is not None)])


@functools.cache
def _cpuinfo() -> dict[str, str]:
    """The first processor's entries; empty outside Linux."""
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.strip().split("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _sysctl(name: str) -> str:
    if platform.system() != "Darwin":
        return ""
    try:
        answer = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()


def _cgroup_quota() -> float | None:
    """Cores' worth of time that a container is given, from cgroup 2 or 1; None without a limit."""
    try:
        quota, period = (_CGROUP / "cpu.max").read_text(encoding="utf-8").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    first, period_v1 = (_number(_CGROUP / "cpu" / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
    return first / period_v1 if first is not None and period_v1 and first > 0 else None


def _number(path: Path) -> int | None:
    """The number in a file; None where there is no such file or it says "max"."""
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
