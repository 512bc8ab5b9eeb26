"""Ratios of several distributions at once: one cross-fitted classifier with a class per sample set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from precall.theory.arrays import Array, Index

FOLDS = 4
AXES = 24  # principal axes of the quadratic and the neighbour members
FLOOR = 1e-6  # least probability of a class
ROUNDS = 100  # rounds of the EM algorithm


def class_ratios(sets: Sequence[Array], *, seed: int = 0) -> tuple[Array, Index, Index]:
    """Density of each set relative to the pooled density, at every sample, by models that were not trained on it.

    The members are a linear, a Gaussian, a tree and a neighbour classifier with one class per set. Their probabilities
    are averaged with the weights of the largest held-out likelihood.

    Returns ratios `f_c/f̄` of mean one, shape (N, C) with N the number of all samples; the set of each sample; and its
    fold.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> ratios, label, fold = class_ratios([rng.normal(k, 1, (300, 1)) for k in (0, 4)])
        >>> bool(ratios[label == 0, 0].mean() > 1.8 > 0.2 > ratios[label == 1, 0].mean())
        True
    """
    x = np.concatenate([np.asarray(one, dtype=np.float64) for one in sets])
    label = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-12)
    fold = np.empty(len(x), dtype=np.intp)
    rng = np.random.default_rng(seed)
    for k in range(len(sets)):  # each set is spread evenly over the folds
        rows = rng.permutation(np.flatnonzero(label == k))
        fold[rows] = np.arange(len(rows)) % FOLDS
    members = np.zeros((len(MEMBERS), len(x), len(sets)))
    for k in range(FOLDS):
        train, test = fold != k, fold == k
        for j, member in enumerate(MEMBERS):
            members[j, test] = np.maximum(member(x[train], label[train], x[test], seed), FLOOR)
    probability = np.einsum("j,jnc->nc", _weights(members[:, np.arange(len(x)), label]), members)
    return probability / probability.mean(axis=0), label, fold


def _weights(at_label: Array) -> Array:
    """Weights on the simplex of members with these probabilities of the true classes, by the EM algorithm."""
    w = np.full(len(at_label), 1 / len(at_label))
    for _ in range(ROUNDS):
        joint = w[:, None] * at_label
        w = (joint / joint.sum(axis=0)).mean(axis=1)
    return w


def _linear(x: Array, label: Index, new: Array, seed: int) -> Array:
    from sklearn.linear_model import LogisticRegression

    return np.asarray(LogisticRegression(C=0.1, max_iter=200).fit(x, label).predict_proba(new))


def _gaussian(x: Array, label: Index, new: Array, seed: int) -> Array:
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    x, new = _projected(x, new)
    return np.asarray(QuadraticDiscriminantAnalysis(reg_param=0.05).fit(x, label).predict_proba(new))


def _trees(x: Array, label: Index, new: Array, seed: int) -> Array:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, learning_rate=0.1, random_state=seed)
    return np.asarray(model.fit(x, label).predict_proba(new))


def _neighbors(x: Array, label: Index, new: Array, seed: int) -> Array:
    from sklearn.neighbors import KNeighborsClassifier

    x, new = _projected(x, new)
    k = max(10, round(len(x) ** 0.5))
    share = np.bincount(label) / label.size
    found = KNeighborsClassifier(n_neighbors=k).fit(x, label).predict_proba(new)
    return np.asarray((k * found + share) / (k + 1))  # one neighbour in the proportions of all


def _projected(x: Array, new: Array) -> tuple[Array, Array]:
    """The samples along their leading principal axes."""
    if x.shape[1] <= AXES:
        return x, new
    mean = x.mean(axis=0)
    axes = np.linalg.svd(x - mean, full_matrices=False)[2][:AXES].T
    return (x - mean) @ axes, (new - mean) @ axes


MEMBERS: tuple[Callable[[Array, Index, Array, int], Array], ...] = (_linear, _gaussian, _trees, _neighbors)
