"""What others compute for k-NN precision, recall, density and coverage, in plain torch, and the suite of precall.

`tf32` and `float32` are the usual lines: squared norms less twice a product, `topk` for the radii, comparisons for the
counts. `fidelity` is the arithmetic of torch-fidelity: distances by `torch.cdist` in batches, `kthvalue` for the radii.
`faiss` searches radii in a flat index. Distances are processed in blocks that fit into memory.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from precall.metrics.distances.kernel_distance import kernel_of, kid_score
from precall.metrics.inputs.features import Pair
from precall.metrics.neighbors.scores import Neighborhoods
from precall.metrics.neighbors.successors import clipped_scores, symmetric_scores
from precall.metrics.neighbors.sweep import balls_around, cross_balls
from precall.metrics.pairs.kernels import KernelSums
from precall.metrics.pairs.probabilistic import soft_supports, supports_of

K = (3, 5)
BLOCK = 1 << 29  # distances that are held at once: 2 GiB
CHECKED = 1000  # samples of each side whose radii and counts are compared with float64

Scores = list[tuple[float, float, float, float]]


def rectified(n: int, d: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Correlated features as after a ReLU, and slightly different ones."""
    generator = torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    mixing = normal(d, d) * torch.logspace(0, -2, d, device=device)[:, None]
    real = torch.relu(normal(n, d) @ mixing * 0.1 + 0.1 * normal(n, d))
    return real, torch.relu(normal(n, d) @ mixing * 0.095 + 0.1 * normal(n, d) + 0.01)


def suite(real: Tensor, fake: Tensor) -> object:
    """All that `assess` reads off the sweep: scores with intervals, clipped balls, soft supports, KID."""
    pair, k = Pair.checked(real=real, fake=fake), K[-1]
    kernel = kernel_of(pair)
    balls = [balls_around(side, k=K, kernel=kernel) for side in (pair.real, pair.fake)]
    between, supports = KernelSums(kernel), supports_of(balls[0], balls[1])
    found = cross_balls(balls[0], balls[1], ties="closed", sums=between, supports=supports, with_clipped=True)
    kid = kid_score(kernel, [one.result() for one in (balls[0].sums, balls[1].sums, between) if one is not None])
    soft = soft_supports(balls[0], balls[1], supports=supports)
    return found.scores(k), symmetric_scores(found, k), clipped_scores(found, k), kid, soft


def scores(found: Neighborhoods) -> Scores:
    """Precision, recall, density and coverage for every k."""
    return [(found.precision(k), found.recall(k), found.density(k), found.coverage(k)) for k in K]


