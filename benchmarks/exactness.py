"""Whether the k-NN sweep equals float64 brute force on inputs that are hard for reduced precision, on any device.

    python -m benchmarks.exactness [--smoke] [--device cuda] [--out results.json]

Each case compares radii, counts in both directions, nearest neighbours and realism with all pairs in float64, entry by
entry, for k = 3 and 5: "same" means equal to the last bit. `listed` is the number of pairs per sample that were listed
in the three steps of the sweep on a GPU; None if the list was too long, so that tiles were read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from benchmarks.common import machine, parser, print_table, save
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.neighbors.sweep import sweep
from precall.metrics.tiles.listing import Listing

K = (3, 5)
Case = tuple[Tensor, Tensor]


def cases(n: int, d: int, device: torch.device) -> Iterator[tuple[str, Case]]:
    """Pairs of real and fake samples by name."""
    generator = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    def integers(most: int, *shape: int) -> Tensor:
        return torch.randint(0, most, shape, generator=generator, device=device)

    mixing = normal(d, d) * torch.logspace(0, -2, d, device=device)[:, None]
    x, y = (torch.relu(normal(n, d) @ mixing * scale + 0.1 * normal(n, d)) for scale in (0.1, 0.095))
    far = 1000.0 * integers(2, n, 1)
    outlier = x.clone()
    outlier[0] *= 1e6
    yield "plain", (x, y)
    yield "float64", (x.double() + 1e-9 * normal(n, d), y.double() + 1e-9 * normal(n, d))
    yield "float32 and float64", (x, y.double())
    yield "sorted", (x[x[:, 0].argsort()], y[y[:, 0].argsort()])
    yield "duplicates", (x[integers(n // 9, n)], torch.cat([x[: n // 4], y[: n // 2], y[:1].expand(n // 4, d)]))
    yield "ties", (integers(3, n, d).float(), integers(3, n, d).float())
    yield "few values", (integers(2, n, 8).float(), integers(2, n, 8).float())
    yield "times 1e15", (1e15 * x, 1e15 * y)
    yield "times 1e-15", (1e-15 * x, 1e-15 * y)
    yield "offset 1e6", (x + 1e6, y + 1e6)
    yield "offset 1e6, float64", (x.double() + 1e6, y.double() + 1e6)
    yield "an outlier", (outlier, y)
    yield "outliers of all sizes", (x * 10.0 ** integers(9, n, 1), y * 10.0 ** integers(9, n, 1))
    yield "far clusters", (x + far, y + far)
    yield "low rank", (normal(n, 2) @ normal(2, d), normal(n, 2) @ normal(2, d))
    yield "inside every ball", (x, x.mean(0) + 0.1 * (y - y.mean(0)))
    yield "collapsed", (x, x[:3][integers(3, n)] + 1e-3 * y)
    yield "collapsed to a point", (x, y[:1] + 1e-7 * normal(n, d))
    yield "constant", (torch.ones_like(x), torch.ones_like(y))
    yield "odd dimension", (x[:, : d - 3].contiguous(), y[:, : d - 3].contiguous())
    yield "one column", (x[:, :1].contiguous(), y[:, :1].contiguous())


def squared(x: Tensor, y: Tensor) -> Tensor:
    """All squared distances in float64, each summed by adding halves (see `precall.metrics.tiles.distances`)."""
    found = torch.empty(len(x), len(y), dtype=torch.float64, device=x.device)
    rows = max(1, (1 << 27) // y.numel())
    for start in range(0, len(x), rows):
        terms = (x[start : start + rows].double()[:, None] - y.double()).square_()
        left = terms.shape[2]
        while left > 1:
            half = (left + 1) // 2
            terms[..., : left - half] += terms[..., half:left]
            left = half
        found[start : start + rows] = terms[..., 0]
    return found


def brute_force(real: Tensor, fake: Tensor) -> dict[str, Tensor]:
    """What the sweep must find, from all pairs in float64."""
    within_real, within_fake, between = squared(real, real), squared(fake, fake), squared(real, fake)
    for own in (within_real, within_fake):
        own.fill_diagonal_(torch.inf)
    orders = [matrix.sort(dim=1, stable=True) for matrix in (within_real, between, between.T, within_fake)]
    radii_real, radii_fake = (order.values[:, [k - 1 for k in K]] for order in (orders[0], orders[3]))
    in_real, in_fake = between[..., None] <= radii_real[:, None], between[..., None] <= radii_fake
    found = {
        "radii_real": root(radii_real),
        "radii_fake": root(radii_fake),
        "fakes_in_ball": in_real.sum(1),
        "balls_over_fake": in_real.sum(0),
        "reals_in_ball": in_fake.sum(0),
        "balls_over_real": in_fake.sum(1),
        "realisms": torch.stack([realism(between, column) for column in radii_real.T], 1),
    }
    for name, order in zip(("real_to_real", "real_to_fake", "fake_to_real", "fake_to_fake"), orders, strict=True):
        found |= {name: order.indices, f"{name} distance": root(order.values)}
    return found


def realism(between: Tensor, radii: Tensor) -> Tensor:
    """Largest rad/d of each fake over the balls with at most the median radius; NumPy's median, as in the sweep."""
    lengths = root(radii)
    kept = lengths <= float(np.median(lengths.cpu().numpy()))
    radii, between = radii[kept, None], between[kept]
    nearest = torch.where((radii == 0) & (between == 0), 1.0, between / radii).amin(0)
    return root(nearest).reciprocal()


def root(squared: Tensor) -> Tensor:
    """The nearest float64 to each root. On x86-64 the last bit of torch may be too small."""
    return torch.from_numpy(np.sqrt(squared.cpu().numpy())).to(squared.device)


def different(found: Neighborhoods, expected: dict[str, Tensor]) -> list[str]:
    """Names of the arrays that are not equal to the last bit."""
    wrong = []
    for name, value in expected.items():
        part, _, of = name.partition(" ")
        mine = getattr(found, part)
        if hasattr(mine, "index"):
            mine = mine.distance if of else mine.index
        value = value[:, : mine.shape[1]].cpu()
        if not torch.equal(torch.as_tensor(mine), value.to(torch.as_tensor(mine).dtype)):
            wrong.append(name)
    return wrong


@contextmanager
def watched(listed: list[float | None]) -> Iterator[None]:
    """Note how many pairs per sample are listed."""
    original: Callable[..., object] = Listing.pairs

    def pairs(self: Listing, *arguments: object, **named: object) -> object:
        found = original(self, *arguments, **named)
        listed.append(None if found is None else round(len(found.i) / self.left.n, 1))  # type: ignore[attr-defined]
        return found

    with patch.object(Listing, "pairs", pairs):
        yield


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="tiny sizes, a few seconds")
    made.add_argument("--device", default="cpu", help="device of torch")
    options = made.parse_args(arguments)
    device, rows = torch.device(options.device), []
    for n, d in [(150, 20)] if options.smoke else [(3000, 64), (1500, 768)]:
        for name, (real, fake) in cases(n, d, device):
            listed: list[float | None] = []
            start = time.perf_counter()
            with watched(listed):
                found = sweep(real=real, fake=fake, k=K)
            seconds = time.perf_counter() - start
            wrong = different(found, brute_force(real, fake))
            rows.append({"case": name, "n": n, "d": d, "same": not wrong, "seconds": seconds, "listed": listed})
            if wrong:
                print(f"{name}, {n} × {d}: {', '.join(wrong)}")
    print_table("equal to float64 brute force", rows)
    save({"machine": machine(device), "cases": rows}, options.out)


if __name__ == "__main__":
    main()
