"""`sample`: accounting, reproducibility, and every way in which sampling can end early."""

import json

import numpy as np
import pytest
import torch

import precall.improve
from experiments.common.samplers import SAMPLERS
from precall.improve.latent import LatentGenerator
from precall.improve.sampling import METHODS, sample
from precall.improve.source import Refined, SamplingError


def model(n, rng):
    return rng.normal(size=(n, 2))


def ratio(x):
    """P = N((−1, 0), I) over Q = N(0, I)."""
    return -x[:, 0] - 0.5


LATENT = LatentGenerator(torch.nn.Identity(), dim=2, device="cpu")
EVERY = (*METHODS, *SAMPLERS)


def refined(method, **options):
    arguments = {"budget": 3, "n": 400, "seed": 5, **options}
    if method == "rejection":
        arguments["budget"] = np.inf
    return sample(LATENT, ratio, method=SAMPLERS.get(method, method), **arguments)


@pytest.mark.parametrize("method", EVERY)
def test_every_method_gives_n_samples_and_accounts_for_them(method):
    result = refined(method)
    assert result.samples.shape == (400, 2)
    assert result.complete
    assert result.draws >= 400
    if method != "rejection":  # its pilot alone gives more than 400
        assert result.acceptance_rate == pytest.approx(400 / result.draws, rel=0.05)
    assert result.seconds > 0
    counted = {"none": 0, "hard_truncation": 0, "soft_truncation": 0, "dgflow": 800}
    assert result.ratio_calls == counted.get(method, result.draws)
    assert result.gradient_calls == (800 if method == "dgflow" else 0)
    json.dumps(result.to_dict())
    assert result.to_dict()["n"] == 400
    assert result.to_dict()["shape"] == [2]


@pytest.mark.parametrize("method", EVERY)
def test_same_seed_same_samples_whatever_the_batch_size(method):
    whole, again, small = refined(method), refined(method), refined(method, batch_size=37)
    assert torch.equal(whole.samples, again.samples)
    assert torch.allclose(whole.samples, small.samples, atol=1e-6)
    assert not torch.equal(whole.samples, refined(method, seed=6).samples)


@pytest.mark.parametrize("method", EVERY)
def test_a_refused_budget_names_it(method):
    with pytest.raises(ValueError, match="`budget` must be at least 1"):
        sample(LATENT, ratio, method=SAMPLERS.get(method, method), budget=0.5, n=10)


def test_kept_samples_are_draws_of_the_model():
    """Whatever a rejection method keeps, the generator made it, in that order."""
    made = []

    def recorded(n, rng):
        made.append(model(n, rng))
        return made[-1]

    kept = sample(recorded, ratio, budget=2, n=300).samples
    rows = {row.tobytes(): i for i, row in enumerate(np.concatenate(made))}
    order = [rows[row.tobytes()] for row in kept]
    assert order == sorted(order)
    assert len(set(order)) == 300


def test_arrays_stay_arrays_and_tensors_tensors():
    assert isinstance(sample(model, ratio, budget=2, n=50).samples, np.ndarray)
    tensors = sample(lambda n, rng: torch.as_tensor(model(n, rng)), lambda x: ratio(x), budget=2, n=50).samples
    assert isinstance(tensors, torch.Tensor)
    images = sample(lambda n, rng: rng.normal(size=(n, 3, 4, 4)), lambda x: x.mean(axis=(1, 2, 3)), budget=2, n=50)
    assert images.samples.shape == (50, 3, 4, 4)


def test_no_graph_is_kept():
    generator = LatentGenerator(torch.nn.Linear(2, 2), dim=2)
    for method in EVERY:
        budget = np.inf if method == "rejection" else 2
        assert not sample(
            generator, lambda x: x[:, 0], method=SAMPLERS.get(method, method), budget=budget, n=20
        ).samples.requires_grad


def test_progress_is_told():
    told = []
    sample(model, ratio, budget=2, n=500, batch_size=100, progress=lambda *step: told.append(step))
    assert told[-1] == ("samples", 500, 500)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


