"""The training loop: one generator, one discriminator, one objective, on any number of devices (Lightning Fabric).

Batches, latents and schedules follow from the seed and the step, and a checkpoint holds the rest. On the CPU, a run in
one process that was killed and resumed ends with the same bits as an uninterrupted one. Several processes draw the same
batches and latents together as one process alone, and may be resumed in another number.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from precall.devices import check_fork
from precall.networks import evaluating
from precall.progress import Progress
from precall.theory import checks
from precall.theory.arrays import to_numpy
from precall.tune import checkpoints, log, objective_state, processes
from precall.tune.batches import Batches, as_float
from precall.tune.critics import critics_of, gradient_penalty
from precall.tune.custom_networks import check_generator
from precall.tune.routes import Adversarial, route
from precall.tune.schedules import final_objective, objective_at
from precall.tune.settings import Settings as Settings, whole
from precall.tune.standardization import Standardization
from precall.tune.watch import TrainingStopped, Watch, neighbor_scores

if TYPE_CHECKING:
    from lightning.fabric import Fabric

NETWORKS = ("generator", "discriminator", "average")
SAMPLING = (1,)  # key of the random stream of `Trainer.sample`


class Trainer:
    """Train a generator against a discriminator with a given objective.

    Args:
        generator: `forward(z, labels) -> samples`, with `latent_shape` (standard normal latents) and `classes`.
        discriminator: `forward(samples, labels) -> logits` of shape (n,), or several as `precall.tune.Critics`.
            Parameters of either network with `requires_grad=False` are not trained.
        objective: one of `precall.tune.objectives`, or a `Scheduled` one.
        data: samples, shape (n, …): an array, a tensor (uint8 means images) or a torch Dataset.
        labels: one class per sample, for conditional networks.
        held_out: samples against which the generator is assessed during training.
        features: maps samples to the features used for the assessment; flattened samples if None.
        standard: standardisation of a table, shape (n, d), in whose units the networks are trained. Samples and
            held-out data have the units of the data.
        out: folder for the log, two checkpoints and sample grids; None to write nothing.
        loggers: Lightning loggers (TensorBoard, W&B, …) that receive the same numbers.
        fabric: a Lightning `Fabric`, for devices and strategies; the best single device if None.

    Example:
        >>> from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
        >>> from precall.tune.objectives import PRObjective
        >>> settings = Settings(batch_size=16, log_every=2)
        >>> networks = MLPGenerator(), MLPDiscriminator()
        >>> Trainer(*networks, PRObjective(lam=2.0), torch.randn(64, 2), settings=settings).fit(2).sample(3).shape
        torch.Size([3, 2])
    """

    def __init__(
        self,
        generator: nn.Module,
        discriminator: nn.Module,
        objective: Any,
        data: Any,
        *,
        labels: Any = None,
        held_out: Any = None,
        features: Callable[[Tensor], Any] | None = None,
        settings: Settings | None = None,
        standard: Standardization | None = None,
        out: str | Path | None = None,
        loggers: Sequence[Any] = (),
        fabric: Fabric | None = None,
    ) -> None:
        self.settings = settings = settings or Settings()
        check_generator(generator, settings.truncation)
        self.fabric = fabric or processes.on_device(settings.precision)
        device = self.fabric.device
        self.generator, self.discriminator = generator.to(device), discriminator.to(device)
        self.average = copy.deepcopy(generator).requires_grad_(False).eval()
        self.objective, self.out, self.loggers = objective, None if out is None else Path(out), tuple(loggers)
        objective_state.to_device(objective, device)
        self.features, self.data, self.labels = features, data, labels
        self.classes = int(getattr(generator, "classes", 0))
        held_out = None if held_out is None else torch.as_tensor(held_out)[: settings.assess_n]
        self.held_out = held_out if held_out is None or standard is not None else as_float(held_out)
        self.rng = torch.Generator(device).manual_seed(settings.seed * 1009)
        self.trained = {"generator": trainable(generator), "discriminator": trainable(discriminator)}
        rates = {"generator": settings.generator_lr, "discriminator": settings.discriminator_lr}
        fused = device.type == "cuda"
        self.optimizers = {
            name: torch.optim.Adam(self.trained[name], lr=rate, betas=settings.betas, fused=fused)
            for name, rate in rates.items()
        }
        self._standardize(standard)
        self.watch = Watch()
        self.step = self.batch = 0  # numbers of completed generator steps and of batches used
        self._saved: int | None = None  # step of the checkpoint in `out`
        processes.part_ways(self.fabric, seed=self.settings.seed, step=self.step)

    def fit(self, steps: int, progress: Progress | None = None) -> Trainer:
        """Train until the generator has taken `steps` steps in total, including those before a resumption.

        A checkpoint is written before the first step, every `checkpoint_every` steps and at the end. Ctrl-C and SIGTERM
        finish the current step (with several processes: continue to the next logged one), write a checkpoint and raise
        `KeyboardInterrupt`. `TrainingStopped` says what to change if a loss is not finite or a discriminator collapses.
        """
        total = checks.count("steps", steps)
        check_fork()
        if self.fabric.world_size > 1:
            state = self.fabric.broadcast(self._state())
            if self.fabric.global_rank:
                self._restore("the first process", *state)
        with processes.interrupts_after_a_step() as pressed:
            self._checkpoint()
            while self.step < total and not self._interrupted(pressed()):
                self.set_learning_rates(total)
                row = self.one_step(objective_at(self.objective, self.step))
                self.step += 1
                self._after(row, total, progress)
            self._checkpoint()
            if self._interrupted(pressed()):
                raise KeyboardInterrupt
        return self

    def _interrupted(self, pressed: bool) -> bool:
        """Whether to stop. Several processes exchange this only at logged steps, since it requires synchronisation."""
        now = self.fabric.world_size == 1 or self.step % self.settings.log_every == 0
        return now and processes.any_of(self.fabric, pressed)

    def one_step(self, objective: Any) -> dict[str, Tensor]:
        """Take one step of the generator, with its discriminator steps; returns both losses and the logits."""
        for _ in range(self.settings.discriminator_steps):
            judged = self.optimizer_step("discriminator", lambda: self.discriminator_loss(objective))
        made = self.optimizer_step("generator", lambda: self.generator_loss(objective))
        if self.step == 0:
            # layers that initialise on their first batch have seen different batches
            processes.share(self.fabric, self.generator, self.discriminator)
        # the weight of the generator in the moving average is larger during the first steps
        move_average(self.average, self.generator, 1 - min(self.settings.ema, (1 + self.step) / (10 + self.step)))
        if self.step % self.settings.refresh_every == 0 and (parts := objective_state.refreshable(objective)):
            _, labels, z = self.next_batch()
            with torch.no_grad(), self.fabric.autocast():
                assert isinstance(self.route, Adversarial)  # objectives with `refresh` use a discriminator
                [[logits]] = self.route.logits(self.generator(z, labels), labels)
            for part in parts:
                part.refresh(processes.gathered(self.fabric, logits))
        seen = {name: judged[name] for name in ("real_logits", "fake_logits")}
        return {"generator_loss": made["loss"], "discriminator_loss": judged["loss"], **seen}

    def optimizer_step(self, which: str, loss: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """One optimiser step on the mean gradient of `accumulate` batches; returns what `loss` returned last."""
        optimizer, network = self.optimizers[which], getattr(self, which)
        optimizer.zero_grad(set_to_none=True)
        other = self.trained["generator" if which == "discriminator" else "discriminator"]
        with frozen(other):
            for _ in range(self.settings.accumulate):
                seen = loss()
                self.fabric.backward(seen["loss"] / self.settings.accumulate)
        processes.average_gradients(self.fabric, network)
        if self.settings.clip is not None:
            nn.utils.clip_grad_norm_(network.parameters(), self.settings.clip)
        optimizer.step()
        return {name: value.detach() for name, value in seen.items()}

    def discriminator_loss(self, objective: Any) -> dict[str, Tensor]:
        """The loss and the logits of the discriminator on the next batch."""
        real, labels, z = self.next_batch()
        with self.fabric.autocast():
            judged = self.route.discriminator_loss(objective, real, labels, z)
        if self.settings.r1 and self.step % self.settings.r1_every == 0:
            slopes = sum(gradient_penalty(critic, real, labels) for critic in critics_of(self.discriminator))
            judged["loss"] = judged["loss"] + self.settings.r1_every * self.settings.r1 / 2 * slopes
        return judged

    def generator_loss(self, objective: Any) -> dict[str, Tensor]:
        """The loss of the generator on the next batch."""
        real, labels, z = self.next_batch()
        with self.fabric.autocast():
            if self.step < self.settings.warmup:
                return {"loss": self._log_det - self.generator.log_prob(real).mean()}  # type: ignore[operator]
            return {"loss": self.route.generator_loss(objective, real, labels, z)}

    def next_batch(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """The next batch, its labels, and as many latents."""
        real, labels = self.batches.at(self.batch)
        self.batch += 1
        # every process draws for the whole batch, and takes its share
        n, share = self.settings.batch_size, slice(self.fabric.global_rank * len(real), None)
        if self.settings.flip:
            mirrored = torch.rand(n, 1, 1, 1, generator=self.rng, device=real.device)[share][: len(real)] < 0.5
            real = torch.where(mirrored, real.flip(-1), real)
        return real, labels if self.classes else None, self.latents(n, self.rng)[share][: len(real)]

    def latents(self, n: int, rng: torch.Generator) -> Tensor:
        """Draw n latents, with the standard deviation `truncation`."""
        z = torch.randn(n, *self.generator.latent_shape, generator=rng, device=rng.device)  # type: ignore[misc]
        return self.settings.truncation * z

    def set_learning_rates(self, total: int) -> None:
        """Set both learning rates for the current step of a run of `total` steps."""
        left = (total - self.step) / max(1.0, self.settings.cooldown * total)
        for which, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = getattr(self.settings, f"{which}_lr") * min(1.0, left)

    def _after(self, row: dict[str, Tensor], total: int, progress: Progress | None) -> None:
        settings, last = self.settings, self.step == total
        if self.step % settings.log_every == 0 or last:
            # gathered from all processes, so that all of them log, or stop for, the same numbers
            every = {name: processes.gathered(self.fabric, value) for name, value in row.items()}
            self._log(self.watch.read(every, step=self.step))
            if progress is not None:
                progress("train", self.step, total)
        if settings.assess_every and (self.step % settings.assess_every == 0 or last):
            self._assess()
        if settings.checkpoint_every and self.step % settings.checkpoint_every == 0 and not last:
            self._checkpoint()

    def _log(self, numbers: dict[str, float]) -> None:
        for logger in self.loggers:
            logger.log_metrics(numbers, step=self.step)
        if self.out is not None and not self.fabric.global_rank:
            log.append(self.out, self.step, numbers)

    def _assess(self) -> None:
        """Score the moving average against held-out data, and save a picture of its samples."""
        from precall.tune import pictures

        if self.fabric.global_rank:
            return
        fake = self.sample(self.settings.assess_n, seed=self.settings.seed)
        if self.held_out is not None:
            self._log(neighbor_scores(self.held_out, fake, self.features))
        if self.out is not None:
            pictures.save(fake, self.out / f"samples-{self.step:07d}.png")

    @torch.no_grad()
    def sample(self, n: int, *, seed: int = 0, labels: Any = None, average: bool = True) -> Tensor:
        """Draw n samples from the model, by default from its moving average, and return them on the CPU.

        The network is in evaluation mode meanwhile. With a `standard`, samples are float64 and in the units of the
        data. The latents are independent of those of the training, whatever its seed. `labels` holds one class per
        sample; the default is all classes in turn.
        """
        network, rng = self.average if average else self.generator, self.sampling_rng(seed)
        classes = torch.arange(n) % max(1, self.classes) if labels is None else torch.as_tensor(labels)
        parts = []
        with evaluating(network), self.fabric.autocast():
            for start in range(0, n, 500):
                z = self.latents(min(500, n - start), rng)
                which = classes[start : start + 500].to(z.device) if self.classes else None
                parts.append(network(z, which).float().cpu())
        return torch.cat(parts) if self.standard is None else self.standard.invert(torch.cat(parts))

    def sampling_rng(self, seed: int) -> torch.Generator:
        """The random generator of the latents of `sample`, in a stream that no training uses."""
        state = np.random.SeedSequence(whole("seed", seed), spawn_key=SAMPLING).generate_state(2, np.uint32)
        return torch.Generator(self.fabric.device).manual_seed(int(state[0]) << 32 | int(state[1]))

    @torch.no_grad()
    def log_prob(self, x: npt.ArrayLike | Tensor, *, average: bool = True) -> Tensor:
        """Log-densities log q(x) of a flow in the units of the data, on the CPU, shape (n,).

        A sample that differs from the training data in a column that is constant there has density 0.
        """
        network = self.average if average else self.generator
        if not hasattr(network, "log_prob"):
            raise ValueError(f"`generator` must be a flow to have a density; got {type(network).__name__}.")
        rows = to_numpy(x) if self.standard is None else self.standard.apply(to_numpy(x))
        with evaluating(network):
            parts = torch.split(torch.as_tensor(rows, dtype=torch.float32).to(self.fabric.device), 500)
            found = torch.cat([network.log_prob(part).cpu() for part in parts])  # type: ignore[operator]
        found = found - self._log_det
        return found if self.standard is None else found.where(torch.from_numpy(self.standard.agrees(x)), -torch.inf)

    def save(self, path: str | Path) -> None:
        """Write everything that is needed to resume the run into one file."""
        checkpoints.write(path, *self._state())

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {"rng/latents": self.rng.get_state(), "rng/torch": torch.get_rng_state()}
        if torch.cuda.is_available():
            tensors["rng/cuda"] = torch.cuda.get_rng_state(self.fabric.device)
        for name in NETWORKS:
            tensors |= checkpoints.pack(name, getattr(self, name).state_dict())
        for name, optimizer in self.optimizers.items():
            tensors |= checkpoints.pack_optimizer(f"optimizer/{name}", optimizer)
        state = objective_state.state_of(self.objective)
        tensors |= checkpoints.pack("objective", state)
        if self.standard is not None:
            tensors |= checkpoints.pack("standard", self.standard.tensors())
        facts = {
            "step": self.step,
            "batch": self.batch,
            "objective": {name: value for name, value in state.items() if f"objective/{name}" not in tensors},
            "settings": asdict(self.settings),
            "identity": self._identity,
        }
        return tensors, facts

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must have in common with the trainer that resumes from it, besides the settings."""
        return {
            "objective": objective_state.description(self.objective),
            "generator": checkpoints.of_network(self.generator),
            "discriminator": checkpoints.of_network(self.discriminator),
            "data": checkpoints.of_data(self.data, self.labels),
        }

    def load(self, path: str | Path) -> Trainer:
        """Resume from a checkpoint of a trainer with the same networks, objective, data and settings."""
        tensors, facts = checkpoints.read(path)
        checkpoints.check_same(path, facts, {**asdict(self.settings), **self._identity})
        self._restore(path, tensors, facts)
        if self.out is not None and not self.fabric.global_rank:
            log.forget_after(self.out, self.step)
        self._saved = self.step if self.out is not None and Path(path) == self.out / checkpoints.LAST else None
        return self

    def _restore(self, path: str | Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self._load_networks(path, tensors, NETWORKS)
        with checkpoints.named(path):
            for name, optimizer in self.optimizers.items():
                optimizer.load_state_dict(checkpoints.unpack_optimizer(f"optimizer/{name}", tensors, optimizer))
            objective_state.restore(self.objective, facts["objective"] | checkpoints.unpack("objective", tensors))
            self.rng.set_state(tensors["rng/latents"])
            torch.set_rng_state(tensors["rng/torch"])
            if "rng/cuda" in tensors and torch.cuda.is_available():
                torch.cuda.set_rng_state(tensors["rng/cuda"], self.fabric.device)
        self.step, self.batch = facts["step"], facts["batch"]
        processes.part_ways(self.fabric, seed=self.settings.seed, step=self.step)

    def resume(self) -> Trainer:
        """Resume from the last checkpoint in `out`, or from the previous one if the last is damaged.

        Without a checkpoint, because the run was killed before it wrote one, the trainer starts at step 0.
        """
        if self.out is None:
            raise ValueError("`out` must be the folder of a run to resume it; got None. Pass it to the trainer.")
        newest = checkpoints.newest(self.out)
        if newest is None:
            log.forget_after(self.out, 0)
        return self if newest is None else self.load(newest)

    def initialize(self, path: str | Path, names: Sequence[str] = NETWORKS) -> Trainer:
        """Load only the networks of a checkpoint, and the standardisation of their data, to fine-tune them."""
        tensors, facts = checkpoints.read(path)
        trained, ours = facts["settings"].get("truncation", 1.0), self.settings.truncation
        if trained not in (1.0, ours):
            raise ValueError(
                f"`{path}` was trained with latents of standard deviation {trained:g}, this run has {ours:g}. "
                f"Set `truncation` to {trained:g}."
            )
        self._load_networks(path, tensors, names)
        return self

    def _load_networks(self, path: str | Path, tensors: dict[str, Tensor], names: Sequence[str]) -> None:
        for name in names:
            checkpoints.load_network(path, name, getattr(self, name), tensors)
        with checkpoints.named(path):
            standard = Standardization.from_tensors(checkpoints.unpack("standard", tensors))
            if standard is not None or self.standard is not None:
                self._standardize(standard)

    def _standardize(self, standard: Standardization | None) -> None:
        """Train on data that is standardised in this way; None for the data as it is."""
        data = self.data if standard is None else standard.apply(self.data)
        if standard is not None and not standard.agrees(self.data).all():
            raise ValueError(
                "a column of `data` that varies was constant in the data of the checkpoint, whose model cannot vary "
                "it. Start without it, or leave out that column."
            )
        settings, fabric = self.settings, self.fabric
        self.standard, self._log_det = standard, 0.0 if standard is None else standard.log_det
        where: dict[str, Any] = {"device": fabric.device, "rank": fabric.global_rank, "world": fabric.world_size}
        self.batches = Batches(data, size=settings.batch_size, seed=settings.seed, labels=self.labels, **where)
        enough = range(max(1, 2000 // settings.batch_size))  # to estimate location and scale of the data
        some = torch.cat([self.batches.at(number, whole=True)[0] for number in enough])
        final = final_objective(self.objective)
        self.route = route(self.generator, self.discriminator, final, some, settings.noise)

    def _checkpoint(self) -> None:
        if self.out is None or self._saved == self.step:
            return
        for name, value in self.average.state_dict().items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise TrainingStopped(f"the generator's {name} is not finite. The last checkpoint is kept.")
        if not self.fabric.global_rank:
            checkpoints.keep(self.out, *self._state())
        self._saved = self.step


def trainable(network: nn.Module) -> list[nn.Parameter]:
    """The parameters to train, which are those that require a gradient."""
    found = [p for p in network.parameters() if p.requires_grad]
    if not found:
        raise ValueError(
            f"every parameter of the {type(network).__name__} is frozen. Set `requires_grad` for those to train."
        )
    return found


@contextmanager
def frozen(parameters: list[nn.Parameter]) -> Iterator[None]:
    """Do not compute gradients of these parameters inside the context."""
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


@torch.no_grad()
def move_average(average: nn.Module, network: nn.Module, weight: float) -> None:
    """`average ← average + weight · (network − average)`. Integers, such as numbers of batches, are copied."""
    ours, theirs = average.state_dict(), network.state_dict()
    moving = [name for name, value in theirs.items() if value.is_floating_point()]
    torch._foreach_lerp_([ours[name] for name in moving], [theirs[name] for name in moving], weight)
    for name in theirs.keys() - set(moving):
        ours[name].copy_(theirs[name])
