"""A small class-conditional EDM on images (Karras et al., 2022): its training, and a sampler with knobs.

The last class of the network stands for "no class"; training replaces one label in ten by it. On a GPU the network is
compiled and runs in bfloat16, and each training step and each call of the denoiser is one CUDA graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from experiments.common.denoisers import edm_loss
from experiments.common.diffusion import SIGMA_MAX, heun_step, noise_levels
from experiments.common.unet import UNetDenoiser

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Weights = dict[str, Tensor]

DROP = 0.1  # share of labels replaced by "no class"
CHURNED = (0.05, 50.0)  # noise levels at which churn adds noise


def bfloat16(device: torch.device, *, cache: bool = True) -> AbstractContextManager[object]:
    """Autocast to bfloat16 on a GPU; no-op elsewhere."""
    if device.type != "cuda":
        return nullcontext()
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=cache)


def layout(device: torch.device) -> torch.memory_format:
    """The faster memory layout of images: channels last on a GPU only."""
    return torch.channels_last if device.type == "cuda" else torch.contiguous_format


def compile_network(net: UNetDenoiser) -> None:
    """Compile the network inside a denoiser, on a GPU only."""
    if next(net.parameters()).is_cuda:
        net.network = torch.compile(net.network)  # type: ignore[method-assign]


def captured(body: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Record a function as a CUDA graph, after a few calls that compile it; elsewhere return the function."""
    if device.type != "cuda":
        return body
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph.replay


# ------------------------------------------------------------------------------------------------------------ training


