"""common.hardware, against system files that the tests write."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from common import hardware


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A stand-in for /proc/cpuinfo."""
    file = tmp_path / "cpuinfo"
    monkeypatch.setattr(hardware, "_CPUINFO", file)
    hardware._cpuinfo.cache_clear()
    yield file
    hardware._cpuinfo.cache_clear()


@pytest.mark.parametrize(
    ("flags", "pays"),
    [
        ("fpu avx2 fma avx512f avx512_vnni", False),
        ("fpu avx2 avx512f avx512_bf16", True),
        ("fpu avx2 amx_tile amx_bf16", True),
        ("fpu avx512_bf16x", False),
    ],
)
def test_bf16_pays_only_with_its_instructions(cpuinfo: Path, flags: str, pays: bool) -> None:
    cpuinfo.write_text(
        f"processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: {flags}\n\nprocessor\t: 1\n", encoding="utf-8"
    )
    assert hardware.bf16_pays() is pays


def test_names_and_order_of_instruction_sets(cpuinfo: Path) -> None:
    cpuinfo.write_text("model name : A CPU @ 2 GHz\nflags : amx_bf16 avx2 sse avx512f\n", encoding="utf-8")
    assert hardware.instruction_sets() == ("avx2", "avx512f", "amx_bf16")
    assert hardware.cpu_name() == "A CPU @ 2 GHz"


def test_arm_lists_features_and_gets_no_bf16_by_default(cpuinfo: Path) -> None:
    cpuinfo.write_text("processor : 0\nFeatures : fp asimd asimddp bf16 sve\n", encoding="utf-8")
    assert hardware.instruction_sets() == ("asimd", "asimddp", "bf16", "sve")
    assert not hardware.bf16_pays()


def test_without_cpuinfo_nothing_is_claimed(cpuinfo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware.platform, "machine", lambda: "x86_64")
    assert hardware.instruction_sets() == ()
    assert not hardware.bf16_pays()
    assert hardware.cpu_name()


def test_a_containers_limits_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    assert hardware.usable_cores() == 16
    (tmp_path / "cpu.max").write_text("150000 100000\n", encoding="utf-8")
    assert hardware.usable_cores() == 2
    (tmp_path / "cpu.max").write_text("max 100000\n", encoding="utf-8")
    assert hardware.usable_cores() == 16
    machine = hardware.memory_bytes()
    (tmp_path / "memory.max").write_text("1048576\n", encoding="utf-8")
    assert hardware.memory_bytes() == 1 << 20
    (tmp_path / "memory.max").write_text("max\n", encoding="utf-8")
    assert hardware.memory_bytes() == machine


def test_older_containers_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000", encoding="utf-8")
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("400000", encoding="utf-8")
    assert hardware.usable_cores() == 4
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1", encoding="utf-8")
    assert hardware.usable_cores() == 16
