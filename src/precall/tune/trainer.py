"""The training loop: one generator, one discriminator, one objective, on any number of devices (Lightning Fabric).

    trainer = Trainer(generator, discriminator, PRObjective(lam=5.0), data, settings=Settings(batch_size=128))
    trainer.fit(10_000)

A run is a function of its arguments: batches, latents and schedules follow from the seed and the step, and a checkpoint
holds the rest (both networks, the moving average, both optimisers and the random states). On the CPU, a run that was
killed and resumed ends with the same bits as an uninterrupted one. This holds for a single process. With several, all
but the first resume with latents that differ from those of an uninterrupted run.
"""

from __future__ import annotations

import copy
import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from precall.files import write_atomically
from precall.progress import Progress
from precall.theory import checks
from precall.tune import checkpoints, processes
from precall.tune.batches import Batches, as_float
from precall.tune.objectives import Scheduled
from precall.tune.parameters import adam, frozen, trainable
from precall.tune.routes import Adversarial, Losses, Route, route
from precall.tune.watch import TrainingStopped, Watch

if TYPE_CHECKING:
    from lightning.fabric import Fabric


@dataclass(frozen=True)
class Settings:
    """Hyperparameters of a training run.

    Attributes:
        batch_size: number of real samples (and of draws) per step, over all devices.
        discriminator_steps: steps of the discriminator per step of the generator.
        accumulate: number of batches whose gradients are averaged before each step.
        generator_lr: learning rate of Adam for the generator.
        discriminator_lr: learning rate of Adam for the discriminator.
        betas: β₁ and β₂ of Adam, for both networks.
        cooldown: final share of the run during which both learning rates decrease linearly to zero.
        clip: maximum norm of a gradient; None for no clipping.
        ema: decay of the generator's moving average, from which samples are drawn.
        r1: weight of the gradient penalty `½ E_P|∇D|²`.
        r1_every: steps between two evaluations of the penalty, whose weight is multiplied by this number.
        noise: standard deviation of the normal noise added to the discriminator's input. It helps with data on
            low-dimensional sets: distributions with disjoint supports have no ratio, and then λ has no effect.
        truncation: standard deviation of the latents, at most 1. A model that is fine-tuned with less than 1 starts
            with high precision. A large λ keeps it, a small λ recovers the lost recall.
        warmup: number of first steps in which a flow is trained by likelihood alone.
        flip: whether to mirror the images of a batch at random.
        refresh_every: steps between two updates of τ, for objectives with `refresh`.
        log_every: steps between two rows of the log.
        assess_every: steps between two assessments on held-out data; 0 for none.
        assess_n: number of samples of each kind in an assessment.
        checkpoint_every: steps between two checkpoints; 0 for a single one at the end.
        precision: "32-true" or "bf16-mixed".
        seed: seed of batches and latents.
    """

    batch_size: int = 256
    discriminator_steps: int = 1
    accumulate: int = 1
    generator_lr: float = 2e-4
    discriminator_lr: float = 2e-4
    betas: tuple[float, float] = (0.0, 0.99)
    cooldown: float = 0.0
    clip: float | None = None
    ema: float = 0.999
    r1: float = 0.0
    r1_every: int = 1
    noise: float = 0.0
    truncation: float = 1.0
    warmup: int = 0
    flip: bool = False
    refresh_every: int = 100
    log_every: int = 50
    assess_every: int = 0
    assess_n: int = 1000
    checkpoint_every: int = 1000
    precision: str = "32-true"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "discriminator_steps", "accumulate", "r1_every", "refresh_every", "log_every"):
            checks.count(name, getattr(self, name))
        checks.choice("precision", self.precision, ("32-true", "bf16-mixed"))
        checks.unit("ema", self.ema)
        checks.unit("cooldown", self.cooldown)
        checks.nonnegative("noise", self.noise, infinite=False)
        checks.positive("truncation", checks.unit("truncation", self.truncation))


