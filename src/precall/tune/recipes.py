"""Recipes: which networks, at which rates, for how long, for each data set and kind of model.

    made = recipe("digits")
    made.trainer(lam=5.0, out="runs/lam5").fit(made.steps)

Networks and, where the thesis states them, rates and batch sizes are those of Verine (2024), App. C; they are named
there below. The others are starting points.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from precall.theory import checks
from precall.tune.data import TrainingData, load_data
from precall.tune.models.biggan import BigGANDiscriminator, BigGANGenerator
from precall.tune.models.flows import NICE, RealNVP
from precall.tune.models.glow import Glow
from precall.tune.models.mlp import ConvDiscriminator, ConvGenerator, MLPDiscriminator, MLPGenerator
from precall.tune.models.residual_flow import ResidualFlow
from precall.tune.objectives import FGAN, Area, DensityPR, Hinge, OBRSObjective, PRObjective, Scheduled
from precall.tune.trainer import Settings, Trainer

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Shape = tuple[int, ...]
Build = Callable[[Shape, int], nn.Module]  # from the shape of a sample and the number of classes

OBJECTIVES = ("pr", "tail", "hinge", "area", "obrs", "gan", "likelihood")
DIALLED = ("pr", "tail", "hinge")  # those that λ turns
RESIDUAL_LIMIT = 256  # coordinates: its log-determinants take as many backward passes a block


# -------------------------------------------------------------------------------------------------------- networks


def _glow(shape: Shape, classes: int) -> nn.Module:
    """At 32 pixels that of App. C.1.3, 16 steps on each of 3 scales which keep all channels; small for small images."""
    if shape[1] < 16:
        return Glow(_image(shape), levels=2, steps=4, hidden=64)
    return Glow(_image(shape), levels=3, steps=16, hidden=512, factor_out=False)


def _residual(shape: Shape, classes: int) -> nn.Module:
    if prod(shape) > RESIDUAL_LIMIT:
        raise ValueError(
            f"`model` residual takes exact log-determinants and is for at most {RESIDUAL_LIMIT} coordinates; "
            f"got {prod(shape)}. Use realnvp or glow."
        )
    return ResidualFlow(shape)


def _biggan(shape: Shape, classes: int) -> nn.Module:
    """That of App. C.1.4: 4.3 M parameters for CIFAR-10, 32.0 M for CelebA."""
    channels, side = shape[0], _side(shape)
    return BigGANGenerator(side, classes=classes, shared=0, hierarchical=False, attention=0, channels=channels)


def _biggan_critic(shape: Shape, classes: int) -> nn.Module:
    return BigGANDiscriminator(_side(shape), classes=classes, attention=0, channels=shape[0])


def _perceptron(shape: Shape, classes: int) -> nn.Module:
    """256-512-1024 (App. C.2.1, C.2.3); for the smallest images one so small that it must choose."""
    if _tiny(shape):
        return MLPGenerator(shape, latent=16, widths=(128, 128), classes=classes)
    return MLPGenerator(shape, classes=classes)


def _perceptron_critic(shape: Shape, classes: int) -> nn.Module:
    """1024-512-256 (App. C.1.3, C.2.1, C.2.3), or a smaller one for the smallest images."""
    return MLPDiscriminator(shape, classes=classes, widths=(256, 256) if _tiny(shape) else (1024, 512, 256))


def _tiny(shape: Shape) -> bool:
    return len(shape) == 3 and prod(shape) <= 256


def _flow_critic(shape: Shape, classes: int) -> nn.Module:
    """For points a smaller one, which learns log p in fewer steps."""
    if len(shape) == 3:
        return _perceptron_critic(shape, 0)
    return MLPDiscriminator(shape, widths=(128, 128, 128))


@dataclass(frozen=True)
class Family:
    """A kind of model: how its networks are built, and what it asks of the data.

    Attributes:
        generator: builds the generator.
        discriminator: builds the discriminator.
        flow: whether it states its density.
        conditional: whether it is given the labels.
        multiple: what the sides of images are padded to a multiple of; 0 for a family that takes points too.
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
GAN_OF_IMAGES = Settings(  # as in experiments/dial.py: under noise and without a penalty the critic knows ratios
    batch_size=256, discriminator_steps=2, discriminator_lr=4e-4, betas=(0.5, 0.99), noise=0.2, log_every=10
)
BIGGAN = Settings(  # rates and batch of App. C.1.1 and C.1.4, moments and average of BigGAN
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
    """Steps and settings for data and a model."""
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
    """Data with the networks, settings and number of steps to train on it. `dataclasses.replace` changes any of them.

    Attributes:
        data: what is trained on, as the networks want it (padded, and with noise below a grey level for flows).
        model: the family's name, or the import path of the generator.
        generator: builds the generator, from the shape of a sample and the number of classes.
        discriminator: builds the discriminator.
        classes: number of classes the networks are given; 0 for unconditional ones.
        flow: whether the generator states its density.
        settings: how to train.
        steps: for how long; schedules and warm-up are shares of it.
    """

    data: TrainingData
    model: str
    generator: Build
    discriminator: Build
    classes: int
    flow: bool
    settings: Settings
    steps: int

    def networks(self, seed: int = 0) -> tuple[nn.Module, nn.Module]:
        """A fresh generator and discriminator, their weights drawn from the seed; other streams do not notice."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.generator(self.data.shape, self.classes), self.discriminator(self.data.shape, self.classes)

    def objective(self, lam: float = 1.0, *, kind: str = "pr", budget: float = 2.0) -> Any:
        """The objective at a trade-off λ.

        `"pr"` maximises α(λ): by the flow's own density for flows of points, coming from a likelihood (forward for
        λ ≤ 1, nearly reverse KL for λ > 1, which settles on modes); by the discriminator's ratio otherwise, with λ
        moving from 1 to its value over the first half of the run. A flow of images takes the ratio too: in many
        dimensions the two densities differ by so many powers of ten that min(λ p/q, 1) is flat.

        Args:
            lam: λ > 0, for "pr", "tail" and "hinge".
            kind: "pr"; "tail" (precision at every slope above λ); "hinge" (BigGAN's, weighted by λ); "area" (all
                trade-offs at once); "obrs" (the law after rejection); "gan" (non-saturating); "likelihood" (flows).
            budget: K ≥ 1, for "obrs".
        """
        checks.choice("kind", kind, OBJECTIVES)
        if kind == "likelihood":
            return self._ratio_pr(1.0, "smoothed")  # for the discriminator alone; the warm-up is the whole run
        if kind == "pr":
            return self._density_pr(lam) if self._by_density else self._ratio_pr(lam, "smoothed")
        if kind == "tail":
            return self._ratio_pr(lam, "tail")
        if kind == "hinge":
            return Hinge(lam)
        if kind == "area":
            return Area()
        return OBRSObjective("gan", budget) if kind == "obrs" else FGAN("gan", play="nonsaturating")

    def _ratio_pr(self, lam: float, form: str) -> Scheduled:
        return Scheduled(PRObjective(lam, form=form), steps=max(1, self.steps // 2), start={"lam": 1.0})

    def _density_pr(self, lam: float) -> DensityPR | Scheduled:
        if lam == 1:
            return DensityPR()
        return Scheduled(DensityPR(lam), steps=max(1, int(0.6 * self.steps)), start={"power": 0.05})

    @property
    def _by_density(self) -> bool:
        return self.flow and len(self.data.shape) == 1

    def warmup(self, lam: float = 1.0, *, kind: str = "pr") -> int:
        """First steps by likelihood alone: none unless the generator is a flow, all for "likelihood"."""
        if not self.flow:
            return 0
        if kind == "likelihood":
            return self.steps
        if not self._by_density:
            return self.steps * 2 // 3
        return self.steps // 2 if kind != "pr" or lam == 1 else self.steps // 25

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
        """A trainer of this recipe; `.fit(recipe.steps)` runs it.

        Args:
            lam: λ > 0.
            kind: of the objective, as `objective` names them.
            budget: K ≥ 1, for "obrs".
            init: a checkpoint whose networks are fine-tuned; there is then no warm-up.
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
            raise ValueError(f"`kind` likelihood needs a flow, which states its density; {self.model} does not.")
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
        data: a name or path, as `load_data` takes it, or the data itself.
        model: "mlp", "conv", "nice", "realnvp", "glow", "residual" or "biggan"; None for the data's own.
        data_dir: where to look for the data first.
        generator: one's own network by import path, "package.module:Class", in place of the model's. It is called
            with `shape=` and `classes=` if it takes them, and trained as a flow if it has `forward_with_log_prob`.
        discriminator: the same for the discriminator.

    Returns:
        The recipe.

    Raises:
        ValueError: if there is no such data or model, or the model is not for such data.

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
            f"`model` {name} is for images; the samples of `{data.name}` have shape {data.shape}. Use mlp."
        )
    flow = family.flow if own[0] is None else hasattr(own[0], "forward_with_log_prob")
    steps, settings = _plan(data, name, family)
    return Recipe(
        data=_prepared(data, family.multiple, flow),
        model=generator or name,
        generator=family.generator if own[0] is None else _building(own[0]),
        discriminator=family.discriminator if own[1] is None else _building(own[1]),
        classes=data.classes if family.conditional else 0,
        flow=flow,
        settings=settings,
        steps=steps,
    )


