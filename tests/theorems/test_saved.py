"""Spectra and bands survive JSON to the last bit, and damaged ones are refused in one sentence."""

import json
import re
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, strategies as st

from experiments.common.other_bands import dkw_band, local_band
from precall.theory.bands import Certificate, upper_band
from precall.theory.spectrum import RatioSpectrum
from strategies import budgets, pairs, scores

SPECTRUM = {"p": [0.5, 0.3, 0.2, 0.0], "q": [0.0, 0.3, 0.5, 0.2]}
BAND = upper_band(real=np.arange(40) + 10, fake=np.arange(50)).to_dict()


def through_json(saved):
    return json.loads(json.dumps(saved, allow_nan=False))


def same_bits(a, b):
    return a.dtype == b.dtype == np.float64 and a.tobytes() == b.tobytes()


@given(pairs(), budgets)
def test_a_spectrum_survives_json_to_the_last_bit(pair, budget):
    spectrum = RatioSpectrum.from_masses(p=pair[0], q=pair[1])
    for one in (spectrum, spectrum.swapped(), spectrum.refined(budget), RatioSpectrum.mean([spectrum] * 3)):
        restored = RatioSpectrum.from_dict(through_json(one.to_dict()))
        assert same_bits(restored.p, one.p)
        assert same_bits(restored.q, one.q)


@given(st.lists(st.floats(-800, 800), min_size=2, max_size=30), st.lists(st.floats(-800, 800), min_size=2, max_size=30))
def test_extreme_ratios_survive_as_well(real, fake):
    spectrum = RatioSpectrum.from_log_ratios(real=[*real, 0.0], fake=[*fake, 0.0])
    restored = RatioSpectrum.from_dict(through_json(spectrum.to_dict()))
    assert same_bits(restored.p, spectrum.p)
    assert same_bits(restored.q, spectrum.q)


@given(scores(), st.sampled_from((upper_band, dkw_band, local_band)), st.floats(0.5, 0.99))
def test_a_band_survives_json_to_the_last_bit(pair, kind, level):
    band = kind(real=pair[0], fake=pair[1], level=level)
    restored = Certificate.from_dict(through_json(band.to_dict()))
    assert same_bits(restored.fpr, band.fpr)
    assert same_bits(restored.fnr, band.fnr)
    lists = {"fpr": None, "fnr": None}
    assert {**asdict(restored), **lists} == {**asdict(band), **lists}
    assert all(type(restored.__dict__[name]) is type(value) for name, value in band.__dict__.items())


SPECTRA = {
    "missing": ({"q": None}, "`q` is missing from the saved values; got p"),
    "nan": ({"p": [np.nan, 0.5, 0.5, 0.0]}, "`p` must not hold NaN"),
    "infinite": ({"p": [np.inf, 0.5, 0.5, 0.0]}, "`p` must be finite"),
    "negative": ({"q": [-0.5, 0.5, 0.5, 0.5]}, "`q` must not be negative"),
    "sum": ({"q": [0.0, 0.3, 0.5, 0.3]}, "`q` must sum to 1"),
    "lengths": ({"q": [0.0, 0.5, 0.5]}, "`p` and `q` must have the same length"),
    "order": ({"p": [0.2, 0.2, 0.6, 0.0]}, "`p` and `q` must be sorted by q/p"),
    "invented first": ({"p": [0.0, 0.3, 0.5, 0.2], "q": [0.2, 0.5, 0.3, 0.0]}, "`p` and `q` must be sorted by q/p"),
    "empty cell": ({"p": [0.0, 0.5, 0.5, 0.0]}, "`p` and `q` must not both be 0"),
    "text": ({"p": "half"}, "`p` must be numbers"),
    "table": ({"p": [[0.5], [0.5]]}, "`p` must be one-dimensional"),
}

CERTIFICATES = {
    "missing": ({"level": None}, "`level` is missing from the saved values; got fpr, fnr"),
    "lengths": ({"fpr": [0.0, 1.0], "fnr": [1.0, 0.5, 0.0]}, "`fpr` and `fnr` must have the same length"),
    "nan": ({"fpr": [0.0, np.nan], "fnr": [1.0, 0.0]}, "`fpr` must not hold NaN"),
    "negative": ({"fpr": [0.0, 1.0], "fnr": [1.0, -0.5]}, "`fnr` must not be negative"),
    "fpr falls": ({"fpr": [1.0, 0.0], "fnr": [1.0, 0.0]}, "`fpr` must increase and `fnr` must not"),
    "fnr rises": ({"fpr": [0.0, 1.0], "fnr": [0.0, 1.0]}, "`fpr` must increase and `fnr` must not"),
    "radius": ({"real_radius": -1.0}, "`real_radius` must not be negative"),
    "infinite radius": ({"fake_radius": np.inf}, "`fake_radius` must be finite"),
    "kind": ({"kind": "round"}, "`kind` must be one of elliptic, dkw, local"),
    "level": ({"level": 1.0}, "`level` must be strictly between 0 and 1"),
    "count": ({"n_real": 0}, "`n_real` must be a whole number"),
    "fraction": ({"n_fake": 2.5}, "`n_fake` must be a whole number"),
}


def damaged(saved, changes):
    """The saved values with some changed; those that are None are removed."""
    return {name: value for name, value in {**saved, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("restore", "saved", "changes", "sentence"),
    [
        *((RatioSpectrum.from_dict, SPECTRUM, *case) for case in SPECTRA.values()),
        *((Certificate.from_dict, BAND, *case) for case in CERTIFICATES.values()),
    ],
    ids=[*(f"spectrum {name}" for name in SPECTRA), *(f"band {name}" for name in CERTIFICATES)],
)
def test_damaged_values_are_refused(restore, saved, changes, sentence):
    assert restore(saved)
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        restore(damaged(saved, changes))
    assert "\n" not in str(caught.value)


def test_further_keys_are_ignored():
    assert RatioSpectrum.from_dict({**SPECTRUM, "note": "x"}).max_recall == 0.5
