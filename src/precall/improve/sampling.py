"""`sample`: refine samples while drawing them from a generator, and count the cost.

A method draws from a `Source`, which validates and counts every call, and yields samples until there are n.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, Protocol

import numpy as np

from precall.improve.interfaces import Generator, LogRatio, Samples
from precall.improve.rejection import OBRS, Everything
from precall.improve.source import Refined, SamplingError, Source, joined
from precall.progress import Progress
from precall.theory import checks
from precall.theory.arrays import is_tensor

FORMER = ("dot", "drs", "rejection", "metropolis", "dgflow", "hard_truncation", "soft_truncation")


class Sampler(Protocol):
    """A method: it yields refined samples of a source until it is stopped."""

    def batches(self, source: Source, budget: float) -> Iterator[Samples]:
        """Batches of samples, with at most `budget` generator evaluations per sample on average."""


METHODS: Mapping[str, Callable[[], Sampler]] = {"none": Everything, "obrs": OBRS}


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
    return METHODS[checks.choice("method", method, METHODS)]()


def _settings(sampler: Sampler) -> dict[str, Any]:
    """The sampler's settings without arrays."""
    settings: dict[str, Any] = asdict(sampler) if is_dataclass(sampler) and not isinstance(sampler, type) else {}
    return {name: value for name, value in settings.items() if not hasattr(value, "shape")}
