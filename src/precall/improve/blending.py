"""`blend`: the best mixture of several models, checkpoints or settings at a slope λ, with rejection on top.

With models q_1, …, q_M and a mean of v_m draws of model m per kept sample, rejection reaches precision

    α(λ) = min(1, ∫ min(λ p, Σ v_m q_m)),    Σ v_m = K,

which is concave in v: a linear programme on samples. The mathematics is in docs/theory.md, Rejection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from precall.metrics.inputs.features import same_dimension
from precall.metrics.inputs.sides import side
from precall.metrics.scores.score import plain, readings
from precall.printing import aligned
from precall.theory import checks
from precall.theory.arrays import Array, Flags, Index, to_numpy
from precall.theory.spectrum import RatioSpectrum

GROUP = 400  # samples in a group of similar ratios, in which a blend is chosen by counting
SLOPES = (1e-2, 1e2)  # range of λ in the search for a precision
STEPS = 12  # steps of that search
REPLICATES = 30  # of the counts by which a blend is chosen
CELLS = 6  # cells of similar ratio in which a blend is predicted
FRUGAL = 1e-5  # a draw more must gain this much
ERRORS = 1.0  # standard errors by which a blend of more models must be better
NAMED = 0.005  # a smaller weight counts as none
FOLDS = 4
AXES = 24  # principal axes of the quadratic and the neighbour members
FLOOR = 1e-6  # least probability of a class
ROUNDS = 100  # rounds of the EM algorithm


@dataclass(frozen=True)
class BlendMember:
    """One of the blended models: its share of the draws, and α(λ) of it alone and of the best blend without it."""

    weight: float
    alone: float
    without: float


@dataclass(frozen=True, eq=False, repr=False)
class Blend:
    """The best mixture of several models. It prints as a table.

    Attributes:
        weights: share of the draws of each model, by name; they sum to one.
        predicted: spectrum of the data and the blend after rejection, on samples that did not choose the weights.
        members: what each model contributes, by name.
        budget: K, draws per kept sample; 1 without rejection.
        acceptance: for each model, the probability to keep each of its given samples if their numbers are in proportion
            to the weights.
    """

    weights: Mapping[str, float]
    predicted: RatioSpectrum
    members: Mapping[str, BlendMember]
    lam: float
    budget: float
    acceptance: Mapping[str, Array]

    def __repr__(self) -> str:
        head = ["model", "weight", f"α({self.lam:.3g}) alone", "best without it"]
        rows = [
            [name, f"{one.weight:.1%}", f"{one.alone:.3f}", f"{one.without:.3f}"] for name, one in self.members.items()
        ]
        alpha = float(self.predicted.alpha(self.lam))
        reached = f"α = {alpha:.3f}, recall {min(1.0, alpha / self.lam):.3f}"
        return "\n".join(
            [*aligned([head, *rows], right=True), "", f"blend, {self.budget:.3g} draws per sample: {reached}"]
        )

    def to_dict(self) -> dict[str, Any]:
        """The blend as JSON-compatible values."""
        members = {name: vars(one) for name, one in self.members.items()}
        simple = {"weights": dict(self.weights), "lam": self.lam, "budget": self.budget, "members": members}
        return {**plain(simple), "alpha": float(self.predicted.alpha(self.lam)), "predicted": readings(self.predicted)}


@dataclass(frozen=True, eq=False)
class Ratios:
    """Densities of the data and the models relative to the pooled density, at pooled samples."""

    p: Array
    q: Array

    def alpha(self, lam: float, v: Array) -> float:
        """`min(1, ∫ min(λ p, Σ v q))`."""
        return min(1.0, float(np.minimum(lam * self.p, self.q @ v).mean()))

    def best(self, lam: float, budget: float, costs: Array, allowed: Flags) -> Array:
        """Draws v of each model per kept sample with the largest α(λ), by a linear programme."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix, eye, hstack, vstack

        n, m = self.q.shape
        below = hstack([csr_matrix(-self.q), eye(n)])  # t ≤ Σ v q
        spent = np.append(costs, np.zeros(n))[None]  # Σ c v ≤ budget
        one = np.append(-np.ones(m), np.zeros(n))[None]  # Σ v ≥ 1
        limits = [(0, None if ok else 0) for ok in allowed] + [(0, top) for top in lam * self.p]
        found = linprog(
            np.append(np.full(m, FRUGAL), np.full(n, -1 / n)),
            A_ub=vstack([below, csr_matrix(spent), csr_matrix(one)]),
            b_ub=np.concatenate([np.zeros(n), [budget, -1.0]]),
            bounds=limits,
            method="highs",
        )
        return np.zeros(m) if found.x is None else np.asarray(found.x[:m])  # none if the budget pays for no draw