class Training:
    """Training steps of one denoiser, with a running average of its weights.

    The images are a pool of bytes; a batch is drawn from a table of rows of that pool. A row that occurs often in the
    table has a larger weight. Buffers keep their place, so that one recorded step serves several trainings.

    Args:
        net: the denoiser; its last class stands for "no class".
        pool: number of images that the pool can hold.
        table: number of rows in the table.
        batch: batch size.
    """

    def __init__(self, net: UNetDenoiser, *, pool: int, table: int, batch: int) -> None:
        self.device = next(net.parameters()).device
        self.net, self.average, self.batch = net.train(), deepcopy(net).eval(), batch
        self.images = torch.zeros(pool, *net.shape, dtype=torch.uint8, device=self.device)
        self.labels = torch.zeros(pool, dtype=torch.int64, device=self.device)
        self.rows = torch.zeros(table, dtype=torch.int64, device=self.device)
        self.rate, self.keep, self.total = (torch.zeros((), device=self.device) for _ in range(3))
        fast = self.device.type == "cuda"
        self.adam = torch.optim.Adam(net.parameters(), self.rate, (0.9, 0.99), fused=fast or None, capturable=fast)
        self.steps = 0
        compile_network(net)
        self._run = captured(self._step, self.device)  # the learning rate is still 0

    def _batch(self) -> tuple[Tensor, Tensor]:
        """Images within ±1, half of them flipped, and their labels, some of them dropped."""
        rows = self.rows[torch.randint(len(self.rows), (self.batch,), device=self.device)]
        x = (self.images[rows].float() / 127.5 - 1).contiguous(memory_format=layout(self.device))
        flip, drop = torch.rand(2, self.batch, device=self.device)
        x = torch.where((flip < 0.5)[:, None, None, None], x.flip(3), x)
        return x, torch.where(drop < DROP, self.net.classes - 1, self.labels[rows])

    def _step(self) -> None:
        x, y = self._batch()
        self.adam.zero_grad(set_to_none=True)
        with bfloat16(self.device):
            loss = edm_loss(self.net, x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, foreach=True)
        self.adam.step()
        with torch.no_grad():
            self.total += loss
            for mean, now in zip(self.average.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(now, 1 - self.keep)

    def put(self, images: Images, labels: Labels, *, at: int = 0) -> None:
        """Copy images and labels into the pool, from row `at` on."""
        self.images[at : at + len(images)] = torch.as_tensor(images).to(self.device)
        self.labels[at : at + len(images)] = torch.as_tensor(labels).to(self.device)

    @torch.no_grad()
    def start(self, rows: npt.NDArray[np.int64], weights: Weights | None = None) -> None:
        """Start a training on these rows, repeated to fill the table, from these weights or the present ones."""
        self.rows.copy_(torch.as_tensor(np.resize(rows, len(self.rows))))
        self.net.load_state_dict(self.net.state_dict() if weights is None else weights)
        self.average.load_state_dict(self.net.state_dict())
        for value in (value for state in self.adam.state.values() for value in state.values()):
            value.zero_()
        self.total.zero_()
        self.steps = 0

    def step(self, rate: float, keep: float) -> None:
        """Take one step at this learning rate; the average keeps this share of itself."""
        self.rate.fill_(rate)
        self.keep.fill_(keep)
        self._run()
        self.steps += 1

    def weights(self) -> Weights:
        """A copy of the averaged weights."""
        return {name: value.detach().cpu().clone() for name, value in self.average.state_dict().items()}


def learning_rate(done: float, peak: float, warm: float) -> float:
    """The rate rises linearly for the share `warm` of a training, and falls to 0 as a cosine."""
    return peak * min(done / warm, 1.0) * (1 + math.cos(math.pi * min(done, 1.0))) / 2


def train(run: Training, *, seconds: float, steps: int | None = None, peak: float = 1e-3) -> tuple[Weights, Weights]:
    """Train for a number of steps or seconds, whichever ends first; return the averages after an eighth and at the end.

    The earlier average is the guide of autoguidance.
    """
    began, weak = perf_counter(), None
    while (done := max(run.steps / (steps or math.inf), (perf_counter() - began) / seconds)) < 1:
        run.step(learning_rate(done, peak, 0.02), min(0.9998, (1 + run.steps) / (20 + run.steps)))
        if run.steps % 50 == 0:
            mean = float(run.total) / run.steps  # waits for the device, so that the clock is right
            if run.steps % 1000 == 0:
                print(f"{run.steps} steps, {perf_counter() - began:.0f} s, mean loss {mean:.4f}", flush=True)
        if weak is None and done > 1 / 8:
            weak = run.weights()
    return weak or run.weights(), run.weights()


def fine_tune(run: Training, *, steps: int, peak: float = 2e-4) -> Weights:
    """Train for a few steps at a lower rate and return the average."""
    for step in range(steps):
        run.step(learning_rate(step / steps, peak, 0.05), min(0.999, (1 + step) / (10 + step)))
    return run.weights()


# ------------------------------------------------------------------------------------------------------------ sampling


@dataclass(frozen=True)
class Knobs:
    """What can be changed while sampling; the defaults change nothing.

    Attributes:
        auto: weight of autoguidance (Karras et al., 2024): D + (auto − 1)(D − G), where G is a weaker model.
        free: weight of classifier-free guidance (Ho and Salimans, 2022): D + (free − 1)(D − D without a class).
        low: lowest noise level at which guidance acts (Kynkäänniemi et al., 2024).
        high: highest noise level at which guidance acts.
        start: factor of the initial noise.
        score: factor of the score.
        churn: EDM's S_churn.
        noise: EDM's S_noise.
    """

    auto: float = 1.0
    free: float = 1.0
    low: float = 0.0
    high: float = 1000.0
    start: float = 1.0
    score: float = 1.0
    churn: float = 0.0
    noise: float = 1.0


class Denoise:
    """D(x; σ) of one network for batches of one size.

    Args:
        net: the denoiser. Its weights are replaced by `load`.
        batch: batch size.
    """

    def __init__(self, net: UNetDenoiser, batch: int) -> None:
        self.net, self.device = net.eval().requires_grad_(False), next(net.parameters()).device
        zeros = torch.zeros(batch, *net.shape, device=self.device)
        self.x, self.out = zeros.clone(memory_format=layout(self.device)), zeros
        self.sigma = torch.ones(batch, device=self.device)
        self.y = torch.zeros(batch, dtype=torch.int64, device=self.device)
        compile_network(net)
        self._run = captured(self._call, self.device)

    @torch.no_grad()
    def _call(self) -> None:
        # autocast must not cache casts of the weights, because `load` replaces them
        with bfloat16(self.device, cache=False):
            self.out.copy_(self.net(self.x, self.sigma, self.y))

    def load(self, weights: Weights) -> None:
        self.net.load_state_dict(weights)

    def __call__(self, x: Tensor, sigma: float, y: Tensor) -> Tensor:
        self.x.copy_(x)
        self.sigma.fill_(sigma)
        self.y.copy_(y)
        self._run()
        return self.out.clone()


def guided(main: Denoise, guide: Denoise, knobs: Knobs, y: Tensor) -> Callable[[Tensor, float], Tensor]:
    """The denoiser of these classes, changed by the knobs."""
    no_class = torch.full_like(y, main.net.classes - 1)

    def denoise(x: Tensor, sigma: float) -> Tensor:
        plain = d = main(x, sigma, y)
        acts = knobs.low <= sigma <= knobs.high
        if acts and knobs.auto != 1:
            d = d + (knobs.auto - 1) * (plain - guide(x, sigma, y))
        if acts and knobs.free != 1:
            d = d + (knobs.free - 1) * (plain - main(x, sigma, no_class))
        return d if knobs.score == 1 else x + knobs.score * (d - x)  # the score is (D − x)/σ²

    return denoise


def normal(like: Tensor, rng: torch.Generator) -> Tensor:
    """Standard normal noise of the shape of a batch."""
    return torch.randn(like.shape, generator=rng, device=like.device)


def churned(x: Tensor, sigma: float, steps: int, knobs: Knobs, rng: torch.Generator) -> tuple[Tensor, float]:
    """Add noise, and return the higher noise level; Karras et al. (2022), Alg. 2, lines 4 to 6."""
    if knobs.churn == 0 or not CHURNED[0] <= sigma <= CHURNED[1]:
        return x, sigma
    above = sigma * (1 + min(knobs.churn / steps, math.sqrt(2) - 1))
    return x + knobs.noise * math.sqrt(above**2 - sigma**2) * normal(x, rng), above


@torch.no_grad()
def draw(
    main: Denoise, guide: Denoise, n: int, knobs: Knobs, *, steps: int = 18, seed: int = 7
) -> tuple[Images, Labels]:
    """Draw n images as bytes, with their labels (all classes equally often), by Heun's method."""
    batch, rng = len(main.x), torch.Generator(main.device).manual_seed(seed)
    labels = torch.arange(-(-n // batch) * batch, device=main.device) % (main.net.classes - 1)
    images = []
    for y in labels.split(batch):
        x = knobs.start * SIGMA_MAX * normal(main.x, rng)
        denoise = guided(main, guide, knobs, y)
        for sigma, below in pairwise(noise_levels(steps).tolist()):
            x, above = churned(x, sigma, steps, knobs, rng)
            x = heun_step(denoise, x, above, below)
        images.append(((x.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).cpu())
    return torch.cat(images)[:n].numpy(), labels[:n].cpu().numpy()
