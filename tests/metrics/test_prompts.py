"""Pairs of prompt and answer: which samples are compared, what is named, and that folds and tests go by prompt."""

import json
from itertools import product

import numpy as np
import pytest

import precall
from precall.encoders import ENCODERS, Encoder
from precall.metrics.classifiers.folds import FoldedSamples
from precall.metrics.classifiers.held_out import HeldOutScores
from precall.metrics.classifiers.permutation import unit_p_value
from precall.metrics.inputs.features import Pair
from precall.metrics.inputs.sides import Side
from precall.metrics.prompts.matching import matched
from precall.metrics.prompts.within import around_prompts, spread_score, within_scores
from precall.metrics.scores.results import Comparison
from precall.metrics.scores.score import read
from precall.report.page import page_data
from precall.samples import SampleWarning
from precall.samples.fields import open_prompted

pytestmark = pytest.mark.usefixtures("small_committee")


def pairs(real, fake, prompts_real, prompts_fake, **encode):
    how = {"encode": lambda texts: np.zeros((len(texts), 1)), "seed": 0} | encode
    return matched(Side(real), Side(fake), {"real": prompts_real, "fake": prompts_fake}, **how)


def laws(model, n=200, answers=1, seed=0):
    """Features of prompts, one reference each, and answers of a model."""
    rng = np.random.default_rng(seed)
    c = rng.normal(size=(n, 2))
    real, many = c + 0.4 * rng.normal(size=c.shape), np.repeat(c, answers, axis=0)
    noise = 0.4 * rng.normal(size=many.shape)
    fake = {
        "same": many + noise,
        "permuted": np.repeat(c[rng.permutation(n)], answers, axis=0) + noise,
        "repeated": np.repeat(c + 0.4 * rng.normal(size=c.shape), answers, axis=0) + 0.02 * noise,
    }[model]
    return real, fake, {"real": c, "fake": many}


# ------------------------------------------------------------------------------------------------------- matching


def test_prompts_of_one_side_are_named_and_left_out():
    x = np.arange(8.0)[:, None]
    real, fake = pairs(x[:3], x[:3], ["a", "b", "only data"], ["b", "a", "only model"])
    assert real.features.ravel().tolist() == [0, 1]
    assert fake.features.ravel().tolist() == [0, 1]
    assert real.prompted.number.tolist() == [0, 1]
    assert fake.prompted.number.tolist() == [1, 0]
    assert real.prompted.about["only_real"] == ["only data"]
    assert real.prompted.about["only_fake"] == ["only model"]


def test_prompts_that_the_encoder_cuts_are_counted_and_named(monkeypatch):
    numbers = np.random.default_rng(0).normal(size=(2, 60, 2))
    forward = lambda texts: np.array([[len(text), text.count("e")] for text in texts])  # noqa: E731
    short = Encoder("words", "text", {}, str, forward, cuts=lambda text: len(text) > 12)
    monkeypatch.setitem(ENCODERS, "words", lambda: short)
    prompts = [f"prompt {i}" + " which is long" * (i % 20 == 0) for i in range(60)]
    given = {"real": prompts, "fake": prompts}
    with pytest.warns(SampleWarning, match=r"prompts: 3 texts are longer than the encoder reads.*: 0, 20, 40\."):
        found = precall.assess(real=numbers[0], fake=numbers[1], prompts=given, metrics=("fid",))
    (said,) = [one for one in found.protocol["notices"] if one.startswith("prompts: ")]
    assert found.protocol["prompts"]["notes"] == [said]


def test_every_prompt_has_the_same_weight_on_both_sides():
    """Ten prompts with one reference and four answers, and one with three references: two of these are left out."""
    number = np.repeat(np.arange(10), 4)
    real, fake = pairs(np.zeros((12, 1)), np.zeros((40, 1)), [*range(10), 3, 3], number)
    assert np.bincount(real.prompted.number).tolist() == [1] * 10
    assert np.bincount(fake.prompted.number).tolist() == [4] * 10
    assert real.prompted.about["per_prompt"] == {"real": 1, "fake": 4}
    assert real.prompted.about["left_out_real"] == {"prompts": 0, "samples": 2}


@pytest.mark.parametrize(
    ("real", "fake", "said"),
    [
        (["a"], ["a", "a"], "one prompt per sample"),
        (["a", "b"], ["c", "d"], "no prompt of `real`"),
        (["a", "b"], [0, 1], "of one kind"),
        ([0.5, 1.5], [0.5, 1.5], "texts, whole numbers, or rows"),
        ("ab", "ab", "one prompt per sample"),
    ],
)
def test_what_is_no_prompt_is_refused(real, fake, said):
    with pytest.raises(ValueError, match=said):
        pairs(np.zeros((2, 1)), np.zeros((2, 1)), real, fake)


# -------------------------------------------------------------------------------------------------------- by prompt


