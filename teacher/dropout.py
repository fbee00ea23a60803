"""Dropout, and numbers to sample with, whose draws are a function of seed, step and part of the batch, and cost little.

torch draws one uniform number a unit, from one generator that all threads share: a fifth of a training step on a CPU,
and in an order that two threads do not keep. Here sixteen random bits decide about a unit, from a stream that is keyed
by whoever starts a step. Without a stream, and on other devices, torch's own dropout is used.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

_LEVELS = 1 << 16

_stream: contextvars.ContextVar[np.random.SFC64 | None] = contextvars.ContextVar("stream", default=None)


@contextlib.contextmanager
def drawing(*key: int) -> Iterator[None]:
    """Within the block (and this thread) dropout draws from the stream of `key`, whole numbers from 0."""
    token = _stream.set(np.random.SFC64(key))
    try:
        yield
    finally:
        _stream.reset(token)


def redrawing() -> contextlib.AbstractContextManager[None]:
    """A block in which dropout draws again what it draws from this call on: for activations that are computed twice."""
    stream = _stream.get()
    return contextlib.nullcontext() if stream is None else _drawing_from(stream.state)


@contextlib.contextmanager
def _drawing_from(state: Any) -> Iterator[None]:
    stream = np.random.SFC64(0)
    stream.state = state
    token = _stream.set(stream)
    try:
        yield
    finally:
        _stream.reset(token)


def drop(states: Tensor, share: float) -> Tensor:
    """Zero a `share` of the units and scale the others up, so that the mean stays.

    The share is kept to 1 in 65,536.
    """
    stream = _stream.get()
    if stream is None or states.device.type != "cpu" or not 0.0 < share < 1.0:
        return functional.dropout(states, share)
    bits = torch.from_numpy(stream.random_raw(-(-states.numel() // 4)).view(np.int16))
    dropped = round(share * _LEVELS)
    kept = (bits[: states.numel()] >= dropped - _LEVELS // 2).view(states.shape)
    return states * (kept.to(states.dtype) * (_LEVELS / (_LEVELS - dropped)))


def uniforms(count: int, device: torch.device) -> Tensor:
    """Uniform fp32 numbers of [0, 1] from the stream, else from torch's generator."""
    stream = _stream.get()
    if stream is None:
        return torch.rand(count, device=device)
    return torch.from_numpy(stream.random_raw(count) / 2.0**64).to(device, torch.float32)


class KeyedDropout(nn.Dropout):
    """nn.Dropout by `drop`."""

    def forward(self, states: Tensor) -> Tensor:
        return drop(states, self.p) if self.training and self.p else states


@contextlib.contextmanager
def dropping(module: nn.Module, share: float) -> Iterator[None]:
    """Within the block every nn.Dropout inside `module` drops `share`; its configuration is left as it is."""
    parts = [(part, part.p) for part in module.modules() if isinstance(part, nn.Dropout)]
    for part, _ in parts:
        part.p = share
    try:
        yield
    finally:
        for part, before in parts:
            part.p = before


@contextlib.contextmanager
def keyed_dropout(module: nn.Module) -> Iterator[None]:
    """Within the block every nn.Dropout inside `module` is a KeyedDropout."""
    places = [
        (parent, name, child)
        for parent in module.modules()
        for name, child in parent.named_children()
        if type(child) is nn.Dropout
    ]
    for parent, name, child in places:
        setattr(parent, name, KeyedDropout(child.p).train(child.training))
    try:
        yield
    finally:
        for parent, name, child in places:
            setattr(parent, name, child.train(parent.training))