def agrees(found: Neighborhoods, real: Tensor, fake: Tensor) -> bool:
    """Whether radii and counts of some samples are those of float64 distances to all samples."""
    radii = torch.as_tensor(found.radii_real, device=real.device), torch.as_tensor(found.radii_fake, device=real.device)
    some = torch.arange(0, len(real), max(1, len(real) // CHECKED), device=real.device)
    own, other = _distances(real[some], real), _distances(real[some], fake)
    own[torch.arange(len(some)), some] = torch.inf
    nearest = own.topk(K[-1], largest=False).values[:, [k - 1 for k in K]]
    inside = (other[..., None] <= radii[0][some, None]).sum(1), (other[..., None] <= radii[1]).sum(1)
    counts = [torch.as_tensor(of[some.cpu()]).to(real.device) for of in (found.fakes_in_ball, found.balls_over_real)]
    same = all(torch.equal(mine, theirs) for mine, theirs in zip(inside, counts, strict=True))
    return same and torch.allclose(nearest, radii[0][some], rtol=1e-12, atol=0)


def _distances(x: Tensor, y: Tensor) -> Tensor:
    parts = (
        torch.cdist(x.double(), part.double(), compute_mode="donot_use_mm_for_euclid_dist") for part in y.split(50_000)
    )
    return torch.cat(list(parts), 1)


def products(real: Tensor, fake: Tensor) -> None:
    """Two products in TF32, the least that a sweep needs: half of two and one whole."""
    with _Precision("high"):
        for side in (real, fake):
            for rows in _blocks(real, side):
                torch.mm(rows, side.T)


def usual(precision: str, real: Tensor, fake: Tensor) -> Scores:
    """The four scores from squared norms and products in float32."""

    def squared(x: Tensor, y: Tensor) -> Tensor:
        return torch.addmm(y.square().sum(1), x, y.T, alpha=-2).add_(x.square().sum(1)[:, None])

    def radii(x: Tensor) -> Tensor:
        found = (squared(rows, x).topk(K[-1] + 1, largest=False).values for rows in _blocks(x, x))
        return torch.cat([one[:, list(K)] for one in found])

    with _Precision(precision):
        return _counted(real, fake, squared, radii(real), radii(fake))


def fidelity(real: Tensor, fake: Tensor) -> Scores:
    """The same with distances by `torch.cdist` and `kthvalue`."""

    def radii(x: Tensor) -> Tensor:
        parts = (torch.cdist(rows, x) for rows in x.split(10_000))
        return torch.cat([torch.stack([one.kthvalue(k + 1, dim=1).values for k in K], 1) for one in parts])

    with _Precision("highest"):
        return _counted(real, fake, torch.cdist, radii(real), radii(fake))


def faiss_flat(real: Tensor, fake: Tensor) -> Scores:
    """The same with radii from a flat index of faiss, on the CPU."""
    import faiss

    def radii(x: Tensor) -> Tensor:
        index = faiss.IndexFlatL2(x.shape[1])
        index.add(x.cpu().numpy())
        return torch.from_numpy(index.search(x.cpu().numpy(), K[-1] + 1)[0][:, list(K)]).sqrt().to(x.device)

    return _counted(real, fake, torch.cdist, radii(real), radii(fake))


def _counted(
    real: Tensor, fake: Tensor, distances: Callable[[Tensor, Tensor], Tensor], of_real: Tensor, of_fake: Tensor
) -> Scores:
    """The four scores from radii, with distances in blocks."""
    balls = torch.zeros(len(fake), len(K), dtype=torch.int64, device=real.device)
    covered, members, start = [], [], 0
    for rows in _blocks(real, fake):
        d, own = distances(rows, fake), of_real[start : start + len(rows)]
        inside = [d <= own[:, column, None] for column in range(len(K))]
        balls += torch.stack([one.sum(0) for one in inside], 1)
        covered.append(torch.stack([one.any(1) for one in inside], 1))
        members.append(torch.stack([(d <= of_fake[:, column]).any(1) for column in range(len(K))], 1))
        start += len(rows)
    shares = (balls > 0).double().mean(0), torch.cat(members).double().mean(0), torch.cat(covered).double().mean(0)
    density = balls.sum(0).double() / torch.tensor(K, device=real.device) / len(fake)
    return list(zip(*(one.tolist() for one in (shares[0], shares[1], density, shares[2])), strict=True))


def _blocks(x: Tensor, y: Tensor) -> Iterator[Tensor]:
    yield from x.split(max(1, BLOCK // len(y)))


class _Precision:
    """Precision of float32 products inside the block."""

    def __init__(self, name: str) -> None:
        self.name, self.before = name, torch.get_float32_matmul_precision()

    def __enter__(self) -> None:
        torch.set_float32_matmul_precision(self.name)

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision(self.before)


def peak_bytes(device: torch.device) -> int:
    """Peak memory on a GPU since the last call; 0 elsewhere. The next peak starts at what is in use."""
    if device.type != "cuda":
        return 0
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return peak


OTHERS: dict[str, Callable[[Tensor, Tensor], Scores]] = {
    "tf32": lambda real, fake: usual("high", real, fake),
    "float32": lambda real, fake: usual("highest", real, fake),
    "fidelity": fidelity,
    **({"faiss": faiss_flat} if importlib.util.find_spec("faiss") else {}),
}
