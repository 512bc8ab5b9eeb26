"""A report on disk is loaded as the same results that were saved."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import precall
from precall.metrics.scores.gates import Gate
from precall.report import folder, page

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "results.schema.json").read_text())


@pytest.fixture(scope="module")
def compared():
    """Every part of a result is present: groups, fairness, a certificate, infinite scores."""
    rng = np.random.default_rng(0)
    real = rng.normal(size=(200, 2))
    models = {"copy": real.copy(), "narrow": 0.3 * rng.normal(size=(160, 2))}
    labels = {"real": [1, 2] * 100, "fake": {"copy": [1, 2] * 100, "narrow": [1, 2] * 80}}
    metrics = ("linear", "clusters", "cover", "neighbors", "copies", "fid", "kid", "c2st", "mauve")
    found = precall.assess(real=real, fake=models, metrics=metrics, groups=labels)
    return replace(found, gates=(Gate("recall", "min", 0.5), Gate("fid", "max", float("inf"))))


@pytest.fixture(scope="module")
def written(compared, tmp_path_factory):
    """The folder of the report, which tests must not change."""
    place = tmp_path_factory.mktemp("written") / "report"
    folder.write(compared, place, command="precall assess …")
    return place


@pytest.fixture
def report(written, tmp_path):
    return Path(shutil.copytree(written, tmp_path / "report"))


def test_a_report_loads_from_its_folder_or_its_file(compared, report):
    for path in (report, str(report), report / "results.json"):
        assert precall.load(path).to_dict() == compared.to_dict()


def test_what_is_loaded_is_what_was_saved_to_the_last_bit(compared, report):
    loaded = precall.load(report)
    assert repr(loaded) == repr(compared)
    lam = np.geomspace(1e-3, 1e3, 50)
    assert compared["copy"].scores["realism"].value == np.inf
    for name, one in compared.items():
        assert loaded[name].scores == one.scores
        assert loaded[name].verdict == one.verdict
        np.testing.assert_array_equal(loaded[name].certificate.alpha(lam), one.certificate.alpha(lam))
        for estimator, spectrum in one.spectra.items():
            np.testing.assert_array_equal(loaded[name].spectra[estimator].p, spectrum.p)
            np.testing.assert_array_equal(loaded[name].spectra[estimator].q, spectrum.q)
        assert loaded[name].fairness == one.fairness
        assert set(loaded[name].groups) == {"1", "2"}


def test_a_loaded_assessment_does_what_a_fresh_one_does(compared, report):
    one = precall.load(report)["narrow"]
    assert one.curve.precision(recall=0.5) == compared["narrow"].curve.precision(recall=0.5)
    assert one.plot().axes[0].get_lines()
    assert one._repr_html_() == compared["narrow"]._repr_html_()


def test_results_follow_the_written_schema(compared):
    saved = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator(SCHEMA).validate(saved)
    assert SCHEMA["properties"]["schema"]["enum"][-1] == saved["schema"]


def shortened(value):
    """The same, with at most three entries in each list: a validator looks at every number of a spectrum."""
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    return [shortened(part) for part in value[:3]] if isinstance(value, list) else value


def test_the_schema_refuses_what_is_not_a_result(compared):
    """Every key that is always written is required, at every level, and nothing else is allowed."""
    validator, saved = Draft202012Validator(SCHEMA), shortened(compared.to_dict())
    assert validator.is_valid(saved)
    del saved["models"]["narrow"]
    one = saved["models"]["copy"]
    del one["groups"]["2"]
    parts = [saved, saved["gates"][0], one, one["certificate"], one["fairness"]["recall"], one["scores"]["fid"]]
    parts += [one["spectra"]["linear"]]
    for part in parts:
        for key in set(part) - {"gates", "moved", "kinds", "interval"}:
            value = part.pop(key)
            assert not validator.is_valid(saved), key
            part[key] = value
        part["unknown"] = 1
        assert not validator.is_valid(saved)
        del part["unknown"]
    assert validator.is_valid(saved)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "must be a JSON object"),
        ("[]", "must be a JSON object"),
        ("{}", "with the key `schema`"),
        ('{"schema": 1, "models": {}}', "must have schema 3; got 1. Assess again"),
        ('{"schema": 3, "models": {}}', "`models` must have at least 1 entries"),
        ('{"schema": 3, "models": {"a": {"schema": 3}}}', "`models.a` lacks `name`"),
        ('{"schema": 3, "models": {"a": 3}}', "`models.a` must be of type object"),
    ],
)
def test_a_file_that_holds_no_results_costs_a_sentence(tmp_path, text, sentence):
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ValueError, match=sentence) as caught:
        precall.load(tmp_path)
    assert "results.json" in str(caught.value)


def test_a_missing_report_says_what_writes_one(tmp_path):
    with pytest.raises(ValueError, match="`precall assess --out` writes one"):
        precall.load(tmp_path)


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [("results", "name", 3), ("results", "protocol", []), ("results", "estimator", "other"), ("galleries", None, 0.5)],
)
def test_parts_of_another_type_cost_a_sentence(report, file, key, value):
    path = report / f"{file}.json"
    saved = json.loads(path.read_text()) if path.exists() else {"copy": {}}
    if key is None:
        saved["copy"] = value
    else:
        saved["models"]["copy"][key] = value
    path.write_text(json.dumps(saved))
    with pytest.raises(ValueError, match="must be"):
        folder.load(report)


def test_gates_are_saved_with_the_models_that_meet_them(compared, report):
    saved = json.loads((report / "results.json").read_text())
    assert saved["gates"][0] == {
        "score": "recall",
        "kind": "min",
        "limit": 0.5,
        "met": {"copy": True, "narrow": False},
    }
    assert saved["gates"][1]["limit"] == "inf"
    assert precall.load(report).gates == compared.gates
    assert "gates" not in replace(compared, gates=()).to_dict()


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ({"score": "recall", "kind": "about", "limit": 0.5}, "must be one of min, max; got 'about'"),
        ({"score": "recall", "kind": "min", "limit": "nan"}, "must be a number"),
        ({"score": 3, "kind": "min", "limit": 0.5}, "must be of type string"),
        ({"kind": "min", "limit": 0.5}, "lacks `score`"),
        ("recall", "must be of type object"),
    ],
)
def test_a_gate_of_another_form_costs_a_sentence(report, gate, said):
    path = report / "results.json"
    whole = gate | {"met": {}} if isinstance(gate, dict) else gate
    path.write_text(json.dumps(json.loads(path.read_text()) | {"gates": [whole]}))
    with pytest.raises(ValueError, match=said):
        folder.load(report)


def test_a_gate_on_a_score_that_was_not_computed_is_not_met(compared):
    gate = Gate("no_such_score", "min", 0.0)
    html = page.render(replace(compared, gates=(gate,)))
    assert '"met":false' in html
    assert not gate.met(compared["copy"].scores)