class Trainer:
    """Train a generator against a discriminator with a given objective.

    Args:
        generator: `forward(z, labels) -> samples`, with `latent_shape` (standard normal latents) and `classes`.
        discriminator: `forward(samples, labels) -> logits` of shape (n,). Parameters of either network with
            `requires_grad=False` are not trained.
        objective: one of `precall.tune.objectives`, or a `Scheduled` one.
        data: samples, shape (n, …): an array, a tensor (uint8 means images) or a torch Dataset.
        labels: one class per sample, for conditional networks.
        held_out: samples against which the generator is assessed during training.
        features: maps samples to the features used for the assessment; flattened samples if None.
        settings: hyperparameters.
        out: folder for `log.csv`, `checkpoint.safetensors` and sample grids; None to write nothing.
        loggers: Lightning loggers (TensorBoard, W&B, …) that receive the same numbers.
        fabric: a Lightning `Fabric`, for devices and strategies; the best single device if None.

    Example:
        >>> from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
        >>> from precall.tune.objectives import PRObjective
        >>> data = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
        >>> settings = Settings(batch_size=16, log_every=2)
        >>> trainer = Trainer(MLPGenerator(), MLPDiscriminator(), PRObjective(lam=2.0), data, settings=settings)
        >>> trainer.fit(2).step
        2
        >>> trainer.sample(3).shape
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
        out: str | Path | None = None,
        loggers: Sequence[Any] = (),
        fabric: Fabric | None = None,
    ) -> None:
        self.settings = settings = settings or Settings()
        self.fabric = fabric or _fabric(settings.precision)
        device, rank, world = self.fabric.device, self.fabric.global_rank, self.fabric.world_size
        self.generator, self.discriminator = generator.to(device), discriminator.to(device)
        processes.share(self.fabric, generator, discriminator)
        self.average = copy.deepcopy(generator).requires_grad_(False).eval()
        self.objective, self.out, self.loggers = objective, None if out is None else Path(out), tuple(loggers)
        self.features = features
        self.batches = Batches(
            data, size=settings.batch_size, seed=settings.seed, labels=labels, device=device, rank=rank, world=world
        )
        self.held_out = None if held_out is None else as_float(torch.as_tensor(held_out)[: settings.assess_n])
        self.rng = torch.Generator(device).manual_seed(settings.seed * 1009)
        self.trained = {"generator": trainable(generator), "discriminator": trainable(discriminator)}
        self.optimizers = {
            "generator": adam(self.trained["generator"], settings.generator_lr, settings.betas),
            "discriminator": adam(self.trained["discriminator"], settings.discriminator_lr, settings.betas),
        }
        if settings.truncation != 1 and hasattr(generator, "log_prob"):
            raise ValueError(
                f"`truncation` must be 1 for a {type(generator).__name__}, whose density is defined for standard "
                f"normal latents; got {settings.truncation:g}."
            )
        self.route: Route = route(generator, discriminator, _final(objective), self._some_data(), settings.noise)
        self.watch = Watch()
        self.step = 0  # number of completed generator steps
        self.batch = 0  # number of batches used
        processes.part_ways(self.fabric, self.rng, seed=self.settings.seed, step=self.step)

    def fit(self, steps: int, progress: Progress | None = None) -> Trainer:
        """Train until the generator has taken `steps` steps in total, including those before a resumption.

        Ctrl-C finishes the current step (with several processes: continues to the next logged one), writes a checkpoint
        and raises `KeyboardInterrupt`.

        Raises:
            TrainingStopped: if a loss is not finite, or if the discriminator has collapsed. The message suggests what
                to change. Earlier checkpoints are kept.
        """
        total = checks.count("steps", steps)
        with processes.interrupts_after_a_step() as pressed:
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
        alone = self.fabric.world_size == 1
        return (alone or self.step % self.settings.log_every == 0) and processes.any_of(self.fabric, pressed)

    # ------------------------------------------------------------------------------------------------ one step

    def one_step(self, objective: Any) -> dict[str, Tensor]:
        """Take one step of the generator, with the discriminator steps that belong to it; `fit` repeats this.

        Returns:
            Both losses, and the discriminator's logits of data and draws.
        """
        for _ in range(self.settings.discriminator_steps):
            judged = self.optimizer_step("discriminator", lambda: self.discriminator_loss(objective))
        made = self.optimizer_step("generator", lambda: self.generator_loss(objective))
        if self.step == 0:
            # layers that initialise on their first batch have seen different batches
            processes.share(self.fabric, self.generator, self.discriminator)
        self._update_average()
        if hasattr(objective, "refresh") and self.step % self.settings.refresh_every == 0:
            objective.refresh(self._fresh_logits())
        logits = {name: judged[name] for name in ("real_logits", "fake_logits")}
        return {"generator_loss": made["loss"], "discriminator_loss": judged["loss"], **logits}

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
            losses: Losses = self.route.discriminator_loss(objective, real, labels, z)
        loss = losses.loss
        if self.settings.r1 and self.step % self.settings.r1_every == 0:
            loss = loss + self.settings.r1_every * self.settings.r1 / 2 * self.gradient_penalty(real, labels)
        return {"loss": loss, "real_logits": losses.real_logits, "fake_logits": losses.fake_logits}

    def generator_loss(self, objective: Any) -> dict[str, Tensor]:
        """The loss of the generator on the next batch."""
        real, labels, z = self.next_batch()
        with self.fabric.autocast():
            if self.step < self.settings.warmup:
                return {"loss": -self.generator.log_prob(real).mean()}  # type: ignore[operator]
            return {"loss": self.route.generator_loss(objective, real, labels, z)}

    def gradient_penalty(self, real: Tensor, labels: Tensor | None) -> Tensor:
        """The gradient penalty `E_P|∇_x D(x)|²`."""
        x = real.detach().requires_grad_(True)
        logits = self.discriminator(x, labels)
        (slope,) = torch.autograd.grad(logits.sum(), x, create_graph=True)
        return slope.flatten(1).square().sum(1).mean()

    def next_batch(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """The next batch, its labels, and as many latents."""
        real, labels = self.batches.at(self.batch)
        self.batch += 1
        if self.settings.flip:
            mirrored = torch.rand(len(real), 1, 1, 1, generator=self.rng, device=real.device) < 0.5
            real = torch.where(mirrored, real.flip(-1), real)
        return real, labels if self._classes else None, self.latents(len(real), self.rng)

    def latents(self, n: int, rng: torch.Generator) -> Tensor:
        """Draw n latents, with the standard deviation `truncation`."""
        z = torch.randn(n, *self.generator.latent_shape, generator=rng, device=rng.device)  # type: ignore[misc]
        return self.settings.truncation * z

    @property
    def _classes(self) -> int:
        return int(getattr(self.generator, "classes", 0))

    @torch.no_grad()
    def _update_average(self) -> None:
        """`average ← ema · average + (1 − ema) · generator`, with a smaller decay during the first steps."""
        decay = min(self.settings.ema, (1 + self.step) / (10 + self.step))
        ours, theirs = self.average.state_dict(), self.generator.state_dict()
        moving = [name for name, value in theirs.items() if value.is_floating_point()]
        torch._foreach_lerp_([ours[name] for name in moving], [theirs[name] for name in moving], 1 - decay)
        for name in theirs.keys() - set(moving):
            ours[name].copy_(theirs[name])

    @torch.no_grad()
    def _fresh_logits(self) -> Tensor:
        _, labels, z = self.next_batch()
        with self.fabric.autocast():
            assert isinstance(self.route, Adversarial)  # objectives with `refresh` use a discriminator
            logits = self.route.logits(self.generator(z, labels), labels)
        return self.fabric.all_gather(logits)  # type: ignore[return-value]

    def set_learning_rates(self, total: int) -> None:
        """Set both learning rates for the current step of a run of `total` steps."""
        left = (total - self.step) / max(1.0, self.settings.cooldown * total)
        for which, optimizer in self.optimizers.items():
            for group in optimizer.param_groups:
                group["lr"] = getattr(self.settings, f"{which}_lr") * min(1.0, left)

    # -------------------------------------------------------------------------------------------- between steps

    def _after(self, row: dict[str, Tensor], total: int, progress: Progress | None) -> None:
        settings, last = self.settings, self.step == total
        if self.step % settings.log_every == 0 or last:
            # gathered from all processes, so that all of them log, or stop for, the same numbers
            self._log(self.watch.read(processes.gathered(self.fabric, row), step=self.step))
            if progress is not None:
                progress("train", self.step, total)
        if settings.assess_every and (self.step % settings.assess_every == 0 or last):
            self._assess()
        if settings.checkpoint_every and self.step % settings.checkpoint_every == 0 and not last:
            self._checkpoint()

    def _log(self, numbers: dict[str, float]) -> None:
        for logger in self.loggers:
            logger.log_metrics(numbers, step=self.step)
        if self.out is None or self.fabric.global_rank:
            return
        path = self.out / "log.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", newline="") as file:
            csv.writer(file).writerows([self.step, name, repr(value)] for name, value in numbers.items())

    def _assess(self) -> None:
        """Score the moving average against held-out data, and save a picture of its samples."""
        from precall.tune import pictures

        fake = self.sample(self.settings.assess_n, seed=self.settings.seed)
        if self.held_out is not None:
            self._log(neighbor_scores(self.held_out, fake, self.features))
        if self.out is not None and not self.fabric.global_rank:
            pictures.save(fake, self.out / f"samples-{self.step:07d}.png")

    @torch.no_grad()
    def sample(self, n: int, *, seed: int = 0, labels: Any = None, average: bool = True) -> Tensor:
        """Draw samples from the model, by default from its moving average, and return them on the CPU.

        Args:
            n: number of samples.
            seed: seed of the latents; it does not affect the random state of the training.
            labels: one class per sample; all classes in turn if None.
            average: whether to draw from the moving average of the weights.
        """
        network = self.average if average else self.generator
        rng = torch.Generator(self.fabric.device).manual_seed(seed)
        classes = torch.arange(n) % max(1, self._classes) if labels is None else torch.as_tensor(labels)
        parts = []
        for start in range(0, n, 500):
            z = self.latents(min(500, n - start), rng)
            which = classes[start : start + 500].to(z.device) if self._classes else None
            with self.fabric.autocast():
                parts.append(network(z, which).float().cpu())
        return torch.cat(parts)

    # ---------------------------------------------------------------------------------------------- checkpoints

    def save(self, path: str | Path) -> None:
        """Write everything that is needed to resume the run into one file."""
        tensors = {"rng/latents": self.rng.get_state(), "rng/torch": torch.get_rng_state()}
        if torch.cuda.is_available():
            tensors["rng/cuda"] = torch.cuda.get_rng_state(self.fabric.device)
        for name in ("generator", "discriminator", "average"):
            tensors |= checkpoints.pack(name, getattr(self, name).state_dict())
        groups = {}
        for name, optimizer in self.optimizers.items():
            moments, groups[name] = checkpoints.pack_optimizer(f"optimizer/{name}", optimizer)
            tensors |= moments
        final = _final(self.objective)
        facts = {
            "step": self.step,
            "batch": self.batch,
            "groups": groups,
            "objective": final.state_dict() if hasattr(final, "state_dict") else {},
            "settings": asdict(self.settings),
        }
        checkpoints.write(path, tensors, facts)

    def load(self, path: str | Path) -> Trainer:
        """Resume from a checkpoint of a trainer with the same networks, data and settings.

        Raises:
            ValueError: if the file is not a checkpoint, or was written for other networks or settings.
        """
        tensors, facts = checkpoints.read(path)
        self._same_settings(path, facts["settings"])
        self.initialize(path, names=("generator", "discriminator", "average"))
        for name, optimizer in self.optimizers.items():
            state = checkpoints.unpack_optimizer(f"optimizer/{name}", tensors, facts["groups"][name])
            optimizer.load_state_dict(state)
        if facts["objective"]:
            _final(self.objective).load_state_dict(facts["objective"])
        self.rng.set_state(tensors["rng/latents"])
        torch.set_rng_state(tensors["rng/torch"])
        if "rng/cuda" in tensors and torch.cuda.is_available():
            torch.cuda.set_rng_state(tensors["rng/cuda"], self.fabric.device)
        self.step, self.batch = facts["step"], facts["batch"]
        processes.part_ways(self.fabric, self.rng, seed=self.settings.seed, step=self.step)
        self._forget_after(self.step)
        return self

    def initialize(self, path: str | Path, names: Sequence[str] = ("generator", "discriminator", "average")) -> Trainer:
        """Load only the networks of a checkpoint, to fine-tune them."""
        tensors, facts = checkpoints.read(path)
        trained, ours = facts["settings"].get("truncation", 1.0), self.settings.truncation
        if trained not in (1.0, ours):
            raise ValueError(
                f"`{path}` was trained with latents of standard deviation {trained:g}, this run has {ours:g}. "
                f"Set `truncation` to {trained:g}."
            )
        for name in names:
            try:
                getattr(self, name).load_state_dict(checkpoints.unpack(name, tensors))
            except RuntimeError as error:
                reason = str(error).splitlines()[-1].strip()
                raise ValueError(f"`{path}` was written for another {name}: {reason}") from None
        return self

    def _checkpoint(self) -> None:
        if self.out is None:
            return
        for name, value in self.average.state_dict().items():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise TrainingStopped(f"the generator's {name} is not finite. The last checkpoint is kept.")
        if not self.fabric.global_rank:
            self.save(self.out / "checkpoint.safetensors")

    def _same_settings(self, path: str | Path, then: dict[str, Any]) -> None:
        now = asdict(self.settings)
        for name, value in now.items():
            if name in then and _plain(then[name]) != _plain(value):
                raise ValueError(
                    f"`{path}` was written with {name} = {then[name]}, this run has {value}. They must be equal to "
                    "resume. To start another run from its networks, use `initialize`."
                )

    def _forget_after(self, step: int) -> None:
        """Remove rows that the interrupted run logged after the checkpoint, since they will be logged again."""
        path = None if self.out is None else self.out / "log.csv"
        if path is None or not path.is_file() or self.fabric.global_rank:
            return
        rows = [row for row in csv.reader(path.read_text().splitlines()) if int(row[0]) <= step]
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)
        write_atomically(path, text.getvalue().encode())

    def _some_data(self) -> Tensor:
        """Enough data to estimate its location and scale."""
        return torch.cat([self.batches.at(number)[0] for number in range(max(1, 2000 // self.settings.batch_size))])


def neighbor_scores(real: Tensor, fake: Tensor, features: Callable[[Tensor], Any] | None) -> dict[str, float]:
    """Precision, recall, density and coverage of samples, in the given features or of the flattened samples."""
    from precall.metrics.neighbors.sweep import sweep

    of = features or (lambda samples: samples.flatten(1).numpy())
    n = min(len(real), len(fake))
    found = sweep(real=of(real[:n]), fake=of(fake[:n]), k=min(5, n - 1))
    return {name: float(getattr(found, name)()) for name in ("precision", "recall", "density", "coverage")}


def _fabric(precision: str) -> Fabric:
    try:
        from lightning.fabric import Fabric
    except ImportError:
        raise ValueError("training requires Lightning. Install it with: pip install 'precall[tune]'.") from None
    return Fabric(accelerator="auto", devices=1, precision=precision)  # type: ignore[arg-type]


def objective_at(objective: Any, step: int) -> Any:
    """The objective at a step, which differs from the final one if it is `Scheduled`."""
    return objective.at(step) if isinstance(objective, Scheduled) else objective


def _final(objective: Any) -> Any:
    return objective.objective if isinstance(objective, Scheduled) else objective


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
