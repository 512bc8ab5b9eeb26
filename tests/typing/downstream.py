"""A module of a user of precall, which `test_downstream.py` checks with `mypy --strict`.

It uses neither `Any` nor casts. `assert_type` fails for a name that is not typed.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.tensorboard import SummaryWriter

import precall
from precall.encoders import EncodedFeatures, Encoder, encode, load_encoder
from precall.improve import Plan, Ratio, Refined, Selection
from precall.integrations.lightning import AssessSamples
from precall.integrations.loggers import log_to
from precall.integrations.torchmetrics import FrechetDistance, PRCurve
from precall.samples import SampleSet, open_samples

Matrix = npt.NDArray[np.float64]


def read_spectrum() -> dict[str, float]:
    spectrum = precall.RatioSpectrum.from_masses(p=[0.5, 0.3, 0.2], q=np.array([0.2, 0.3, 0.5]))
    assert_type(spectrum, precall.RatioSpectrum)
    assert_type(spectrum.refined(budget=2), precall.RatioSpectrum)
    alpha: float = spectrum.alpha(2.0)
    precision: float = spectrum.precision(recall=0.8)
    line: Matrix = spectrum.alpha(np.array([0.5, 2.0]))
    assert_type(spectrum.curve(points=201).alpha, Matrix)
    assert_type(spectrum.frontier(order=1, side="exclusive").order, float)
    scores = {"area": spectrum.area, "f8": spectrum.f_score(8), "kl": spectrum.divergence("kl")}
    assert_type(scores, dict[str, float])
    return scores | {"alpha": alpha, "precision": precision, "mean": float(line.mean())}


def assess(real: Matrix, fake: Matrix, out: Path) -> str:
    assert_type(precall.assess(real=real, fake=fake), precall.Assessment)
    assert_type(precall.assess(real=real, fake={"ours": fake}), precall.Comparison)
    assert_type(precall.load(out)["ours"].scores["fid"].value, float)
    one: precall.Assessment = precall.assess(real=real, fake=fake, metrics=("neighbors", "auto"), k=3)
    several: precall.Comparison = precall.assess(real=real, fake={"ours": fake, "theirs": out})
    assert_type(several["ours"], precall.Assessment)
    assert_type(one.scores["recall"].value, float)
    assert_type(one.curve.precision(recall=0.8).value, float)
    assert_type(one.spectrum, precall.RatioSpectrum)
    assert_type(several.to_html(out), Path)
    return one.verdict


def assess_checkpoints(real: Matrix, fakes: list[Matrix], folder: str) -> list[float]:
    reference = precall.Reference.fit(real, k=5)
    assert_type(reference, precall.Reference)
    writer = SummaryWriter(folder)
    found = [reference.assess(fake, metrics=("fid",)) for fake in fakes]
    for step, one in enumerate(found):
        log_to(writer, one, step=step)
    return [one.fid.value for one in found]


def improve(real: Matrix, fake: Matrix, spectrum: precall.RatioSpectrum) -> npt.NDArray[np.intp]:
    def generator(n: int, rng: np.random.Generator) -> Matrix:
        return rng.normal(size=(n, real.shape[1]))

    ratio = Ratio.fitted(real=real, fake=fake)
    assert_type(precall.improve.sample(generator, ratio, budget=2, n=100), Refined)
    assert_type(precall.improve.plan(spectrum, [1.5, 2]), Plan)
    kept = precall.improve.select(real=real, fake=fake, budget=2)
    assert_type(kept, Selection)
    return kept.indices


def tune(real_logits: torch.Tensor, fake_logits: torch.Tensor) -> torch.Tensor:
    objective = precall.tune.PRObjective(lam=5.0)
    return objective.discriminator_loss(real_logits, fake_logits) + objective.generator_loss(fake_logits)


def features_of(folder: Path, progress: dict[str, int]) -> EncodedFeatures:
    samples = open_samples(folder, on_error="skip")
    assert_type(samples, SampleSet)
    encoder = load_encoder("pixels")
    assert_type(encoder, Encoder)
    return encode(samples, encoder, cache=False, progress=lambda done, total: progress.update(done=done, total=total))


def integrate(features: torch.Tensor) -> AssessSamples:
    metric, curve = FrechetDistance(dimension=8, sync_on_compute=False), PRCurve(estimator="clusters")
    metric.update(features, real=True)
    assert_type(metric.compute(), dict[str, torch.Tensor])
    assert_type(curve.spectrum(), precall.RatioSpectrum)
    return AssessSamples(n=500, metrics=("neighbors",))
