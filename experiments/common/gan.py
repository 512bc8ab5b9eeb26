"""A small class-conditional BigGAN on images: its training with knobs, and draws with truncated latents.

On a GPU the networks run in bfloat16, and each training step (two of the discriminator, one of the generator) is one
CUDA graph. Random numbers are drawn outside the graph, by a generator of each run, so that several runs can share a
process, each on a stream of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from experiments.common.biggan import SharedGenerator
from experiments.common.edm import Images, Labels, Weights, bfloat16, layout
from precall.tune.critics import MapCritic
from precall.tune.models import BigGANDiscriminator, BigGANGenerator
from precall.tune.models.biggan import orthogonal
from precall.tune.models.layers import SpectralEmbedding

SIDE = 32  # smaller images are padded with black
D_STEPS = 2
KEEP = 0.999  # share that the average of the generator keeps at each step, less at the beginning


def padded(images: Images) -> Images:
    """Images of side 32, with black around smaller ones."""
    edge = (SIDE - images.shape[-1]) // 2
    return np.pad(images, ((0, 0), (0, 0), (edge, edge), (edge, edge)))


def cropped(images: Images, side: int) -> Images:
    """The inner square of this side."""
    edge = (images.shape[-1] - side) // 2
    return images[..., edge : edge + side, edge : edge + side]


class Adversaries:
    """Training steps of one conditional GAN, with the non-saturating logistic loss and an average of the generator.

    The images are a pool of bytes; a batch is drawn from a table of rows of that pool. The generator's loss weights
    each draw by softmax(tilt · t) of its logit t, the estimate of log p/q: tilt 0 is the plain loss, a positive one
    stresses draws where the model falls short of the data, a negative one stresses the others.

    Args:
        images: images of side 32 as bytes.
        labels: their classes.
        ch: channel multiplier of both networks.
        batch: batch size.
        table: number of rows in the table.
        seed: seed of the initial weights and of all draws.
        device: where it runs.
        bins: number of bins of each class; if more than 1, `start` needs labels of classes and bins.
        maps: a frozen network; critics on its feature maps are trained beside the one on pixels.
        late: whether the vectors of the bins begin at 0, so that a network without bins can be trained further.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        *,
        ch: int,
        batch: int,
        table: int,
        seed: int,
        device: torch.device,
        bins: int = 1,
        maps: nn.Module | None = None,
        late: bool = False,
    ) -> None:
        torch.manual_seed(seed)
        self.device, self.images, self.labels, self.batch = device, images, labels.clone(), batch
        self.rng = torch.Generator(device).manual_seed(seed)
        self.stream = torch.cuda.Stream() if device.type == "cuda" else None
        classes = int(labels.max()) + 1
        self.net, self.critic = networks(images.shape[1], classes, ch, device, bins=bins, late=late)
        self.heads = None if maps is None else on_maps(maps, images, classes, bins)
        self.critics = nn.ModuleList([self.critic, *([] if self.heads is None else [self.heads])])
        self.average = deepcopy(self.net).requires_grad_(False)
        self.first = {"generator": copied(self.net), "discriminator": copied(self.critic)}
        self.rows = torch.zeros(table, dtype=torch.int64, device=device)
        self.z = torch.zeros(D_STEPS + 1, batch, *self.net.latent_shape, device=device)
        self.uniform = torch.zeros(2 * D_STEPS + 1, batch, device=device)
        self.rate, self.tilt, self.keep = (torch.zeros((), device=device) for _ in range(3))
        fast = device.type == "cuda"
        self.adams = [
            torch.optim.Adam(net.parameters(), self.rate, (0.0, 0.999), fused=fast or None, capturable=fast)
            for net in (self.net, self.critics)
        ]
        self.steps, self.age, self._graph = 0, 0, self._captured()

    def on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def _captured(self) -> torch.cuda.CUDAGraph | None:
        """The step as a graph; the learning rate is still 0."""
        if self.stream is None:
            return None
        torch.cuda.synchronize()
        with self.on_stream():
            for _ in range(4):
                self._step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self._step()
        torch.cuda.synchronize()
        return graph

    def _real(self, i: int) -> tuple[Tensor, Tensor]:
        """Images within ±1 and their classes."""
        rows = self.rows[(self.uniform[i] * len(self.rows)).long().clamp(max=len(self.rows) - 1)]
        x = self.images[rows].float() / 127.5 - 1
        return x.contiguous(memory_format=layout(self.device)), self.labels[rows]

    def _classes(self, i: int) -> Tensor:
        """Classes of draws, uniform."""
        return (self.uniform[i] * self.net.classes).long().clamp(max=self.net.classes - 1)

    def _step(self) -> None:
        of_net, of_critic = self.adams
        for i in range(D_STEPS):
            of_critic.zero_grad(set_to_none=True)
            self._critic_loss(i).backward()  # type: ignore[no-untyped-call]
            of_critic.step()
        of_net.zero_grad(set_to_none=True)
        self.critics.requires_grad_(False)
        self._net_loss().backward()  # type: ignore[no-untyped-call]
        self.critics.requires_grad_(True)
        of_net.step()
        with torch.no_grad():
            for mean, now in zip(self.average.parameters(), self.net.parameters(), strict=True):
                mean.lerp_(now, 1 - self.keep)

    def _critic_loss(self, i: int) -> Tensor:
        x, y = self._real(i)
        classes = self._classes(D_STEPS + i)
        with bfloat16(self.device):
            with torch.no_grad():
                fake = self.net(self.z[i], classes)
            every = self._logits(torch.cat([x.to(fake.dtype), fake]), torch.cat([y, classes]))
        return summed([softplus(torch.cat([-t[: self.batch], t[self.batch :]])).mean() * 2 for t in every])

    def _net_loss(self) -> Tensor:
        classes = self._classes(2 * D_STEPS)
        with bfloat16(self.device):
            t, *rest = self._logits(self.net(self.z[-1], classes), classes)
        weighted = (torch.softmax(self.tilt * t.detach(), 0) * softplus(-t)).sum()
        return summed([weighted, *(softplus(-other).mean() for other in rest)])

    def _logits(self, x: Tensor, labels: Tensor) -> list[Tensor]:
        """Logits of the critic on pixels, then of those on maps."""
        rest = [] if self.heads is None else self.heads.judged(self.heads.seen(x), labels)
        return [t.float() for t in (self.critic(x, labels), *rest)]

    @torch.no_grad()
    def start(
        self,
        rows: npt.NDArray[np.int64],
        weights: dict[str, Weights],
        *,
        tilt: float = 0.0,
        labels: Labels | None = None,
        age: int = 0,
    ) -> None:
        """Start a training.

        Args:
            rows: rows to train on, repeated to fill the table.
            weights: of the averaged generator and of the discriminator; `present` are those of the generator itself,
                if it is not its average.
            tilt: weight of the logits in the generator's loss.
            labels: new labels.
            age: steps of which the average already is one.
        """
        self.rows.copy_(torch.as_tensor(np.resize(rows, len(self.rows))))
        if labels is not None:
            self.labels.copy_(torch.as_tensor(labels))
        self.tilt.fill_(tilt)
        self.net.load_state_dict(weights.get("present", weights["generator"]))
        self.average.load_state_dict(weights["generator"])
        self.critic.load_state_dict(weights["discriminator"])
        for adam in self.adams:
            for value in (value for state in adam.state.values() for value in state.values()):
                value.zero_()
        self.steps, self.age = 0, age
        synchronize(self.device)

    def step(self, rate: float) -> None:
        """Take one step at this learning rate, on the stream of this run."""
        with self.on_stream():
            self.rate.fill_(rate)
            self.keep.fill_(min(KEEP, (1 + self.age + self.steps) / (10 + self.age + self.steps)))
            self.z.normal_(generator=self.rng)
            self.uniform.uniform_(generator=self.rng)
            self._step() if self._graph is None else self._graph.replay()
        self.steps += 1

    def weights(self) -> dict[str, Weights]:
        """Copies of the averaged generator, with the buffers of the present one, and of the discriminator."""
        synchronize(self.device)
        means = {name: value.detach().cpu().clone() for name, value in self.average.named_parameters()}
        average = copied(self.net) | means
        return {"generator": average, "discriminator": copied(self.critic)}


