"""A language model on text: the experiment runs at a small size, and its parts compute what they say."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from experiments.common.gains import best_of_line, gains
from experiments.common.gpt import GPT, drawn, log_likelihoods, nucleus, trained
from experiments.common.minilm import HEADS, MiniLM, WordPieces
from experiments.common.newsgroups import SHARES, body, copied, cut, windows
from experiments.extensions.text_dial import COMPARED, LINE, SETTINGS, Options, made_up

RESULTS = Path(__file__).parents[3] / "experiments" / "extensions" / "results" / "text_dial.json"
CPU = torch.device("cpu")
FEW = ["data", "base,T=1", "base,T=0.5,reject=2", "bins,T=1,tilt=9", "cells,T=1", "target-10,T=1", "ascent-0.1,T=1"]


@pytest.mark.usefixtures("small_steps")
def test_smoke(run, tmp_path):
    words = ("--smoke", "--seeds", 3, "--work", tmp_path / "work", "--out", tmp_path, "--settings", *FEW)
    printed = run("extensions.text_dial", *words)
    rows = json.loads((tmp_path / "text_dial.json").read_text())["rows"]
    assert [(row["seed"], row["setting"]) for row in rows] == [(3, name) for name in FEW]
    assert all(0 <= row["recall"] <= 1 and row["log_likelihood"] < 0 for row in rows)
    assert (tmp_path / "text_dial.png").stat().st_size > 1000
    assert "base of seed 3: {'steps'" in printed
    assert "of seed 3: {" not in run("extensions.text_dial", *words)  # nothing is trained twice


def test_settings_say_what_is_drawn():
    assert Options.of("cells,T=0.6,reject=3") == Options("cells", T=0.6, reject=3, plain="cells,T=0.6")
    assert Options.of("base,p=0.9").p == 0.9
    assert set(LINE) < set(SETTINGS)


# ------------------------------------------------------------------------------------------------------- comparisons


def test_a_line_that_turns_back_counts_with_its_better_branch():
    line = np.array([[0.1, 0.95], [0.7, 0.9], [0.75, 0.8], [0.6, 0.7]])
    assert best_of_line(line, 0.65) == pytest.approx(0.9 + 0.05 / 12)
    assert np.isnan(best_of_line(line, 0.76))
    assert np.isnan(best_of_line(line, 0.05))


def scored(seed, name, precision, recall, half=0.01):
    widths = {"precision": half, "recall": half}
    return {"seed": seed, "setting": name, "precision": precision, "recall": recall, "half_width": widths}


def test_gains_have_intervals_of_seeds_and_sampling():
    rows = [scored(seed, f"T={t}", 1 - t, t, half=1e-9) for seed in range(3) for t in (0.2, 0.8)]
    rows += [scored(seed, "new", 0.5, 0.6 + 0.01 * seed, half=1e-9) for seed in range(3)]
    rows += [scored(seed, "beyond", 0.9, 0.6) for seed in range(3)]
    found = gains(rows, ["T=0.2", "T=0.8"], score="recall", at="precision")
    assert list(found) == ["new"]
    assert found["new"]["seeds"] == {"0": 0.1, "1": 0.11, "2": 0.12}
    assert found["new"]["half_width"] == pytest.approx(
        4.3027 * 0.01 / 3**0.5, abs=2e-4
    )  # t with two degrees of freedom
    assert gains(rows[1:], ["T=0.2", "T=0.8"], score="recall", at="precision") == {}  # the line is incomplete


def test_the_sampling_error_is_that_of_both_scores_and_of_the_line():
    rows = [scored(0, f"T={t}", 1 - t, t) for t in (0.2, 0.8)] + [scored(0, "new", 0.5, 0.6)]
    found = gains(rows, ["T=0.2", "T=0.8"], score="recall", at="precision")["new"]
    # the slope is −1: .01² (1 + 1) of the setting, and half of that of the line, in its middle
    assert found["half_width"] == pytest.approx(0.01 * 3**0.5, rel=0.1)


def test_the_published_gains_are_those_of_the_published_rows():
    published = json.loads(RESULTS.read_text())
    assert len(published["rows"]) == 3 * len(SETTINGS)
    for score, at in COMPARED[:2]:
        assert published["beyond"][f"{score} at equal {at}"] == gains(published["rows"], LINE, score=score, at=at)


def test_rejection_and_cells_lie_outside_the_published_line():
    beyond = json.loads(RESULTS.read_text())["beyond"]
    for name, at, score in (
        ("base,T=1,reject=2", "precision", "recall"),
        ("base,T=0.9,reject=3", "log_likelihood", "recall"),
        ("cells,T=0.7", "recall", "precision"),
        ("cells,T=0.9", "log_likelihood", "precision"),
    ):
        found = beyond[f"{score} at equal {at}"][name]
        assert found["mean"] > found["half_width"]


# ----------------------------------------------------------------------------------------------------- language model


@pytest.fixture
def net():
    torch.manual_seed(0)
    made = GPT(7, 5, conditions=3, width=8, depth=2, heads=2)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def test_a_draw_follows_the_likelihood(net):
    """Draws with a cache of keys and values have the probabilities that the network gives to whole texts."""
    tokens = drawn(net, torch.full((20_000,), 2), temperature=1, seed=0)
    logs = log_likelihoods(net, torch.as_tensor(tokens), torch.full((20_000,), 2)).sum(1)
    texts, first, counts = np.unique(tokens, axis=0, return_index=True, return_counts=True)
    often = counts > 50
    expected = 20_000 * np.exp(logs[first[often]])
    assert often.sum() > 10
    assert np.abs(counts[often] - expected).max() < 5 * np.sqrt(expected).max()
    assert len(texts) > 100


def test_a_loss_that_is_never_finite_is_an_error(net):
    tokens = torch.zeros(4, 5, dtype=torch.int64)
    torch.nn.init.constant_(net.last.weight, torch.nan)
    with pytest.raises(FloatingPointError, match="never finite in 3 steps"):
        trained(net, (tokens, tokens[:, 0]), (tokens, tokens[:, 0]), steps=3, batch=2)


def test_a_text_depends_on_its_condition_and_not_on_what_follows(net):
    tokens = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, 6, 5]])
    a, b = log_likelihoods(net, tokens, torch.zeros(2, dtype=torch.int64))
    assert np.allclose(a[:3], b[:3])
    assert not np.allclose(a, log_likelihoods(net, tokens[:1], torch.ones(1, dtype=torch.int64))[0])


def test_a_low_temperature_and_a_small_top_p_take_the_most_probable_piece(net):
    zeros = torch.zeros(50, dtype=torch.int64)
    cold, narrow = drawn(net, zeros, temperature=1e-3, seed=0), drawn(net, zeros, top_p=1e-6, seed=1)
    assert (cold == narrow[0]).all()
    assert nucleus(torch.tensor([[0.5, 0.2, 0.3]]), 0.79).tolist()[0][1] == 0


# --------------------------------------------------------------------------------------------------- texts, features


def test_the_encoder_is_bert():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    _, pieces, _ = made_up()
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "intermediate_size": 48, "num_attention_heads": HEADS}
    bert = transformers.BertModel(transformers.BertConfig(vocab_size=len(pieces), **sizes)).eval()
    for parameter in bert.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    encoder = MiniLM(pieces, bert.state_dict(), CPU)
    [row] = rows = [[0, *encoder.words.of("abc . de"), 1]]
    with torch.no_grad():
        expected = bert(torch.tensor(rows)).last_hidden_state.mean(1)[0]
        found = encoder.batch([row, row + row])[0]  # padding changes nothing
    assert torch.allclose(found, expected / expected.norm(), atol=1e-5)


def test_pieces_are_the_longest_that_fit():
    words = WordPieces(["[UNK]", "a", "ab", "##b", "##bc", "."])
    assert words.of("abbc. A") == [2, 4, 5, 1]
    assert words.of("xa") == [0]
    assert words.text([2, 4, 5, 1]) == "abbc . a"


def test_windows_are_parts_of_sentences_of_one_post():
    posts, pieces, _ = made_up()
    found = windows(posts, pieces=pieces, size=110, length=8)
    assert found.tokens.shape[1] == 8
    assert sorted(set(found.parts.tolist())) == list(range(len(SHARES)))
    assert len({tuple(row) for row in found.tokens.tolist()}) == len(found.tokens)
    repeated = windows(posts + posts, pieces=pieces, size=110, length=8)
    assert len(repeated.tokens) == len(found.tokens)  # repeated posts are taken once
    sizes = np.bincount(found.parts) / len(found.parts)
    assert np.abs(sizes - list(SHARES.values())).max() < 0.05


def test_windows_begin_with_a_sentence_and_do_not_overlap():
    words = WordPieces(["[UNK]", "one", "two", "."])
    tokens = words.of("one two one . two two . one one one")
    assert list(cut(words, tokens, 3)) == [words.of("one two one"), words.of("two two ."), words.of("one one one")]


def test_bodies_have_no_header_quote_or_signature():
    post = "From: a\nSubject: b\n\nJoe writes:\n> old\n: old\nNew.\nMore\n--\nJoe"
    assert body(post) == "New. More"


def test_copied_texts_are_found():
    train = np.arange(40).reshape(2, 20)
    texts = np.stack([train[0], np.r_[np.full(8, 99), train[1][3:15]], np.r_[train[1][:11], np.full(9, 99)]])
    assert copied(texts, train) == pytest.approx(2 / 3)