def blend(
    *,
    real: Any,
    fakes: Mapping[str, Any],
    lam: float = 1.0,
    budget: float | None = None,
    costs: Mapping[str, float] | None = None,
    precision_at_least: float | None = None,
    encoder: Any = None,
    seed: int = 0,
    device: str | None = None,
) -> Blend:
    """Mix several models so that the blend has the largest precision α(λ), and reject within a budget.

    A blend is at least as good as its best member, and better where the members miss different data. Weights are
    chosen and predicted on different folds. A model without which α(λ) falls by less than a standard error is left out.

    Args:
        real: the data, as in `precall.assess`.
        fakes: samples of each model, by name: at least two models, of any numbers of samples.
        lam: slope λ; large values favour precision, small values recall.
        budget: K ≥ 1, draws per kept sample; with `costs`, the largest mean cost of a kept sample. None: no
            rejection.
        costs: cost of a draw of each model; 1 for models that are not named.
        precision_at_least: if given, the blend has the largest recall at this precision, and `lam` follows from it.
        encoder, seed, device: as in `select`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> left, right = rng.normal(-4, 1, (400, 1)), rng.normal(4, 1, (400, 1))
        >>> real = np.concatenate([rng.normal(-4, 1, (280, 1)), rng.normal(4, 1, (120, 1))])
        >>> found = blend(real=real, fakes={"left": left, "right": right})
        >>> round(found.weights["left"], 1), bool(found.predicted.alpha(1.0) > 0.85 > found.members["left"].alone)
        (0.7, True)

    References:
        docs/theory.md, Rejection.
    """
    lam = checks.positive("lam", lam)
    names = list(fakes) if isinstance(fakes, Mapping) else []
    if len(names) < 2:
        raise ValueError("`fakes` must be a mapping of at least two names to sample sets, as in {'a': a, 'b': b}.")
    if unknown := sorted(set(costs or {}) - set(names)):
        raise ValueError(f"`costs` must name models of `fakes`; got {', '.join(unknown)}.")
    price = np.array([checks.positive("costs", (costs or {}).get(name, 1.0)) for name in names])
    K = 1.0 if budget is None else checks.positive("budget", budget)
    if budget is not None and costs is None:
        checks.budget(budget)
    how: dict[str, Any] = {"encoder": encoder, "loaded": {}, "device": device}
    data = side("real", real, **how)
    models = [side("fake", fakes[name], reference=data, **how) for name in names]
    for one in models:
        same_dimension(real=data.features, fake=one.features)
    ratios, label, fold = class_ratios([to_numpy(one.features) for one in (data, *models)], seed=seed)
    found = Ratios(ratios[:, 0], ratios[:, 1:])
    group = _grouped(ratios, label, seed)
    return _Problem(found, label, fold, names, price, K, budget is None, group).solved(lam, precision_at_least)