def test_folds_and_halves_keep_prompts_together():
    rng = np.random.default_rng(0)
    units = np.arange(60), np.repeat(np.arange(60), 3)
    pair = Pair(rng.normal(size=(60, 2)), rng.normal(size=(180, 2)), units)
    folded = FoldedSamples.split(pair, folds=5, inner=3, seed=0)
    for part in (folded.fold, folded.inner):
        assert all(len(set(part[folded.unit == unit])) == 1 for unit in range(60))
    assert folded.independent.sum() == 120


def test_a_bootstrap_draws_prompts_and_permutations_stay_inside_them():
    unit = np.repeat(np.arange(40), 3)
    real = np.arange(120) % 3 == 0
    scores = np.where(unit < 20, 5.0, -5.0)  # differs between prompts only
    held_out = HeldOutScores(scores, real, unit % 5, unit=unit)
    assert held_out.chance(seed=0)["tv"] == 0
    intervals = held_out.intervals(read(held_out.spectrum()), held_out.resampled(seed=0))
    assert intervals["tv"].high - intervals["tv"].low < 0.1


def test_the_test_by_prompt_is_exact_by_enumeration():
    scores = np.array([3.0, 1.0, 2.0, 2.5, 4.0, 0.0])
    real, unit = np.array([True, False] * 3), np.repeat(np.arange(3), 2)
    differences = np.array([2.0, -0.5, 4.0])
    sums = [np.dot(signs, differences) for signs in product((-1, 1), repeat=3)]
    exact = np.mean(np.array(sums) >= differences.sum())
    assert unit_p_value(scores, real, unit) == pytest.approx(exact, abs=0.02)


def test_the_test_by_prompt_does_not_count_copies_of_an_answer():
    """One answer per prompt, given eight times, is one answer: under P = Q, p-values stay uniform."""
    rng, small = np.random.default_rng(0), 0
    for _ in range(40):
        s = np.concatenate([rng.normal(size=30), np.repeat(rng.normal(size=30), 8)])
        unit = np.concatenate([np.arange(30), np.repeat(np.arange(30), 8)])
        small += unit_p_value(s, np.arange(270) < 30, unit) <= 0.05
    assert small <= 7  # binomial(40, .05) exceeds 7 with probability .001


# ---------------------------------------------------------------------------------------------------------- scores


def test_the_effective_number_of_answers_is_that_of_a_discrete_law():
    """Answers far apart, each one of three with equal probability: 1 / (1/3) = 3."""
    rng = np.random.default_rng(0)
    places, number = 100 * np.eye(3), np.repeat(np.arange(200), 10)
    real = places[rng.integers(3, size=400)]
    fake = places[rng.integers(3, size=2000)]
    sides = pairs(real, fake, np.repeat(np.arange(200), 2), number)
    scores = within_scores(*sides, seed=0)
    assert scores["answers_per_prompt"].value == pytest.approx(3, abs=0.15)
    assert scores["answers_per_prompt"].chance == pytest.approx(3, abs=0.4)
    assert scores["near_duplicates"].value == pytest.approx(1 / 3, abs=0.02)


def test_a_tuned_model_is_compared_with_its_base_prompt_by_prompt():
    """Prompts differ in how many answers they allow, which hides a loss that each of them shows: the test is paired."""
    rng, prompts = np.random.default_rng(0), 120
    width = np.repeat(np.exp(rng.normal(size=prompts)), 4)[:, None]
    base, tuned = width * rng.normal(size=(prompts * 4, 3)), 0.8 * width * rng.normal(size=(prompts * 4, 3))
    number = np.repeat(np.arange(prompts), 4)
    found = within_scores(*pairs(base, tuned, number, number), seed=0)["answers_per_prompt"]
    assert found.settings["against"] == "two references"
    assert found.p_value < 1e-3
    assert found.value < found.chance < found.interval.high  # unpaired, it would not show


def test_the_spread_around_prompts_has_an_interval_that_covers():
    rng, hits = np.random.default_rng(1), 0
    for _ in range(60):
        c = rng.normal(size=(80, 2))
        x, y = c + rng.normal(size=(80, 2)), np.repeat(c, 3, axis=0) + 0.7 * rng.normal(size=(240, 2))
        number = np.arange(80), np.repeat(np.arange(80), 3)
        hits += 0.49 in spread_score((c, np.repeat(c, 3, axis=0)), (x, y), number).interval
    assert hits >= 51


def test_what_prompts_predict_does_not_depend_on_the_labels():
    """Otherwise tests that permute labels would not be exact."""
    rng = np.random.default_rng(2)
    c, x, number = rng.normal(size=(60, 3)), rng.normal(size=(2, 60, 2)), np.arange(60)
    one, other = (around_prompts((c, c), sides, (number, number)) for sides in ((x[0], x[1]), (x[1], x[0])))
    np.testing.assert_allclose(one[0], other[1], rtol=1e-12)
    assert one[0].shape == (60, 3)


