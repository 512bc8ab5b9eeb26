"""`Source`: draws of a generator with their log-ratios, validated and counted; and what came of them, `Refined`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from precall.improve.interfaces import Generator, LogRatio, Samples
from precall.improve.ratio import log_ratios
from precall.lazy import torch
from precall.networks import evaluating
from precall.theory.arrays import Array, Flags, Index, is_tensor


@dataclass(frozen=True, eq=False)
class Refined:
    """Refined samples and their cost.

    Attributes:
        samples: the n samples, an array, or a tensor on the CPU, as returned by the generator.
        draws: number of samples drawn from the generator, including pilot draws and gradient steps.
        ratio_calls: number of samples for which the ratio was evaluated.
        gradient_calls: number of samples for which a gradient through ratio and generator was computed.
        acceptance_rate: samples produced per draw, 1/K if the budget is met exactly.
        settings: settings of the method, and quantities it estimated (threshold, Lipschitz constant).
        complete: False if the generator stopped early; then there are fewer than n samples.
    """

    samples: Samples = field(repr=False)
    draws: int
    ratio_calls: int
    gradient_calls: int
    seconds: float
    acceptance_rate: float
    method: str
    budget: float
    seed: int
    settings: Mapping[str, Any]
    complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Everything except the samples, for which the number and the shape are given."""
        kept = {name: value for name, value in vars(self).items() if name != "samples"}
        shape = [int(size) for size in self.samples.shape]
        return {**kept, "settings": dict(self.settings), "n": shape[0], "shape": shape[1:]}


class SamplingError(ValueError):
    """Sampling ended early; `partial` holds the samples until then, or None."""

    def __init__(self, message: str, partial: Refined | None = None) -> None:
        super().__init__(message)
        self.partial = partial


class Source:
    """Draws of a generator, which do not depend on the method, and their log-ratios, validated and counted."""

    def __init__(self, generator: Generator, ratio: LogRatio, *, n: int, seed: int, batch_size: int) -> None:
        _check_generator(generator)
        self.generator, self.ratio, self.remaining, self.batch_size = generator, ratio, n, batch_size
        self.rng, self.coins = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
        self.draws = self.ratio_calls = self.gradient_calls = 0
        self.findings: dict[str, Any] = {}  # what the method reports
        self._end: SamplingError | None = None
        self._shape: tuple[int, ...] | None = None

    def draw(self, count: int) -> Samples:
        """At most `batch_size` of `count` draws; fewer if the generator stops, which the next call reports."""
        if self._end is not None:
            raise self._end
        count = min(count, self.batch_size)
        try:
            with evaluating(self.generator):
                x = self.generator(count, self.rng)
        except StopIteration:
            raise self._stopped() from None
        except Exception as error:
            raise SamplingError(f"`generator` failed after {self.draws:,} draws: {error}") from error
        return self.checked(x, count)

    def judge(self, x: Samples) -> Array:
        """Log-ratios of draws, as float64."""
        try:
            values = log_ratios(self.ratio, x)
        except Exception as error:
            draws = f"{self.draws - len(x):,} to {self.draws:,}"
            raise SamplingError(f"`ratio` failed on draws {draws}: {error}") from error
        self.ratio_calls += len(x)
        return values

    def judged(self, count: int) -> tuple[Samples, Array]:
        """At most `batch_size` of `count` draws with their log-ratios."""
        x = self.draw(count)
        return x, self.judge(x)

    def pilot(self, count: int, most_bytes: int = 1 << 30) -> tuple[Samples, Array]:
        """`count` draws with their log-ratios, or as many as fit into `most_bytes` and the generator returns."""
        parts = [self.judged(count)]
        if (size := getattr(parts[0][0], "nbytes", 0)) > 0:
            count = max(len(parts[0][0]), min(count, most_bytes * len(parts[0][0]) // size))
        while (left := count - sum(len(x) for x, _ in parts)) > 0 and self._end is None:
            try:
                parts.append(self.judged(left))
            except SamplingError as error:  # earlier draws are used; the next draw raises the error
                self._end = error
        return joined([x for x, _ in parts]), np.concatenate([values for _, values in parts])

    def checked(self, x: Samples, count: int) -> Samples:
        """Validate that all samples have one shape, and that there are at most `count`; fewer end the sampling."""
        if not hasattr(x, "shape") or len(x.shape) == 0 or len(x) > count:
            got = f"shape {tuple(x.shape)}" if hasattr(x, "shape") else type(x).__name__
            raise SamplingError(
                f"`generator` must return an array or tensor of the {count} requested samples; got {got}"
            )
        shape = tuple(x.shape[1:])
        if self._shape not in (None, shape):
            raise SamplingError(f"`generator` must return samples of one shape; got {shape} after {self._shape}")
        self._shape = shape
        self.draws += len(x)
        if len(x) == 0:
            raise self._stopped()
        if len(x) < count:
            self._end = self._stopped()
        return x

    def _stopped(self) -> SamplingError:
        return SamplingError(f"`generator` stopped after {self.draws:,} draws")


def _check_generator(generator: object) -> None:
    """Refuse what cannot be called as `generator(n, rng)`, before anything is drawn."""
    expected = "`generator` must be a function of (n, rng) that returns n samples"
    if not callable(generator):
        raise ValueError(f"{expected}; got {type(generator).__name__}.")
    try:
        signature = inspect.signature(generator)
    except (TypeError, ValueError):  # functions in C may have none
        return
    try:
        signature.bind(1, np.random.default_rng(0))
    except TypeError:
        way_out = "Wrap it, as in `lambda n, rng: model(n)`."
        raise ValueError(f"{expected}; got one of {signature}. {way_out}") from None


def joined(parts: list[Samples]) -> Samples:
    """Concatenate batches, all arrays or all tensors."""
    return torch.cat(parts) if is_tensor(parts[0]) else np.concatenate(parts)  # type: ignore[arg-type]


def taken(x: Samples, rows: Flags | Index) -> Samples:
    """The rows of `x` selected by a NumPy mask or index."""
    return x[torch.as_tensor(rows, device=x.device)] if is_tensor(x) else np.asarray(x)[rows]