def _grouped(ratios: Array, label: Index, seed: int) -> Index:
    """Groups of samples whose ratios are similar, joined while that lowers the Bayesian information criterion.

    Groups that differ by chance alone are one, because each group more lets the weights follow its errors.
    """
    from scipy.special import xlogy
    from sklearn.cluster import KMeans

    means = KMeans(max(8, min(64, len(ratios) // GROUP)), n_init=1, random_state=seed)
    group = np.unique(means.fit_predict(np.sqrt(ratios / ratios.sum(axis=1, keepdims=True))), return_inverse=True)[1]
    sets = ratios.shape[1]
    n = np.array([np.bincount(label[group == k], minlength=sets) for k in range(group.max() + 1)])
    while len(n) > 1:
        fit, joint = (xlogy(c, c / c.sum(axis=-1, keepdims=True)).sum(axis=-1) for c in (n, n[:, None] + n))
        lost = np.where(np.tri(len(n), dtype=bool), np.inf, fit[:, None] + fit - joint)  # of the log-likelihood
        i, j = np.unravel_index(lost.argmin(), lost.shape)
        if 2 * lost[i, j] > (sets - 1) * math.log(len(label)):
            break
        n[i] += n[j]
        n, group = np.delete(n, j, axis=0), np.where(group == j, i, group - (group > j))
    return np.asarray(group, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class _Problem:
    """A blend to be found: ratios at all samples, and what may be spent."""

    ratios: Ratios
    label: Index
    fold: Index
    names: list[str]
    costs: Array
    budget: float
    single: bool
    group: Index

    def solved(self, lam: float, precision: float | None) -> Blend:
        """The best blend at λ, or at the smallest λ with this precision."""
        every = np.ones(len(self.names), dtype=bool)
        if precision is not None:
            lam = self._slope(float(checks.unit("precision_at_least", precision)), every)
        v, predicted = self._simplest(lam, ERRORS if precision is None else 0.0)
        if predicted is None:
            raise ValueError(f"`budget` must pay for one draw of the cheapest model; got {self.budget:g}. Raise it.")
        one = np.eye(len(every), dtype=bool)
        alone, without = ([_alpha(self._crossed(lam, some), lam) for some in which] for which in (one, ~one))
        v = np.where(v < NAMED * v.sum(), 0.0, v)
        K, weights = max(1.0, float(v.sum())), v / v.sum()
        mixed = self.ratios.q @ weights
        keep = np.minimum(1.0, lam * self.ratios.p / np.maximum(K * mixed, 1e-12)) if K > 1 else np.ones(len(mixed))
        members = zip(self.names, weights.tolist(), alone, without, strict=True)
        return Blend(
            weights=dict(zip(self.names, weights.tolist(), strict=True)),
            predicted=predicted,
            members={name: BlendMember(*numbers) for name, *numbers in members},
            lam=lam,
            budget=K,
            acceptance={name: keep[self.label == k + 1] for k, name in enumerate(self.names)},
        )

    def _simplest(self, lam: float, errors: float) -> tuple[Array, RatioSpectrum | None]:
        """The blend of fewest models within some standard errors of the best one, and its spectrum on other samples.

        Each model more lets the weights follow the errors of the samples.
        """
        kept = np.ones(len(self.names), dtype=bool)
        spectrum = self._crossed(lam, kept)
        least = _alpha(spectrum, lam) - errors * self._standard_error(spectrum, lam)
        while kept.sum() > 1:
            fewer = [kept & (np.arange(kept.size) != k) for k in np.flatnonzero(kept)]
            best = max(((one, self._crossed(lam, one)) for one in fewer), key=lambda pair: _alpha(pair[1], lam))
            if _alpha(best[1], lam) < least:
                break
            kept, spectrum = best
        return self._best(lam, np.ones(len(self.fold), dtype=bool), kept), spectrum

    def _standard_error(self, spectrum: RatioSpectrum | None, lam: float) -> float:
        """Of `α(λ) = λ P(A) + Q(not A)`, with A where λ p < q, for sets as small as the smallest."""
        if spectrum is None:
            return 0.0
        below = lam * spectrum.p < spectrum.q
        P, Q = (min(1.0, float(part.sum())) for part in (spectrum.p[below], spectrum.q[~below]))  # sums are rounded
        return math.sqrt((lam**2 * P * (1 - P) + Q * (1 - Q)) / int(np.bincount(self.label).min()))

    def _crossed(self, lam: float, allowed: Flags) -> RatioSpectrum | None:
        """The spectrum of the best blend of some models, on samples other than those that chose it."""
        return self._spectrum([self._best(lam, self.fold % 2 != k, allowed) for k in (0, 1)])

    def _spectrum(self, draws: list[Array]) -> RatioSpectrum | None:
        """The spectrum after rejection with `draws[k]` of each model on half k of the samples; None without draws."""
        p, q = np.zeros((2, CELLS))
        for k, v in enumerate(draws):
            if not v.any():
                return None
            half = self.fold % 2 == k
            sizes = np.bincount(self.label[half], minlength=len(v) + 1)
            mass = np.append(1.0, v / v.sum()) / np.maximum(sizes, 1)
            score = self.ratios.p[half] / np.maximum(self.ratios.q[half] @ v, 1e-12)
            cell = np.searchsorted(np.quantile(score, np.linspace(0, 1, CELLS + 1)[1:-1]), score, side="right")
            real = self.label[half] == 0
            weight = mass[self.label[half]]
            p += np.bincount(cell[real], weight[real], CELLS) / len(draws)
            q += np.bincount(cell[~real], weight[~real], CELLS) / len(draws)
        budget = max(1.0, float(np.mean([v.sum() for v in draws])))
        return RatioSpectrum.from_masses(p=p, q=q).refined(budget)

    def _best(self, lam: float, rows: Flags, allowed: Flags) -> Array:
        costs, budget = (np.ones(len(self.names)), 1.0) if self.single else (self.costs, self.budget)
        return self._counted(rows).best(lam, budget, costs, allowed)

    def _counted(self, rows: Flags) -> Ratios:
        """The share of each set in each group of similar ratios, in replicates of the samples (Bayesian bootstrap)."""
        # errors of single ratios average out in groups, and the expected α(λ) does not follow those of single groups
        groups = int(self.group.max()) + 1
        place = self.label[rows] * groups + self.group[rows]
        counts = np.bincount(place, minlength=(len(self.names) + 1) * groups).reshape(-1, groups)
        again = np.random.default_rng(0).gamma(counts[:, None], size=(len(counts), REPLICATES, groups))
        shares = (groups * again / again.sum(axis=2, keepdims=True)).reshape(len(counts), -1)
        return Ratios(shares[0], shares[1:].T)

    def _slope(self, precision: float, every: Flags) -> float:
        """The smallest λ at which the best blend has this precision on other samples: its recall is the largest."""
        low, high = (math.log(end) for end in SLOPES)
        for _ in range(STEPS):
            lam = math.exp((low + high) / 2)
            reached = _alpha(self._crossed(lam, every), lam) >= precision
            low, high = (low, math.log(lam)) if reached else (math.log(lam), high)
        return math.exp(high)


def _alpha(spectrum: RatioSpectrum | None, lam: float) -> float:
    return 0.0 if spectrum is None else float(spectrum.alpha(lam))


def class_ratios(sets: Sequence[Array], *, seed: int = 0) -> tuple[Array, Index, Index]:
    """Ratios `f_c/f̄` of mean one at every sample, shape (N, C), by models not trained on it; its set; and its fold.

    The members have one class per set, and are averaged with the weights of the largest held-out likelihood.
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
