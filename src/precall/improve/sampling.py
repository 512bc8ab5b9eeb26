"""`sample`: refine samples while drawing them from a generator, and count the cost.

A method draws from a `Source`, which validates and counts every call, and yields samples until there are n.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from precall.improve.interfaces import Generator, LogRatio, Samples
from precall.improve.ratio import log_ratios
from precall.networks import evaluating
from precall.progress import Progress
from precall.theory import checks
from precall.theory.arrays import Array, Flags, Index, is_tensor

METHODS = {"none": "Everything", "obrs": "OBRS"}  # by name in `precall.improve.rejection`
FORMER = ("dot", "drs", "rejection", "metropolis", "dgflow", "hard_truncation", "soft_truncation")


class Sampler(Protocol):
    """A method: it yields refined samples of a source until it is stopped."""

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Batches of samples, with at most `budget` generator evaluations per sample on average."""


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


def sample(
    generator: Generator,
    ratio: LogRatio,
    *,
    budget: float,
    n: int,
    method: str | Sampler = "obrs",
    seed: int = 0,
    batch_size: int = 4096,
    progress: Progress | None = None,
) -> Refined:
    """Draw n refined samples from a generator, with K generator evaluations per sample on average.

    The method "obrs" accepts a draw with probability `min(1, τ r)`, which is optimal at the rate 1/K; "none" accepts
    every draw. Any object with `batches(source, budget)` is a method, too.

    The threshold τ is solved on a pilot of 10,000 draws (or K n, if fewer), which are used like all others. The same
    seed gives the same samples. They do not depend on `batch_size` if the generator draws sample by sample from its
    rng, as `LatentGenerator` does (up to rounding in its network).

    Args:
        generator: `generator(n, rng)` returns n samples, an array or a tensor of any shape behind the first axis; `rng`
            is a NumPy generator.
        ratio: returns log-ratios `log p/q` of samples: a `Ratio`, or any such callable.
        budget: K ≥ 1.
        method: one of the names above, or a sampler object with other settings, such as `OBRS(pilot=…)`.
        batch_size: maximum number of samples per call of the generator.
        progress: called with ("samples", kept, n).

    Raises:
        SamplingError: if the generator stops, fails or changes shape, if the ratio is NaN or constant, or if the budget
            cannot be met. The samples until then are in its `partial`.

    Example:
        >>> ratio = lambda x: -x[:, 0] - 0.5  # P = N(−1, 1) over Q = N(0, 1)
        >>> kept = sample(lambda n, rng: rng.normal(size=(n, 1)), ratio, budget=2, n=5000)
        >>> kept.samples.shape, abs(kept.acceptance_rate - 0.5) < 0.02, bool(kept.samples.mean() < -0.5)
        ((5000, 1), True, True)

    References:
        Verine (2024), section 6.1 and 6.2; docs/theory.md, Rejection.
    """
    n, K, size = checks.count("n", n), checks.budget(budget), checks.count("batch_size", batch_size)
    sampler = _sampler(method)
    source = Source(generator, ratio, n=n, seed=seed, batch_size=size)
    parts: list[Samples] = []
    start, given = time.perf_counter(), 0

    def refined(complete: bool) -> Refined:
        return Refined(
            samples=joined(parts) if parts else np.empty(0),
            draws=source.draws,
            ratio_calls=source.ratio_calls,
            gradient_calls=source.gradient_calls,
            seconds=time.perf_counter() - start,
            acceptance_rate=given / max(1, source.draws),
            method=method if isinstance(method, str) else type(method).__name__.lower(),
            budget=K,
            seed=seed,
            settings={**_settings(sampler), **source.findings},
            complete=complete,
        )

    try:
        for batch in sampler.batches(source, K):
            given += len(batch)
            kept = batch[: source.remaining]
            parts.append(kept.detach().cpu() if is_tensor(kept) else kept)  # the memory of the device stays free
            source.remaining -= min(len(batch), source.remaining)
            if progress is not None:
                progress("samples", n - source.remaining, n)
            if source.remaining == 0:
                break
    except SamplingError as error:
        message = f"{error}; {n - source.remaining:,} of {n:,} samples are in `.partial`."
        raise SamplingError(message, refined(complete=False)) from error.__cause__
    return refined(complete=True)


def _sampler(method: str | Sampler) -> Sampler:
    if not isinstance(method, str):
        return method
    if method in FORMER:
        raise ValueError(f'`method` {method} does worse than "obrs", and is in `experiments/common` now. Use "obrs".')
    name = METHODS[checks.choice("method", method, METHODS)]
    return getattr(import_module("precall.improve.rejection"), name)()  # type: ignore[no-any-return]


def _settings(sampler: Sampler) -> dict[str, Any]:
    """The sampler's settings without arrays."""
    settings: dict[str, Any] = asdict(sampler) if is_dataclass(sampler) and not isinstance(sampler, type) else {}
    return {name: value for name, value in settings.items() if not hasattr(value, "shape")}


def joined(parts: list[Samples]) -> Samples:
    """Concatenate batches, all arrays or all tensors."""
    together: Samples = sys.modules["torch"].cat(parts) if is_tensor(parts[0]) else np.concatenate(parts)
    return together


def taken(x: Samples, rows: Flags | Index) -> Samples:
    """The rows of `x` selected by a NumPy mask or index."""
    return x[sys.modules["torch"].as_tensor(rows, device=x.device)] if is_tensor(x) else np.asarray(x)[rows]
