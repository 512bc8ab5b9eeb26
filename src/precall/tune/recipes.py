"""Recipes: data with the networks, hyperparameters and number of steps of a family of models (`families`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from precall.encoders.encoding import encode
from precall.encoders.registry import differentiable_encoder
from precall.metrics.pairs.centrality import binned, centrality
from precall.samples.sampleset import shown
from precall.theory import checks
from precall.tune.critics import Critics, critic_on
from precall.tune.custom_networks import Build, Shape, building, imported
from precall.tune.data import DATASETS, ClassLabels, TrainingData, bins_at, load_data, with_held_out
from precall.tune.families import DEFAULT_MODEL, FAMILIES, Family, plan
from precall.tune.objectives import GAN, DensityPR, OBRSObjective, PRObjective
from precall.tune.schedules import PLAIN, Schedule, Scheduled
from precall.tune.standardization import Standardization
from precall.tune.trainer import Settings, Trainer

if TYPE_CHECKING:
    from lightning.fabric import Fabric

OBJECTIVES = ("pr", "tail", "smoothed", "obrs", "gan", "likelihood")
HELD_OUT = 1000  # samples for the scores; with fewer, their intervals are wide


@dataclass(frozen=True, eq=False)
class Recipe:
    """Data with networks, settings and a number of steps to train on it. Use `dataclasses.replace` to change them.

    Attributes:
        data: the training data, prepared for the networks (padded, and dequantised for flows).
        model: name of the family, or import path of the generator.
        generator: builds the generator from the shape of a sample and the number of classes.
        classes: number of classes of the networks; 0 for unconditional ones.
        flow: whether the density of the generator is known.
        steps: number of generator steps; schedules and warm-up are shares of it.
        standard: standardisation of a table of the user; None for other data.
        bins: number of bins of how central a sample is; 0 for none. Labels are then class + classes · bin.
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
    bins: int = 0

    @property
    def shape(self) -> Shape:
        """Shape of one sample as the networks see it, that is without constant columns."""
        return self.data.shape if self.standard is None else (int(self.standard.varies.sum()),)

    def networks(self, seed: int = 0) -> tuple[nn.Module, nn.Module]:
        """A new generator and discriminator, initialised from the seed. Global random states are not changed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.generator(self.shape, self.classes), self.discriminator(self.shape, self.classes)

    def draw_labels(self, n: int, lam: float = 1.0, *, seed: int = 0) -> ClassLabels | None:
        """Labels of n draws: classes in the proportions of the data and, with `bins`, bins in those at λ.

        None for networks without labels. Without bins, λ does not matter here: it is chosen when the model is trained.
        """
        if not self.classes or self.data.labels is None:
            return None
        labels = self.data.labels[np.arange(n) % len(self.data.labels)]
        classes = self.classes // max(1, self.bins)
        return labels % classes + classes * bins_at(lam, self.bins, n, seed=seed) if self.bins else labels

    def objective(self, lam: float = 1.0, *, kind: str = "pr", budget: float = 2.0, tuned: bool = False) -> Any:
        """The objective at a trade-off λ.

        For flows of points, `"pr"` maximises α(λ) with the density of the flow and starts from a likelihood (forward KL
        for λ ≤ 1, nearly reverse KL for λ > 1, which concentrates on modes). Otherwise it is `Schedule`, which uses the
        ratio of the discriminator; after a likelihood for flows of images, whose densities differ from that of the data
        by many orders of magnitude.

        Args:
            lam: λ > 0, for "pr", "tail" and "smoothed".
            kind: "pr"; "tail" or "smoothed", other forms of `PRObjective`; "obrs", after rejection; "gan"; or
                "likelihood", for flows.
            budget: K ≥ 1, for "obrs".
            tuned: whether a trained model is fine-tuned, which needs no plain GAN first.
        """
        checks.choice("kind", kind, OBJECTIVES)
        if kind == "likelihood":
            return PRObjective()  # only for the discriminator, since the warm-up is the whole run
        if kind == "pr" and self._by_density:
            start, steps = {"power": 0.05}, max(1, int(0.6 * self.steps))
            return DensityPR() if lam == 1 else Scheduled(DensityPR(lam), steps=steps, start=start)
        if kind in ("obrs", "gan"):
            return OBRSObjective("gan", budget) if kind == "obrs" else GAN
        objective = PRObjective(lam) if kind == "pr" else PRObjective(lam, form=kind)
        if self.flow:  # after its likelihood
            return objective if lam == 1 else Scheduled(objective, max(1, self.steps // 2), {"lam": 1.0})
        return Schedule(lam, self.steps, plain=0.0 if tuned else PLAIN, form=objective.form)

    @property
    def plain_steps(self) -> int:
        """Number of first steps in which a generator without density is trained as a plain GAN."""
        return 0 if self.flow else int(PLAIN * self.steps)

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
        """What depends on the number of steps, so that a run which is continued differs from a longer run."""
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
        tuned: bool | None = None,
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
            init: a checkpoint whose networks are fine-tuned, without warm-up and without plain steps.
            tuned: whether the networks were trained before; None if `init` decides.
            out, fabric, loggers: as in `Trainer`.
            **overrides: fields of `Settings`.

        Example:
            >>> made = replace(recipe("digits", "mlp"), steps=2)
            >>> made.trainer(lam=5.0, batch_size=8).fit(made.steps).sample(3).shape
            torch.Size([3, 1, 8, 8])
        """
        if kind == "likelihood" and not self.flow:
            raise ValueError(f"`kind` likelihood requires a flow, whose density is known; got {self.model}.")
        tuned = init is not None if tuned is None else tuned
        warmup = 0 if tuned and kind != "likelihood" else self.warmup(lam, kind=kind)
        for name in overrides:
            checks.choice("overrides", name, Settings.__dataclass_fields__)
        settings = replace(self.settings, **{"warmup": warmup, **overrides})
        generator, discriminator = self.networks(settings.seed)
        made = Trainer(
            generator,
            discriminator,
            self.objective(lam, kind=kind, budget=budget, tuned=tuned),
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
    labels: bool | str | Path | None = None,
    critic_encoder: str | Path | None = None,
    bins: int = 0,
    bins_encoder: str | None = None,
) -> Recipe:
    """The recipe for data and a model.

    Args:
        data: a name or path, as accepted by `load_data`, or the data itself.
        model: "mlp", "conv", "realnvp" or "biggan"; None for the default of the data.
        data_dir: first folder to search for the data.
        generator: import path "package.module:Class" of a custom generator. It is called with `shape=` and `classes=`
            if it accepts them, and trained as a flow if it has `forward_with_log_prob`.
        labels: whether the networks use the class labels of the data, or a text file with one label per line for a
            path; None to use them for "biggan" alone.
        critic_encoder: a second critic is trained on the features of this frozen encoder, and both losses are added:
            "efficientnet", "random-vgg", "inception", "vgg16", "dinov2", "clip", or a TorchScript file, which may
            return a list of feature maps (`MapCritic`).
        bins: number of bins of how central a sample is among those of its class, which the networks see; 0 for none.
            Train with `kind="gan"`; `Recipe.draw_labels` chooses the bins for λ when samples are drawn. The class
            labels of the data are then used unless `labels` is False.
        bins_encoder: the encoder in whose features the bins are computed; None for the samples themselves.

    Example:
        >>> made = recipe("8-gaussians")
        >>> made.model, made.steps, made.objective(lam=10.0).start
        ('realnvp', 4000, {'power': 0.05})

    References:
        Verine (2024), sections 5.3 and 6.3, App. C.
    """
    if model is not None:
        checks.choice("model", model, FAMILIES)
    own = [None if path is None else imported(path) for path in (generator, discriminator)]
    if not isinstance(data, TrainingData):
        file = None if isinstance(labels, bool) else labels
        data = with_held_out(load_data(data, data_dir, labels=file), HELD_OUT)
    usual = DEFAULT_MODEL.get(data.name, "conv" if len(data.shape) == 3 else "realnvp")
    name = model or ("mlp" if generator else usual)
    family = FAMILIES[name]
    if family.multiple and len(data.shape) != 3:
        raise ValueError(
            f"`model` {name} requires images; the samples of `{data.name}` have shape {data.shape}. Use mlp."
        )
    flow = family.flow if own[0] is None else hasattr(own[0], "forward_with_log_prob")
    steps, settings = plan(data, name, family)
    is_table = len(data.shape) == 1 and data.name not in DATASETS  # those are on a suitable scale as they are
    standard = Standardization.of(data.samples) if is_table and (flow or own[0] is None) else None
    critic = family.discriminator if own[1] is None else building(own[1])
    prepared = _prepared(data, family.multiple, flow) if standard is None else data
    if bins and flow:
        raise ValueError("`bins` requires networks with classes, and flows have none. Use mlp, conv or biggan.")
    classes = _classes(data, bool(data.classes) if bins and labels is None else labels, family, flow)
    if bins:
        features = _features(prepared, standard, bins_encoder)
        prepared = _with_bins(prepared, checks.count("bins", bins), classes, features)
    return Recipe(
        data=prepared,
        model=generator or name,
        generator=family.generator if own[0] is None else building(own[0]),
        discriminator=critic if critic_encoder is None else _beside(critic, critic_encoder, prepared.samples),
        classes=max(1, classes) * bins if bins else classes,
        flow=flow,
        settings=settings,
        steps=steps,
        standard=standard,
        bins=bins,
    )