@pytest.mark.parametrize(
    ("model", "answers", "kind"),
    [("permuted", 1, "misaligned"), ("repeated", 4, "collapses within prompts"), ("same", 1, "indistinguishable")],
)
def test_verdicts_about_prompts(model, answers, kind):
    real, fake, prompts = laws(model, answers=answers)
    found = precall.assess(real=real, fake=fake, prompts=prompts)
    assert found.verdict.kind == kind
    assert found.scores["c2st"].p_value > 0.05  # of the answers alone
    assert found.protocol["prompts"]["unit"] == "prompt"
    assert ("prompts" in page_data(Comparison({"fake": found}))["models"][0]) is (kind != "indistinguishable")
    again = Comparison.from_dict(json.loads(json.dumps(Comparison({"fake": found}).to_dict())))["fake"]
    assert str(again.verdict) == str(found.verdict)


def test_features_that_do_not_show_the_prompt_are_named():
    real, fake, prompts = laws("same", answers=4)
    rng = np.random.default_rng(2)
    real, answers = rng.normal(size=real.shape), rng.normal(size=(len(fake) // 4, fake.shape[1]))
    found = precall.assess(real=real, fake=rng.normal(size=fake.shape), prompts=prompts)
    assert found.verdict.kind == "blind to the prompt"
    alike = np.repeat(answers, 4, axis=0) + 0.02 * rng.normal(size=fake.shape)
    repeated = precall.assess(real=real, fake=alike, prompts=prompts)
    assert repeated.verdict.kind == "collapses within prompts"


def test_classes_are_prompts_with_many_samples():
    rng = np.random.default_rng(0)
    label = rng.integers(4, size=(2, 400))
    real, fake = (np.eye(4)[one] * 5 + rng.normal(size=(400, 4)) for one in label)
    wrong = rng.permutation(label[1])
    found = precall.assess(real=real, fake=fake, prompts={"real": label[0], "fake": wrong})
    assert found.protocol["prompts"]["unit"] == "sample"
    assert found.verdict.kind == "misaligned"


def test_prompts_are_not_combined_with_groups():
    real, fake, prompts = laws("same")
    with pytest.raises(ValueError, match="cannot be combined"):
        precall.assess(real=real, fake=fake, prompts=prompts, groups={"real": [0] * 200, "fake": [0] * 200})


# ----------------------------------------------------------------------------------------------------------- files

ANSWERS = [{"prompt": f"question {i}", "answer": f"text {i}"} for i in range(3)]


def lines(path, records):
    path.write_text("\n".join(map(json.dumps, records)))
    return str(path)


def texts(samples):
    return [samples[i] for i in range(len(samples))]


def test_prompts_from_jsonl_csv_and_captions(tmp_path):
    from PIL import Image

    source = lines(tmp_path / "a.jsonl", ANSWERS)
    opened, prompts = open_prompted(source, prompt="prompt", key="answer", is_real=True)
    assert texts(opened) == ["text 0", "text 1", "text 2"]
    assert prompts == ["question 0", "question 1", "question 2"]
    table = tmp_path / "a.csv"
    table.write_text("id,answer,prompt\n1,yes,one\n2,no,two\n")
    opened, prompts = open_prompted(str(table), prompt="prompt", key="answer", is_real=False)
    assert (texts(opened), prompts) == (["yes", "no"], ["one", "two"])
    folder = tmp_path / "images"
    folder.mkdir()
    for name in ("b.png", "a.png"):
        Image.new("RGB", (4, 4)).save(folder / name)
    lines(folder / "metadata.jsonl", [{"file_name": f"{name}.png", "text": f"a {name}"} for name in "ba"])
    opened, prompts = open_prompted(str(folder), prompt="text", key=None, is_real=False)
    assert (list(opened.ids), prompts) == (["a.png", "b.png"], ["a a", "a b"])
    with pytest.raises(ValueError, match="under 'nothing' in every record"):
        open_prompted(source, prompt="nothing", key="answer", is_real=True)


def test_prompts_from_logs_of_harnesses(tmp_path):
    record = {"doc_id": 0, "doc": {}, "target": "4", "arguments": [["2 + 2 =", {}]], "resps": [["four", "4"]]}
    log = lines(tmp_path / "samples.jsonl", [record])
    opened, prompts = open_prompted(log, prompt="prompt", key="answer", is_real=False)
    assert (texts(opened), prompts) == (["four", "4"], ["2 + 2 ="] * 2)
    opened, prompts = open_prompted(log, prompt="prompt", key="answer", is_real=True)
    assert (texts(opened), prompts) == (["4"], ["2 + 2 ="])
    said = {"choices": [{"message": {"content": [{"type": "text", "text": "four"}]}}]}
    asked = [{"role": "user", "content": "2 + 2 ="}]
    samples = [{"id": 1, "epoch": i, "input": asked, "target": ["4"], "output": said} for i in (1, 2)]
    inspect = tmp_path / "log.json"
    inspect.write_text(json.dumps({"samples": samples}))
    opened, prompts = open_prompted(str(inspect), prompt="prompt", key=None, is_real=False)
    assert (texts(opened), prompts) == (["four", "four"], ["2 + 2 ="] * 2)
    opened, prompts = open_prompted(str(inspect), prompt="prompt", key=None, is_real=True)
    assert texts(opened) == ["4"]
