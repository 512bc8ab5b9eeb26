"""`sample`: refine while sampling. Draws come from a generator, a method keeps or moves them, and the cost is counted.

One method a file (rejection, chains, latent, transport, gradient_flow), all behind the registry `METHODS`. A method
sees the generator and the ratio through a `Source`, which checks and counts whatever passes, and yields samples;
`sample` collects them until there are n.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from precall.improve.ratio import log_ratios
from precall.theory import checks
from precall.theory.arrays import is_tensor
from precall.theory.checks import Array

Generator = Callable[[int, np.random.Generator], Any]
Progress = Callable[[str, int, int], None]
Mask = npt.NDArray[np.bool_]

METHODS = {
    "none": "precall.improve.rejection.Everything",
    "obrs": "precall.improve.rejection.OBRS",
    "drs": "precall.improve.rejection.DRS",
    "rejection": "precall.improve.rejection.Rejection",
    "metropolis": "precall.improve.chains.Metropolis",
    "dot": "precall.improve.transport.Transport",
    "dgflow": "precall.improve.gradient_flow.GradientFlow",
    "hard_truncation": "precall.improve.latent.HardTruncation",
    "soft_truncation": "precall.improve.latent.SoftTruncation",
}


class Sampler(Protocol):
    """A method: yields refined samples of a source for as long as it is asked."""

    def batches(self, source: Source, budget: float) -> Iterator[Any]:
        """Batches of samples, each drawn within `budget` generator evaluations a sample on average."""


@dataclass(frozen=True, eq=False)
class Refined:
    """Refined samples and what they cost.

    Attributes:
        samples: the n samples, array or tensor as the generator makes them; memory-mapped where they went to a file.
        draws: how often the generator was evaluated, samples counted singly (pilot draws and gradient steps included).
        ratio_calls: how many samples the ratio judged.
        gradient_calls: how many samples a gradient through ratio and generator was computed for.
        seconds: wall-clock time.
        acceptance_rate: samples that the method gave per draw, 1/K where the budget is met exactly.
        method: name of the method.
        budget: K asked for.
        seed: seed of draws and coins.
        settings: what the method was set to, and what it found (threshold, Lipschitz constant).
        path: file that holds the samples, if one was asked for.
        complete: False where the generator stopped early; then there are fewer than n samples.
    """

    samples: Any = field(repr=False)
    draws: int
    ratio_calls: int
    gradient_calls: int
    seconds: float
    acceptance_rate: float
    method: str
    budget: float
    seed: int
    settings: Mapping[str, Any]
    path: Path | None = None
    complete: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Everything but the samples, of which the number and the shape are given."""
        kept = {name: value for name, value in vars(self).items() if name not in ("samples", "settings", "path")}
        shape = [int(size) for size in self.samples.shape]
        path = None if self.path is None else str(self.path)
        return {**kept, "settings": dict(self.settings), "path": path, "n": shape[0], "shape": shape[1:]}


class SamplingError(ValueError):
    """Sampling ended early; `partial` holds what there was until then, or None."""

    def __init__(self, message: str, partial: Refined | None = None) -> None:
        super().__init__(message)
        self.partial = partial