def _beside(discriminator: Build, encoder: str | Path, samples: npt.NDArray[Any]) -> Build:
    """Builds a discriminator of samples, and beside it a critic on the features or feature maps of an encoder."""
    loaded = differentiable_encoder(encoder)

    def build(shape: Shape, classes: int) -> nn.Module:
        return Critics([discriminator(shape, classes), critic_on(loaded, samples, classes=classes)])

    return build


def _classes(data: TrainingData, labels: bool | str | Path | None, family: Family, flow: bool) -> int:
    """Number of classes of the networks; 0 for networks that use no labels."""
    if labels is None:
        return data.classes if family.conditional else 0
    if labels and flow:
        raise ValueError("`labels` requires networks with classes, and flows have none. Use mlp, conv or biggan.")
    if labels and not data.classes:
        raise ValueError(f"`labels` requires data with classes; `{shown(data.name)}` has none. Pass a file of labels.")
    return data.classes if labels else 0


def _with_bins(data: TrainingData, bins: int, classes: int, features: npt.NDArray[np.float32]) -> TrainingData:
    """Data whose labels are class + classes · bin."""
    labels = data.labels if classes and data.labels is not None else np.zeros(len(data.samples), np.int64)
    central = centrality(features, torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    pairs = labels + max(1, classes) * binned(central, labels, bins)
    return replace(data, labels=pairs, held_out_labels=None, classes=max(1, classes) * bins)


def _features(data: TrainingData, standard: Standardization | None, encoder: str | None) -> npt.NDArray[np.float32]:
    """Features of the data by an encoder, or else the data itself, standardised if it is a table of the user."""
    if encoder is not None:
        images = data.samples.transpose(0, 2, 3, 1) if len(data.shape) == 3 else data.samples
        return np.array(encode(images, encoder), np.float32)
    samples = data.samples if standard is None else standard.apply(data.samples)
    return np.asarray(samples, np.float32).reshape(len(samples), -1)


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
    """Grey levels b as (b + u)/128 − 1 with u uniform. Without noise, the likelihood of a flow would be unbounded."""
    return (images + np.random.default_rng(seed).random(images.shape, dtype=np.float32)) / np.float32(128) - 1
