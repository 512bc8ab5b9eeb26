"""Recipes: networks, hyperparameters and number of steps for each data set and family of models.

    made = recipe("digits")
    made.trainer(lam=5.0, out="runs/lam5").fit(made.steps)

Networks and, if the thesis states them, learning rates and batch sizes are those of Verine (2024), App. C, cited below.
All other values are starting points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from precall.theory import checks
from precall.tune.custom_networks import Build, Shape, building, imported
from precall.tune.data import DATASETS, TrainingData, load_data
from precall.tune.models.biggan import BigGANDiscriminator, BigGANGenerator
from precall.tune.models.flows import NICE, RealNVP
from precall.tune.models.glow import Glow
from precall.tune.models.mlp import ConvDiscriminator, ConvGenerator, MLPDiscriminator, MLPGenerator
from precall.tune.models.residual_flow import ResidualFlow
from precall.tune.objectives import FGAN, Area, DensityPR, Hinge, OBRSObjective, PRObjective, Scheduled
from precall.tune.standardization import Standardization
from precall.tune.trainer import Settings, Trainer

if TYPE_CHECKING:
    from lightning.fabric import Fabric

OBJECTIVES = ("pr", "tail", "hinge", "area", "obrs", "gan", "likelihood")
DIALLED = ("pr", "tail", "hinge")  # objectives that depend on λ
RESIDUAL_LIMIT = 256  # coordinates: an exact log-determinant takes one backward pass per coordinate and block


# -------------------------------------------------------------------------------------------------------- networks


def _glow(shape: Shape, classes: int) -> nn.Module:
    """At 32 pixels the model of App. C.1.3: 16 steps on each of 3 scales, which keep all channels. Smaller below 16."""
    if shape[1] < 16:
        return Glow(_image(shape), levels=2, steps=4, hidden=64)
    return Glow(_image(shape), levels=3, steps=16, hidden=512, factor_out=False)


def _residual(shape: Shape, classes: int) -> nn.Module:
    if prod(shape) > RESIDUAL_LIMIT:
        raise ValueError(
            f"`model` residual computes exact log-determinants and supports at most {RESIDUAL_LIMIT} coordinates; "
            f"got {prod(shape)}. Use realnvp or glow."
        )
    return ResidualFlow(shape)


def _biggan(shape: Shape, classes: int) -> nn.Module:
    """The model of App. C.1.4: 4.3 M parameters for CIFAR-10, 32.0 M for CelebA."""
    channels, side = shape[0], _side(shape)
    return BigGANGenerator(side, classes=classes, shared=0, hierarchical=False, attention=0, channels=channels)


def _biggan_critic(shape: Shape, classes: int) -> nn.Module:
    return BigGANDiscriminator(_side(shape), classes=classes, attention=0, channels=shape[0])


def _perceptron(shape: Shape, classes: int) -> nn.Module:
    """256-512-1024 (App. C.2.1, C.2.3). For tiny images the model is too weak for high precision and recall at once."""
    if _tiny(shape):
        return MLPGenerator(shape, latent=16, widths=(128, 128), classes=classes)
    return MLPGenerator(shape, classes=classes)


def _perceptron_critic(shape: Shape, classes: int) -> nn.Module:
    """1024-512-256 (App. C.1.3, C.2.1, C.2.3), or a smaller one for tiny images."""
    return MLPDiscriminator(shape, classes=classes, widths=(256, 256) if _tiny(shape) else (1024, 512, 256))


def _tiny(shape: Shape) -> bool:
    return len(shape) == 3 and prod(shape) <= 256


def _flow_critic(shape: Shape, classes: int) -> nn.Module:
    """The critic of a flow. For points it is smaller and learns log p in fewer steps."""
    if len(shape) == 3:
        return _perceptron_critic(shape, 0)
    return MLPDiscriminator(shape, widths=(128, 128, 128))


@dataclass(frozen=True)
class Family:
    """A family of models: how its networks are built, and its requirements on the data.

    Attributes:
        generator: builds the generator.
        discriminator: builds the discriminator.
        flow: whether its density is known.
        conditional: whether it uses labels.
        multiple: the sides of images are padded to a multiple of this number; 0 for a family that also accepts points.
    """

    generator: Build
    discriminator: Build
    flow: bool = False
    conditional: bool = False
    multiple: int = 0


FAMILIES = {
    "mlp": Family(_perceptron, _perceptron_critic),
    "conv": Family(
        lambda shape, classes: ConvGenerator(_image(shape), classes=classes),
        lambda shape, classes: ConvDiscriminator(_image(shape), classes=classes),
        multiple=4,
    ),
    "nice": Family(lambda shape, classes: NICE(shape), _flow_critic, flow=True),
    "realnvp": Family(lambda shape, classes: RealNVP(shape), _flow_critic, flow=True),
    "residual": Family(_residual, _flow_critic, flow=True),
    "glow": Family(_glow, _flow_critic, flow=True, multiple=8),
    "biggan": Family(_biggan, _biggan_critic, conditional=True, multiple=8),
}
DEFAULT_MODEL = {
    "8-gaussians": "realnvp",
    "25-gaussians": "mlp",
    "digits": "mlp",
    "mnist": "glow",
    "fashion-mnist": "glow",
    "cifar-10": "biggan",
    "celeba-64": "biggan",
}

# -------------------------------------------------------------------------------------------------------- settings

FLOW_OF_POINTS = Settings(
    generator_lr=1e-3, discriminator_lr=1e-3, betas=(0.9, 0.99), cooldown=1 / 3, clip=1.0, ema=0.995
)
GAN_OF_POINTS = Settings(batch_size=512, betas=(0.5, 0.9))
FLOW_OF_IMAGES = Settings(
    batch_size=64, generator_lr=1e-4, discriminator_lr=1e-4, betas=(0.9, 0.99), clip=1.0, log_every=10
)
GAN_OF_IMAGES = Settings(  # with noise and without a gradient penalty, the critic estimates ratios well
    batch_size=256, discriminator_steps=2, discriminator_lr=4e-4, betas=(0.5, 0.99), noise=0.2, log_every=10
)
BIGGAN = Settings(  # learning rates and batch size of App. C.1.1 and C.1.4, betas and ema of BigGAN
    batch_size=128, generator_lr=5e-5, discriminator_lr=2e-4, betas=(0.0, 0.999), ema=0.9999, log_every=10
)
PARTICULAR: dict[tuple[str, str], tuple[int, Settings]] = {
    ("digits", "conv"): (3000, replace(GAN_OF_IMAGES, batch_size=64, generator_lr=1e-3, discriminator_lr=1e-3)),
    ("digits", "mlp"): (6000, replace(GAN_OF_IMAGES, ema=0.998)),
    ("mnist", "mlp"): (35_000, replace(GAN_OF_IMAGES, batch_size=512)),  # App. C.2.3
    ("fashion-mnist", "mlp"): (35_000, replace(GAN_OF_IMAGES, batch_size=512)),
    ("cifar-10", "biggan"): (100_000, replace(BIGGAN, flip=True)),  # App. C.1.4
    ("celeba-64", "biggan"): (95_000, replace(BIGGAN, flip=True)),  # App. C.1.4
}


def _plan(data: TrainingData, model: str, family: Family) -> tuple[int, Settings]:
    """Number of steps and settings for data and a model."""
    if (data.name, model) in PARTICULAR:
        return PARTICULAR[data.name, model]
    images = len(data.shape) == 3
    if model == "biggan":
        return 100_000, BIGGAN
    if family.flow:
        return (30_000, FLOW_OF_IMAGES) if images else (4000, FLOW_OF_POINTS)
    return (20_000, GAN_OF_IMAGES) if images else (20_000, GAN_OF_POINTS)


# --------------------------------------------------------------------------------------------------------- recipes


@dataclass(frozen=True, eq=False)
class Recipe:
    """Data with networks, settings and a number of steps to train on it. Use `dataclasses.replace` to change them.

    Attributes:
        data: the training data, prepared for the networks (padded, and dequantised for flows).
        model: name of the family, or import path of the generator.
        generator: builds the generator from the shape of a sample and the number of classes.
        discriminator: builds the discriminator.
        classes: number of classes of the networks; 0 for unconditional ones.
        flow: whether the density of the generator is known.
        settings: hyperparameters.
        steps: number of generator steps; schedules and warm-up are shares of it.
        standard: standardisation of a table of the user, whose networks see standardised columns; None for other data.
    """

    data: TrainingData
    model: str
    generator: Build
    discriminator: Build
    classes: int
    flow: bool
    settings: Settings
    steps: int
    standard: Standardization | None = None

    @property
    def shape(self) -> Shape:
        """Shape of one sample as the networks see it, that is without constant columns."""
        return self.data.shape if self.standard is None else (int(self.standard.varies.sum()),)

    def networks(self, seed: int = 0) -> tuple[nn.Module, nn.Module]:
        """A new generator and discriminator, initialised from the seed. Global random states are not changed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.generator(self.shape, self.classes), self.discriminator(self.shape, self.classes)

    def objective(self, lam: float = 1.0, *, kind: str = "pr", budget: float = 2.0) -> Any:
        """The objective at a trade-off λ.

        `"pr"` maximises α(λ). For flows of points it uses the density of the flow and starts from a likelihood (forward
        KL for λ ≤ 1, nearly reverse KL for λ > 1, which concentrates on modes). Otherwise it uses the ratio of the
        discriminator, with λ moving from 1 to its value during the first half of the run. This includes flows of
        images, because in high dimension the two densities differ by many orders of magnitude and min(λ p/q, 1) is
        flat.

        Args:
            lam: λ > 0, for "pr", "tail" and "hinge".
            kind: "pr"; "tail" (precision at every slope above λ); "hinge" (the loss of BigGAN, weighted by λ); "area"
                (all trade-offs at once); "obrs" (the model after rejection); "gan" (non-saturating); "likelihood" (for
                flows).
            budget: K ≥ 1, for "obrs".
        """
        checks.choice("kind", kind, OBJECTIVES)
        if kind == "likelihood":
            return PRObjective()  # only for the discriminator, since the warm-up is the whole run
        if kind == "pr":
            return self._density_pr(lam) if self._by_density else self._ratio_pr(lam, "smoothed")
        if kind == "tail":
            return self._ratio_pr(lam, "tail")
        if kind == "hinge":
            return Hinge(lam)
        if kind == "area":
            return Area()
        return OBRSObjective("gan", budget) if kind == "obrs" else FGAN("gan", play="nonsaturating")

    def _ratio_pr(self, lam: float, form: str) -> PRObjective | Scheduled:
        if lam == 1:
            return PRObjective(lam, form=form)
        return Scheduled(PRObjective(lam, form=form), steps=max(1, self.steps // 2), start={"lam": 1.0})

    def _density_pr(self, lam: float) -> DensityPR | Scheduled:
        if lam == 1:
            return DensityPR()
        return Scheduled(DensityPR(lam), steps=max(1, int(0.6 * self.steps)), start={"power": 0.05})

    @property
    def _by_density(self) -> bool:
        return self.flow and len(self.data.shape) == 1

    def warmup(self, lam: float = 1.0, *, kind: str = "pr") -> int:
        """Number of first steps that use the likelihood alone: 0 unless the generator is a flow."""
        if not self.flow:
            return 0
        if kind == "likelihood":
            return self.steps
        if not self._by_density:
            return self.steps * 2 // 3
        return self.steps // 2 if kind != "pr" or lam == 1 else self.steps // 25

    def depends_on_steps(self, lam: float = 1.0, *, kind: str = "pr") -> list[str]:
        """What depends on the number of steps, so that a run which is continued differs from a longer run.

        Example:
            >>> recipe("digits").depends_on_steps(lam=5.0), recipe("digits").depends_on_steps()
            (['the objective'], [])
        """
        scheduled = isinstance(self.objective(lam, kind=kind), Scheduled)
        warmed_up = kind != "likelihood" and self.warmup(lam, kind=kind) > 0
        found = {"the objective": scheduled, "the warm-up": warmed_up, "the learning rates": self.settings.cooldown > 0}
        return [name for name, depends in found.items() if depends]

    def trainer(
        self,
        lam: float = 1.0,
        *,
        kind: str = "pr",
        budget: float = 2.0,
        init: str | Path | None = None,
        out: str | Path | None = None,
        fabric: Fabric | None = None,
        loggers: Sequence[Any] = (),
        **overrides: Any,
    ) -> Trainer:
        """A trainer for this recipe; `.fit(recipe.steps)` runs it.

        Args:
            lam: λ > 0.
            kind: name of the objective, as in `objective`.
            budget: K ≥ 1, for "obrs".
            init: a checkpoint whose networks are fine-tuned, without warm-up.
            out: folder for the log, checkpoints and pictures.
            fabric: a Lightning `Fabric`.
            loggers: Lightning loggers.
            **overrides: fields of `Settings`.

        Returns:
            The trainer.

        Example:
            >>> made = replace(recipe("digits", "mlp"), steps=2)
            >>> made.trainer(lam=5.0, batch_size=8).fit(made.steps).sample(3).shape
            torch.Size([3, 1, 8, 8])
        """
        if kind == "likelihood" and not self.flow:
            raise ValueError(f"`kind` likelihood requires a flow, whose density is known; got {self.model}.")
        warmup = 0 if init is not None and kind != "likelihood" else self.warmup(lam, kind=kind)
        settings = replace(self.settings, **{"warmup": warmup, **_known(overrides)})
        generator, discriminator = self.networks(settings.seed)
        made = Trainer(
            generator,
            discriminator,
            self.objective(lam, kind=kind, budget=budget),
            self.data.samples,
            labels=self.data.labels,
            held_out=self.data.held_out,
            settings=settings,
            standard=self.standard,
            out=out,
            fabric=fabric,
            loggers=loggers,
        )
        return made if init is None else made.initialize(init)


def recipe(
    data: str | Path | TrainingData,
    model: str | None = None,
    *,
    data_dir: str | Path | None = None,
    generator: str | None = None,
    discriminator: str | None = None,
) -> Recipe:
    """The recipe for data and a model.

    Args:
        data: a name or path, as accepted by `load_data`, or the data itself.
        model: "mlp", "conv", "nice", "realnvp", "glow", "residual" or "biggan"; None for the default of the data.
        data_dir: first folder to search for the data.
        generator: import path "package.module:Class" of a custom generator. It is called with `shape=` and `classes=`
            if it accepts them, and trained as a flow if it has `forward_with_log_prob`.
        discriminator: import path of a custom discriminator.

    Returns:
        The recipe.

    Raises:
        ValueError: if the data or model is unknown, or if the model does not support the data.

    Example:
        >>> made = recipe("8-gaussians")
        >>> made.model, made.steps, made.objective(lam=10.0).start
        ('realnvp', 4000, {'power': 0.05})

    References:
        Verine (2024), sections 5.3 and 6.3, App. C.
    """
    if model is not None:
        checks.choice("model", model, FAMILIES)
    own = (
        None if generator is None else imported(generator),
        None if discriminator is None else imported(discriminator),
    )
    data = data if isinstance(data, TrainingData) else load_data(data, data_dir)
    name = model or (
        "mlp" if generator else DEFAULT_MODEL.get(data.name, "conv" if len(data.shape) == 3 else "realnvp")
    )
    family = FAMILIES[name]
    if family.multiple and len(data.shape) != 3:
        raise ValueError(
            f"`model` {name} requires images; the samples of `{data.name}` have shape {data.shape}. Use mlp."
        )
    flow = family.flow if own[0] is None else hasattr(own[0], "forward_with_log_prob")
    steps, settings = _plan(data, name, family)
    standard = _standard(data) if flow or own[0] is None else None
    return Recipe(
        data=_prepared(data, family.multiple, flow) if standard is None else data,
        model=generator or name,
        generator=family.generator if own[0] is None else building(own[0]),
        discriminator=family.discriminator if own[1] is None else building(own[1]),
        classes=data.classes if family.conditional else 0,
        flow=flow,
        settings=settings,
        steps=steps,
        standard=standard,
    )


# ----------------------------------------------------------------------------------------------- data for networks


def _standard(data: TrainingData) -> Standardization | None:
    """The standardisation of a table of the user. The data sets of precall are on a suitable scale as they are."""
    return None if data.name in DATASETS or len(data.shape) != 1 else Standardization.of(data.samples)


def _prepared(data: TrainingData, multiple: int, flow: bool) -> TrainingData:
    """Images padded to sides that the networks support, and dequantised for flows; points as float32."""
    if len(data.shape) == 1:
        return replace(data, samples=_float32(data.samples), held_out=_float32(data.held_out))
    samples, held_out = (_padded(images, multiple) for images in (data.samples, data.held_out))
    if flow and samples.dtype == np.uint8:
        samples = dequantized(samples)
    return replace(data, samples=samples, held_out=held_out)


def _float32(points: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):
        single = points.astype(np.float32)
    checks.numbers("data as float32", single)
    return single


def _padded(images: npt.NDArray[Any], multiple: int) -> npt.NDArray[Any]:
    """Images padded with black to sides that are a multiple of a number."""
    if not multiple:
        return images
    extra = [-side % multiple for side in images.shape[2:]]
    around = [(0, 0), (0, 0), *((more // 2, more - more // 2) for more in extra)]
    return np.pad(images, around) if any(extra) else images


def dequantized(images: npt.NDArray[np.uint8], seed: int = 0) -> npt.NDArray[np.float32]:
    """Grey levels b as (b + u)/128 − 1 with u uniform. Without noise, the likelihood of a flow would be unbounded.

    Example:
        >>> dequantized(np.array([[[[0, 255]]]], np.uint8)).round(1).tolist()
        [[[[-1.0, 1.0]]]]
    """
    noise = np.random.default_rng(seed).random(images.shape, dtype=np.float32)
    return (images + noise) / np.float32(128) - 1


def _image(shape: Shape) -> tuple[int, int, int]:
    channels, height, width = shape
    return channels, height, width


def _side(shape: Shape) -> int:
    if shape[1] != shape[2]:
        raise ValueError(f"`model` biggan requires square images; got {shape[1]} × {shape[2]}. Use conv or glow.")
    return shape[1]


def _known(overrides: dict[str, Any]) -> dict[str, Any]:
    for name in overrides:
        checks.choice("overrides", name, Settings.__dataclass_fields__)
    return overrides