def imported(path: str) -> Callable[..., nn.Module]:
    """What "package.module:Class" names.

    Example:
        >>> imported("precall.tune.models.mlp:MLPGenerator").__name__
        'MLPGenerator'
    """
    module, colon, name = path.partition(":")
    if not (colon and module and name):
        raise ValueError(f"a network must be named `package.module:Class`; got {path!r}.")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the network {path!r} cannot be imported: {error}.") from None
    if not callable(found):
        raise ValueError(f"the network {path!r} must be a class or a function; got {type(found).__name__}.")
    return found  # type: ignore[no-any-return]


def _building(make: Callable[..., nn.Module]) -> Build:
    """Calls one's own constructor with `shape=` and `classes=`, as far as it takes them."""
    taken = inspect.signature(make).parameters
    all_taken = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in taken.values())

    def build(shape: Shape, classes: int) -> nn.Module:
        offered = {"shape": shape, "classes": classes}
        return make(**{name: value for name, value in offered.items() if all_taken or name in taken})

    return build


# ----------------------------------------------------------------------------------------------- data for networks


def _prepared(data: TrainingData, multiple: int, flow: bool) -> TrainingData:
    """Images padded to sides the networks can halve; for flows, with noise below a grey level."""
    samples, held_out = (_padded(images, multiple) for images in (data.samples, data.held_out))
    if flow and samples.dtype == np.uint8:
        samples = dequantized(samples)
    return replace(data, samples=samples, held_out=held_out)


def _padded(images: Any, multiple: int) -> Any:
    """Sides up to the next multiple, with black around."""
    if not multiple:
        return images
    extra = [-side % multiple for side in images.shape[2:]]
    around = [(0, 0), (0, 0), *((more // 2, more - more // 2) for more in extra)]
    return np.pad(images, around) if any(extra) else images


def dequantized(images: Any, seed: int = 0) -> Any:
    """Bytes b as (b + u)/128 − 1, u uniform: a density on grey levels alone is infinite, and a flow would find that.

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
        raise ValueError(f"`model` biggan is for square images; got {shape[1]} × {shape[2]}. Use conv or glow.")
    return shape[1]


def _known(overrides: dict[str, Any]) -> dict[str, Any]:
    for name in overrides:
        checks.choice("overrides", name, Settings.__dataclass_fields__)
    return overrides
