"""A wrong input costs one sentence that names the argument."""

import re

import numpy as np
import pytest

from precall.theory import checks
from precall.theory.spectrum import RatioSpectrum

GOOD = RatioSpectrum.from_masses(p=[0.5, 0.5], q=[0.25, 0.75])
MASSES = {"p": [0.5, 0.5], "q": [0.25, 0.75]}

CASES = {
    "negative": (lambda: RatioSpectrum.from_masses(p=[-0.5, 1.5], q=[0.5, 0.5]), "`p` must not be negative"),
    "nan": (lambda: RatioSpectrum.from_masses(p=[0.5, 0.5], q=[np.nan, 1]), "`q` must not hold NaN"),
    "infinite": (lambda: RatioSpectrum.from_masses(p=[np.inf, 0.5], q=[0.5, 0.5]), "`p` must be finite"),
    "empty": (lambda: RatioSpectrum.from_masses(p=[], q=[]), "`p` must hold at least one value"),
    "lengths": (lambda: RatioSpectrum.from_masses(p=[1.0], q=[0.5, 0.5]), "`p` and `q` must have the same length"),
    "zero": (lambda: RatioSpectrum.from_masses(p=[0.0, 0.0], q=[0.5, 0.5]), "`p` must have positive mass"),
    "sum": (lambda: RatioSpectrum.from_masses(p=[5, 5], q=[0.5, 0.5]), "`p` must sum to 1; got 10"),
    "shape": (lambda: RatioSpectrum.from_masses(p=[[1.0]], q=[[1.0]]), "`p` must be one-dimensional"),
    "text": (lambda: RatioSpectrum.from_masses(p="ab", q=[1.0]), "`p` must be numbers"),
    "counts": (lambda: RatioSpectrum.from_counts(real=[0, 0], fake=[1, 2]), "`real` must have positive mass"),
    "scores nan": (lambda: RatioSpectrum.from_scores(real=[0.0, np.nan], fake=[1.0]), "`real` must not hold NaN"),
    "scores empty": (lambda: RatioSpectrum.from_scores(real=[0.0], fake=[]), "`fake` must hold at least one value"),
    "log nan": (lambda: RatioSpectrum.from_log_ratios(fake=[np.nan]), "`fake` must not hold NaN"),
    "log inf": (lambda: RatioSpectrum.from_log_ratios(fake=[np.inf, 0.0]), "`fake` must be finite"),
    "log none": (lambda: RatioSpectrum.from_log_ratios(fake=[-np.inf]), "`fake` must have positive mass"),
    "mean none": (lambda: RatioSpectrum.mean([]), "`spectra` must hold at least one"),
    "mean weights": (lambda: RatioSpectrum.mean([GOOD, GOOD], weights=[1.0]), "must have the same length"),
    "lam negative": (lambda: GOOD.alpha(-1), "`lam` must not be negative; got -1"),
    "lam nan": (lambda: GOOD.alpha([1.0, np.nan]), "`lam` must not hold NaN"),
    "beta": (lambda: GOOD.beta(-0.1), "`lam` must not be negative"),
    "recall": (lambda: GOOD.precision(recall=1.5), "`recall` must be between 0 and 1; got 1.5"),
    "precision": (lambda: GOOD.recall(precision=-0.5), "`precision` must not be negative"),
    "budget": (lambda: GOOD.refined(budget=0.5), "`budget` must be at least 1"),
    "budget nan": (lambda: GOOD.refined(budget=np.nan), "`budget` must be a number; got nan"),
    "budget infinite": (lambda: checks.positive("lam", np.inf), "`lam` must be finite; got inf"),
    "divergence": (lambda: GOOD.divergence("kullback"), "kullback"),
    "points": (lambda: GOOD.curve(0), "`points` must be at least 1"),
    "order": (lambda: GOOD.frontier(order=-1), "`order`"),
    "side": (lambda: GOOD.frontier(order=1, side="both"), "`side`"),
    "s": (lambda: GOOD.f_score(-1), "`s` must not be negative"),
    "epsilon": (lambda: GOOD.privacy_profile(-1), "`epsilon` must not be negative"),
    "type one": (lambda: GOOD.trade_off(2), "`type_one` must be between 0 and 1"),
}


@pytest.mark.parametrize(("call", "sentence"), CASES.values(), ids=CASES.keys())
def test_bad_input_raises_one_clear_sentence(call, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_masses_are_normalised_only_within_rounding():
    almost = RatioSpectrum.from_masses(p=[0.5, 0.5 + 1e-9], q=[0.5, 0.5])
    assert almost.p.sum() == pytest.approx(1, abs=1e-15)