@pytest.mark.parametrize("stop", ["short", "empty", "StopIteration", "error"])
def test_a_generator_that_stops_leaves_what_there_is(stop):
    calls = 0

    def tired(n, rng):
        nonlocal calls
        calls += 1
        if calls <= 5:
            return model(n, rng)
        if stop == "StopIteration":
            raise StopIteration
        if stop == "error":
            raise RuntimeError("out of memory")
        return model(n, rng)[: n // 2 if stop == "short" else 0]

    word = "failed" if stop == "error" else "stopped"
    with pytest.raises(SamplingError, match=rf"`generator` {word} after .* of 5,000 samples are in ") as caught:
        sample(tired, ratio, budget=2, n=5000, batch_size=100)
    partial = caught.value.partial
    assert isinstance(partial, Refined)
    assert not partial.complete
    assert partial.draws == (550 if stop == "short" else 500)
    assert len(partial.samples) == pytest.approx(250, abs=60)


def test_a_generator_that_stops_after_the_pilot_leaves_its_kept_draws():
    left = 12_000

    def tired(n, rng):
        nonlocal left
        left, n = left - n, min(n, left)
        return model(max(0, n), rng)

    with pytest.raises(SamplingError, match="stopped after 12,000 draws; ") as caught:
        sample(tired, ratio, budget=2, n=50_000)
    partial = caught.value.partial
    assert len(partial.samples) == pytest.approx(6000, abs=200)
    assert partial.acceptance_rate == pytest.approx(0.5, abs=0.02)


# ---------------------------------------------------------------------------------------------------------- errors

ENDS = {
    "constant": ({"ratio": lambda x: np.zeros(len(x))}, "`ratio` must differ between draws"),
    "nan": ({"ratio": lambda x: np.full(len(x), np.nan)}, "`ratio` failed on draws 0 to .* must not return NaN"),
    "ratio shape": ({"ratio": lambda x: x}, "`ratio` failed on draws .* one number per sample"),
    "list": ({"generator": lambda n, rng: [0.0] * n}, "`generator` must return an array or tensor .* got list"),
    "too many": ({"generator": lambda n, rng: model(n + 1, rng)}, "`generator` must return an array or tensor"),
    "rejection": ({"method": SAMPLERS["rejection"], "budget": 1.5}, "`budget` must be at least .* for plain rejection"),
}


@pytest.mark.parametrize(("change", "sentence"), ENDS.values(), ids=ENDS.keys())
def test_what_cannot_be_sampled_says_so(change, sentence):
    arguments = {"generator": model, "ratio": ratio, "budget": 2, "n": 500, **change}
    with pytest.raises(SamplingError, match=sentence) as caught:
        sample(arguments.pop("generator"), arguments.pop("ratio"), **arguments)
    assert "\n" not in str(caught.value)
    assert len(caught.value.partial.samples) == 0


def test_a_shape_that_changes_is_refused():
    sizes = iter([2] * 3 + [3] * 9)
    with pytest.raises(SamplingError, match=r"samples of one shape; got \(3,\) after \(2,\)"):
        sample(lambda n, rng: rng.normal(size=(n, next(sizes))), ratio, budget=2, n=500, batch_size=100)


def test_a_ratio_that_turns_against_its_pilot_does_not_loop_for_ever():
    judged = 0

    def drifting(x):
        nonlocal judged
        judged += len(x)
        return ratio(x) if judged <= 10_000 else np.full(len(x), -1e9)

    with pytest.raises(SamplingError, match="must not change while sampling") as caught:
        sample(model, drifting, budget=2, n=10_000)
    assert len(caught.value.partial.samples) == pytest.approx(5000, abs=200)
    assert caught.value.partial.draws < 30 * 10_000


ARGUMENTS = {
    "n": ({"n": 0}, "`n` must be a whole number"),
    "method": ({"method": "gibbs"}, "`method` must be one of none, obrs"),
    "moved": ({"method": "dot"}, "is in `experiments/common` now"),
    "batch": ({"batch_size": 0}, "`batch_size` must be a whole number"),
    "latents": ({"method": SAMPLERS["soft_truncation"]}, "`generator` must be a LatentGenerator"),
    "gradient": ({"method": SAMPLERS["dgflow"]}, "`generator` must be a LatentGenerator on a torch device"),
    "chains": ({"method": SAMPLERS["metropolis"], "budget": np.inf}, "`budget` must be finite for chains"),
}


@pytest.mark.parametrize(("change", "sentence"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_errors_name_the_argument(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        sample(model, ratio, **{"budget": 2, "n": 10, **change})


def test_fractional_steps_are_refused():
    with pytest.raises(ValueError, match="`budget` must be a whole number"):
        sample(LATENT, ratio, method=SAMPLERS["dgflow"], budget=2.5, n=10)


def test_budget_one_keeps_every_draw():
    for method in ("obrs", "drs", "metropolis", "dgflow", "hard_truncation", "soft_truncation"):
        plain = sample(LATENT, ratio, method="none", budget=1, n=60)
        assert torch.allclose(
            sample(LATENT, ratio, method=SAMPLERS.get(method, method), budget=1, n=60).samples, plain.samples, atol=1e-5
        )


def test_the_room_is_lazy():
    assert precall.improve.sample is sample
    with pytest.raises(AttributeError, match=r"precall\.improve"):
        precall.improve.nothing  # noqa: B018