class BinnedEmbedding(nn.Module):
    """A vector of the class plus a vector of the pair of class and bin, for labels bin · classes + class."""

    def __init__(
        self,
        classes: int,
        bins: int,
        embedding: Callable[[int], nn.Embedding],
        pairs: Callable[[int], nn.Embedding] | None = None,
    ) -> None:
        super().__init__()
        self.classes, self.of_class = classes, embedding(classes)
        self.of_pair = (pairs or embedding)(classes * bins)
        orthogonal(self)

    def forward(self, labels: Tensor) -> Tensor:
        out: Tensor = self.of_class(labels % self.classes) + self.of_pair(labels)
        return out


def zero(classes: int, bins: int, d: int) -> BinnedEmbedding:
    """An embedding of class and bin that begins at 0."""
    found = BinnedEmbedding(classes, bins, lambda n: nn.Embedding(n, d))
    for one in found.parameters():
        nn.init.zeros_(one)
    return found


def on_maps(network: nn.Module, images: Tensor, classes: int, bins: int) -> MapCritic:
    """Critics on the maps of a frozen network."""
    made = MapCritic(network, images, classes=classes * bins, embedding=lambda d: zero(classes, bins, d))
    made.to(images.device, memory_format=layout(images.device))  # type: ignore[call-overload]
    return made


