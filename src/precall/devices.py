"""Where computations run: on the CPU, or on an accelerator that torch can use (CUDA, or Apple's MPS)."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path

DEVICES = ("auto", "cpu", "cuda", "mps")
_ran_in: int | None = None  # the process in which a network has run


def check_device(device: str | None) -> None:
    """Refuse a device that does not exist on this machine. "auto", "cpu" and None are always accepted.

    Example:
        >>> check_device("gpu")
        Traceback (most recent call last):
            ...
        ValueError: `device` must be one of auto, cpu, cuda, mps; got 'gpu'.
    """
    if device is None:
        return
    kind = str(device).partition(":")[0]
    if kind not in DEVICES or not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,3})?", str(device)):
        raise ValueError(f"`device` must be one of {', '.join(DEVICES)}; got {device!r}.")
    if kind in ("cuda", "mps") and not _exists(device):
        way_out = "Pass 'auto' to use whatever there is, or 'cpu'."
        raise ValueError(f"`device` must exist on this machine; got {device!r}, which torch does not find. {way_out}")


def network_device(device: str | None = None) -> str:
    """The device for networks, which compute in float32: the requested one; for "auto" or None CUDA, MPS or the CPU."""
    check_device(device)
    if device not in (None, "auto"):
        return str(device)
    return next((kind for kind in ("cuda", "mps") if _exists(kind)), "cpu")


def exact_device(device: str | None = None) -> str:
    """The device for comparisons that need float64: as `network_device`, but the CPU instead of MPS, which has none."""
    chosen = network_device(device)
    return "cpu" if chosen == "mps" else chosen


def _exists(device: str) -> bool:
    kind, _, index = device.partition(":")
    if "torch" not in sys.modules and not may_exist(kind):
        return False
    import torch

    if kind == "mps":
        return bool(torch.backends.mps.is_available())
    return torch.cuda.is_available() and int(index or 0) < torch.cuda.device_count()


def may_exist(kind: str) -> bool:
    """Whether there may be such a device. It is asked first because torch takes seconds to import."""
    if sys.platform != "linux":
        return (sys.platform == "darwin") == (kind == "mps")
    if kind == "mps":
        return False
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()  # of AMD
    return True


def check_fork() -> None:
    """Refuse to run a network in a process that was forked after a network had run: it would wait for ever."""
    global _ran_in
    if _ran_in not in (None, os.getpid()):
        raise ValueError(
            "a network cannot run in a forked process whose parent has run one. Start processes with the method "
            '"spawn" or "forkserver", as in `multiprocessing.get_context("spawn")`.'
        )
    _ran_in = os.getpid()


def _one_thread_in_forks() -> None:
    """Let torch use one thread in a forked process, where it would wait for threads that are not there."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread_in_forks)