class Source:
    """Draws of a generator and their ratios, checked and counted.

    The generator's randomness and the method's own come from two streams, so that a draw is the same whatever method
    looks at it.

    Attributes:
        coins: the method's random numbers.
        remaining: how many samples are still wanted; `sample` counts it down.
        batch_size: most samples that go through a network at once.
        draws: generator evaluations so far; ratio_calls, gradient_calls likewise.
        findings: what the method reports of itself.
    """

    def __init__(
        self, generator: Generator, ratio: Callable[[Any], Any], *, n: int, seed: int, batch_size: int
    ) -> None:
        self.generator, self.ratio, self.remaining, self.batch_size = generator, ratio, n, batch_size
        self.rng, self.coins = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
        self.draws = self.ratio_calls = self.gradient_calls = 0
        self.findings: dict[str, Any] = {}
        self._end: SamplingError | None = None
        self._shape: tuple[int, ...] | None = None

    def draw(self, count: int) -> Any:
        """At most `batch_size` of `count` draws; fewer where the generator stops, which the next call reports."""
        if self._end is not None:
            raise self._end
        count = min(count, self.batch_size)
        try:
            x = self.generator(count, self.rng)
        except StopIteration:
            raise self._stopped() from None
        except Exception as error:
            raise SamplingError(f"`generator` failed after {self.draws:,} draws: {error}") from error
        return self._checked(x, count)

    def latents(self, count: int) -> Any:
        """At most `batch_size` of `count` latent points of a `LatentGenerator`."""
        if not hasattr(self.generator, "latents"):
            raise ValueError(
                "`generator` must be a LatentGenerator for methods that work on latents; wrap its decoder."
            )
        return self.generator.latents(min(count, self.batch_size), self.rng)

    def decode(self, z: Any) -> Any:
        """Samples of latent points, counted as draws; no gradient is kept."""
        with _without_gradient():
            return self._checked(self.generator.decode(z), len(z))  # type: ignore[attr-defined]

    def judge(self, x: Any) -> Array:
        """Log-ratios of draws as float64."""
        try:
            values = log_ratios(self.ratio, x)
        except Exception as error:
            raise SamplingError(
                f"`ratio` failed on draws {self.draws - len(x):,} to {self.draws:,}: {error}"
            ) from error
        self.ratio_calls += len(x)
        return values

    def judged(self, count: int) -> tuple[Any, Array]:
        """At most `batch_size` of `count` draws with their log-ratios."""
        x = self.draw(count)
        return x, self.judge(x)

    def pilot(self, count: int, most_bytes: int = 1 << 30) -> tuple[Any, Array]:
        """`count` draws with their log-ratios, or as many as fit into `most_bytes` or the generator gives."""
        parts = [self.judged(count)]
        if (size := getattr(parts[0][0], "nbytes", 0)) > 0:
            count = max(len(parts[0][0]), min(count, most_bytes * len(parts[0][0]) // size))
        while (left := count - sum(len(x) for x, _ in parts)) > 0 and self._end is None:
            try:
                parts.append(self.judged(left))
            except SamplingError as error:  # what came before is used; the next draw tells
                self._end = error
        return joined([x for x, _ in parts]), np.concatenate([values for _, values in parts])

    def _checked(self, x: Any, count: int) -> Any:
        """Samples of the same shape as ever, `count` of them at most; fewer mean the generator has stopped."""
        if not hasattr(x, "shape") or len(x.shape) == 0 or len(x) > count:
            got = f"shape {tuple(x.shape)}" if hasattr(x, "shape") else type(x).__name__
            raise SamplingError(
                f"`generator` must return an array or tensor of the {count} samples asked for; got {got}"
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


def sample(
    generator: Generator,
    ratio: Callable[[Any], Any],
    *,
    budget: float,
    n: int,
    method: str | Sampler = "obrs",
    seed: int = 0,
    batch_size: int = 4096,
    progress: Progress | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Refined:
    """n refined samples of a generator, on average K generator evaluations each.

    | method | what happens to the draws | what K buys |
    |---|---|---|
    | "obrs" | kept with `min(1, τ r)`: the best there is at rate 1/K | draws |
    | "drs" | kept with `σ(log r/M − log(1 − r/M) − g)` | draws |
    | "rejection" | kept with `r/M`; costs `M = max r / mean r`, refused where that exceeds K | draws |
    | "metropolis" | the last state of an independence chain of K draws | draws |
    | "dot" | latents moved K − 1 steps down a transport energy | gradient steps |
    | "dgflow" | latents moved K − 1 steps along a gradient flow | gradient steps |
    | "hard_truncation" | latents from the central region of mass 1/K | nothing more: one draw each |
    | "soft_truncation" | latents shrunk by `K^(−1/dim)` | one draw each |
    | "none" | all kept | one draw each |

    Rejection methods solve their threshold on a pilot, the first 10,000 draws (or K n, if fewer), and keep it; the
    pilot's draws are used like all others. Same seed, same samples. They do not depend on `batch_size` where the
    generator draws sample by sample from its rng, as `LatentGenerator` does (up to the rounding of its network).

    Args:
        generator: `generator(n, rng)` returns n samples, array or tensor, any shape behind the first axis; rng is a
            NumPy generator. A `LatentGenerator` for the methods on latents.
        ratio: log-ratios `log p/q` of samples: a `Ratio`, or any such callable.
        budget: K ≥ 1. A whole number for "dot" and "dgflow".
        n: how many samples.
        method: a name above, or a sampler object with settings of its own, such as `Metropolis(start=…)`.
        seed: seeds the draws and the coins.
        batch_size: most samples in one call of the generator.
        progress: called with ("samples", kept, n).
        out: a .npy file for the samples, written as they come; until it is complete it is named `….partial.npy` and
            holds what there is. Without it samples stay in memory.

    Returns:
        The samples and their cost.

    Raises:
        SamplingError: where the generator stops, fails or changes shape, the ratio is NaN or constant, or the budget
            cannot be met. What was kept until then is in its `partial`, and in the file if there is one.

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
    store: Store = InMemory() if out is None else GrowingFile(Path(out))
    start, given = time.perf_counter(), 0

    def refined(complete: bool) -> Refined:
        samples, path = store.close(complete)
        return Refined(
            samples=np.empty(0) if samples is None else samples,
            draws=source.draws,
            ratio_calls=source.ratio_calls,
            gradient_calls=source.gradient_calls,
            seconds=time.perf_counter() - start,
            acceptance_rate=given / max(1, source.draws),
            method=method if isinstance(method, str) else type(method).__name__.lower(),
            budget=K,
            seed=seed,
            settings={**_settings(sampler), **source.findings},
            path=path,
            complete=complete,
        )

    try:
        for batch in sampler.batches(source, K):
            given += len(batch)
            store.append(batch[: source.remaining])
            source.remaining -= min(len(batch), source.remaining)
            if progress is not None:
                progress("samples", n - source.remaining, n)
            if source.remaining == 0:
                break
    except SamplingError as error:
        partial = refined(complete=False)
        where = "`.partial`" if partial.path is None else str(partial.path)
        message = f"{error}; {n - source.remaining:,} of {n:,} samples are in {where}."
        raise SamplingError(message, partial) from error.__cause__
    except BaseException:
        store.close(complete=False)
        raise
    return refined(complete=True)


def _sampler(method: str | Sampler) -> Sampler:
    if not isinstance(method, str):
        return method
    module, _, name = METHODS[checks.choice("method", method, METHODS)].rpartition(".")
    sampler: Sampler = getattr(import_module(module), name)()
    return sampler


def _settings(sampler: Sampler) -> dict[str, Any]:
    """The sampler's own settings, arrays left out."""
    settings: dict[str, Any] = asdict(sampler) if is_dataclass(sampler) and not isinstance(sampler, type) else {}
    return {name: value for name, value in settings.items() if not hasattr(value, "shape")}


def joined(parts: list[Any]) -> Any:
    """Batches in one, of their own kind."""
    return sys.modules["torch"].cat(parts) if is_tensor(parts[0]) else np.concatenate(parts)


def taken(x: Any, rows: Any) -> Any:
    """The rows of `x` that a NumPy mask or index names."""
    return x[sys.modules["torch"].as_tensor(rows, device=x.device)] if is_tensor(x) else np.asarray(x)[rows]


def _without_gradient() -> AbstractContextManager[Any]:
    context: AbstractContextManager[Any] = sys.modules["torch"].no_grad() if "torch" in sys.modules else nullcontext()
    return context


class Store(Protocol):
    """Where samples go."""

    def append(self, batch: Any) -> None: ...

    def close(self, complete: bool) -> tuple[Any, Path | None]: ...


class InMemory:
    """Samples in a list, one array or tensor in the end."""

    def __init__(self) -> None:
        self.parts: list[Any] = []

    def append(self, batch: Any) -> None:
        """Keep a batch."""
        self.parts.append(batch)

    def close(self, complete: bool) -> tuple[Any, None]:
        """All samples."""
        return (joined(self.parts) if self.parts else None), None


class GrowingFile:
    """A .npy file that grows: after every batch its header states the rows it holds, so it can be read at any time."""

    def __init__(self, path: Path) -> None:
        if path.suffix != ".npy":
            raise ValueError(f"`out` must be a path that ends in .npy; got {path.name!r}.")
        self.path, self.partial = path, path.with_suffix(".partial.npy")
        self.rows = 0
        self.file: Any = None

    def append(self, batch: Any) -> None:
        """Write a batch and the number of rows."""
        array = np.ascontiguousarray(batch.detach().cpu().numpy() if is_tensor(batch) else batch)
        if self.file is None:
            self.file = self.partial.open("wb")
            self._header(array)
        self.file.write(array.tobytes())
        self.rows += len(array)
        self.file.seek(0)
        self._header(array)
        self.file.seek(0, os.SEEK_END)
        self.file.flush()

    def _header(self, array: npt.NDArray[Any]) -> None:
        # NumPy pads headers for the first axis to grow in place
        described = np.lib.format.header_data_from_array_1_0(array)
        np.lib.format.write_array_header_1_0(self.file, {**described, "shape": (self.rows, *array.shape[1:])})

    def close(self, complete: bool) -> tuple[Any, Path | None]:
        """The samples, memory-mapped, and their file: under its own name if it is complete."""
        if self.file is None:
            return None, None
        self.file.close()
        if complete:
            self.partial.replace(self.path)
        path = self.path if complete else self.partial
        return np.load(path, mmap_mode="r"), path