def summed(losses: Sequence[Tensor]) -> Tensor:
    """The loss of the critic on pixels, which is the first, plus the mean of those on maps."""
    first, *rest = losses
    return first + torch.stack(rest).mean() if rest else first


def late_bins(weights: Weights, like: nn.Module) -> Weights:
    """Weights of a network without bins, for one with bins whose vectors begin at 0: it computes the same."""
    renamed = {re.sub("^embedding", "embedding.of_class", name): value for name, value in weights.items()}
    pairs = {name: torch.zeros_like(value) for name, value in like.state_dict().items() if "of_pair" in name}
    return renamed | pairs


def networks(
    channels: int, classes: int, ch: int, device: torch.device, *, bins: int = 1, late: bool = False
) -> tuple[SharedGenerator, BigGANDiscriminator]:
    """A generator and a discriminator for images of side 32; with several bins, both see the bin as well.

    With `late`, the discriminator's vectors of the bins are not normalised, so that they can be 0.
    """
    net = SharedGenerator(size=SIDE, ch=ch, classes=classes, channels=channels)
    critic = BigGANDiscriminator(SIDE, ch=ch, classes=classes, channels=channels)
    if bins > 1:
        see_bins(net, bins, nn.Embedding)
        see_bins(critic, bins, SpectralEmbedding, pairs=nn.Embedding if late else None)
    for one in (net.to(device), critic.to(device)):
        one.to(memory_format=layout(device))  # type: ignore[call-overload]
    return net, critic


def see_bins(
    net: SharedGenerator | BigGANDiscriminator,
    bins: int,
    kind: type[nn.Embedding],
    *,
    pairs: type[nn.Embedding] | None = None,
) -> None:
    """Replace the embedding of the class by one of class and bin."""
    assert isinstance(net.embedding, nn.Embedding)
    d, of_pair = net.embedding.embedding_dim, pairs or kind
    net.embedding = BinnedEmbedding(  # type: ignore[assignment]
        net.classes, bins, lambda n: kind(n, d), lambda n: of_pair(n, d)
    )
    net.classes *= bins


def copied(net: nn.Module) -> Weights:
    return {name: value.detach().cpu().clone() for name, value in net.state_dict().items()}


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def rate_at(done: float, peak: float) -> float:
    """The rate is constant for 60 % of a training, then falls linearly to 0."""
    return peak * min(1.0, (1 - min(done, 1.0)) / 0.4)


# ------------------------------------------------------------------------------------------------------------ sampling


def latents(net: BigGANGenerator, labels: Tensor, psi: float, seed: int, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of latents, multiplied by ψ, and of labels."""
    device = next(net.parameters()).device
    rng = torch.Generator(device).manual_seed(seed)
    for y in labels.to(device).split(batch):
        z = psi * torch.randn(batch, *net.latent_shape, generator=rng, device=device)
        yield z[: len(y)], y


def in_turn(net: BigGANGenerator, n: int) -> Tensor:
    """n labels, all equally often."""
    return torch.arange(n) % net.classes


@torch.no_grad()
def standing(net: BigGANGenerator, psi: float, *, batches: int = 50, batch: int = 500) -> None:
    """Estimate the statistics of the batch normalisations from draws with latents multiplied by ψ."""
    net.train()
    with bfloat16(next(net.parameters()).device):
        for z, y in latents(net, in_turn(net, batches * batch), psi, 1, batch):
            net(z, y)
    net.eval()


@torch.no_grad()
def drawn(net: BigGANGenerator, labels: Tensor, *, psi: float = 1.0, seed: int = 7, batch: int = 500) -> Images:
    """Draw one image per label, as bytes."""
    net.eval()
    images = []
    for z, y in latents(net, labels, psi, seed, batch):
        with bfloat16(z.device):
            x = net(z, y).float()
        images.append(((x.clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8).cpu())
    return torch.cat(images).numpy()
