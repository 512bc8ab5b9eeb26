"""What "the same row" is, for folds, tests, copies, notices and selection.

Rows are one record if all their values are equal, or if they are so much closer to each other than to the rows around
them that independent rows of a smooth density almost never are. A record that recurs counts once if records recur far
more often within the sets than between them, since rows were then repeated; otherwise it is an atom of the
distribution, and each of its rows counts. A model must not be tested on copies of rows that it was trained on.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from precall.lazy import torch
from precall.theory.arrays import Array, Counts, Flags, Index, Matrix, Tensor, to_numpy

RECURRING = 10  # a row that occurs so often may be an atom of the distribution
WHOLE = 0.9  # share of a set's rows that recur in it alone from which the set was repeated as a whole
UNIQUE = 0.1  # share of values that occur once from which a column is continuous
COMMON = 0.1  # share of one set from which a row is an atom: one fold cannot hold it without being mostly that row
REPEATED = 4  # rows were repeated if they are so many times as often equal within the sets as between them
NEIGHBORS = 64  # number of neighbours whose distance is the local scale
QUERIES = 512  # rows that are examined before all are
FEW = 0.02  # share of the examined rows with a twin up to which no rows were repeated
RARE = 0.05  # share of rows up to which a value of a column with two values is rare
SCREENED_ROWS = 1000  # rows in which columns with two values are looked for
SKETCH = 32  # number of dimensions in which neighbours are searched
SCALE_ROWS = 500  # rows from which the scale of each column is computed
COMPARED = 8  # columns that are compared before whole rows are
BLOCK = 512  # rows whose distances are in memory at the same time
TWIN = 0.1  # in `twin_records`: distance of twins, as a share of the distance to the fourth neighbour


def first_equal_row(x: Matrix | Tensor) -> Index:
    """Index of the first row that is equal to each row, which is the row itself if all rows differ."""
    # equal rows share a number that a few of their values make; hardly any other rows do
    some = np.ascontiguousarray(to_numpy(x[:, :: max(1, x.shape[1] // COMPARED)]) + 0.0)  # −0 becomes 0
    factors = np.random.default_rng(0).integers(-(2**63), 2**63, some.shape[1])
    _, group, count = np.unique(some.view(f"i{some.itemsize}") @ factors, return_inverse=True, return_counts=True)
    alike, found, known = np.flatnonzero(count[group] > 1), np.arange(len(x)), dict[bytes, int]()
    keys = row_keys(to_numpy(x[alike])) if len(alike) else []
    found[alike] = [known.setdefault(key, i) for i, key in zip(alike.tolist(), keys, strict=True)]
    return found


def row_keys(x: Matrix) -> list[bytes]:
    """A key of each row, which equal rows share."""
    blocks = (np.ascontiguousarray(x[i : i + BLOCK] + 0.0) for i in range(0, len(x), BLOCK))  # −0 becomes 0
    return [blake2b(row, digest_size=16).digest() for block in blocks for row in block]


def kept_together(x: Matrix | Tensor, first: Index, real: Flags) -> Index:
    """The row that each row must stay with: the first equal one, or itself if the row is an atom of the distribution.

    An atom occurs `RECURRING` times or more, and its set was not repeated as a whole, or its values are categories; or
    it makes up the share `COMMON` of one set. Its rows are samples like others, and no fold may be without it.
    """
    p, q = (np.bincount(first[mask], minlength=len(first)) for mask in (real, ~real))
    atom = (p + q >= RECURRING) & ~_copied(x, p, q) & ~_copied(x, q, p)
    atom |= (p > COMMON * real.sum()) | (q > COMMON * (~real).sum())
    return np.where(atom[first], np.arange(len(first)), first)


def _copied(x: Matrix | Tensor, own: Index, other: Index) -> Flags:
    """Which rows are in this set alone, if it was repeated as a whole: nearly all of its rows recur in it alone."""
    repeated = (own > 1) & (other == 0)
    if own[repeated].sum() <= WHOLE * own.sum():
        return np.zeros(len(own), dtype=bool)
    return np.asarray((other == 0) & ~of_categories(to_numpy(x), own))


def of_categories(x: Matrix, count: Index) -> Flags:
    """Which rows have no value of a continuous column, in which many values occur once; `count` 0 leaves rows out."""
    found, rows = np.ones(len(x), dtype=bool), np.flatnonzero(count)
    if x.shape[1] > 1:  # a single column cannot show this
        counted = [np.unique(column, return_inverse=True, return_counts=True)[1:] for column in x[rows].T]
        once = np.stack([counts[inverse] == 1 for inverse, counts in counted])
        found[rows] = ~np.any(once[once.mean(axis=1) > UNIQUE], axis=0)
    return found


def linked_rows(x: Matrix | Tensor, together: Index, real: Flags) -> Index:
    """`together`, extended by twins: rows of one set that are far closer to each other than to their surroundings.

    Two rows are twins if their distance is below a small share of that to the 64th neighbour: 10^(−5/d) in d dimensions
    (but .001 to .05). Narrow modes have such pairs, too, but between the sets as well, or many at one place: they count
    only if they are far more frequent within the sets, and fewer than `RECURRING` at one place.
    """
    single = np.flatnonzero(together == np.arange(len(x)))
    if len(single) < 2 * NEIGHBORS:
        return together
    rows = _without_rare_entries(torch.as_tensor(x))
    rows = _sketched(rows if len(single) == len(x) else rows[single])
    queries = np.random.default_rng(0).permutation(len(rows))[:QUERIES]
    a, b = _twins(rows, queries)
    same, (n, m) = real[single[a]] == real[single[b]], (real.sum(), (~real).sum())
    if len(np.unique(a)) <= FEW * len(queries) or not _repeated(same.sum(), (~same).sum() / 2, n, m):
        return together
    groups = _components(*_twins(rows, np.arange(len(rows))), len(rows))
    crowded = np.bincount(groups, minlength=len(rows)) >= RECURRING
    linked = np.arange(len(x))
    linked[single] = single[np.where(crowded[groups], np.arange(len(rows)), groups)]
    return np.asarray(linked[together])


def _without_rare_entries(x: Tensor) -> Tensor:
    """The columns without two values of which one is rare: rows of a rare category are close, but no copies."""
    chosen = torch.nonzero(_are_rare_entries(x[:: -(-len(x) // SCREENED_ROWS)], torch.inf))[:, 0]
    chosen = chosen[_are_rare_entries(x[:, chosen], RARE)] if len(chosen) else chosen
    if len(chosen) in (0, x.shape[1]):
        return x
    kept = torch.ones(x.shape[1], dtype=torch.bool, device=x.device)
    kept[chosen] = False
    return x[:, kept]


def _are_rare_entries(x: Tensor, most: float) -> Tensor:
    """Whether a column has at most two values, one of which is in at most this share of the rows."""
    low, high = x == x.amin(dim=0), x == x.amax(dim=0)
    return (low | high).all(dim=0) & (torch.minimum(low.sum(dim=0), high.sum(dim=0)) <= most * len(x))


def _sketched(x: Tensor) -> Tensor:
    """The rows with columns on one scale, in `SKETCH` random directions if they have more; distances change little."""
    some = x[:: -(-len(x) // SCALE_ROWS)].double()
    low, centre, high = torch.quantile(some, some.new_tensor((0.05, 0.5, 0.95)), dim=0)
    scale = torch.where(high > low, high - low, some.std(dim=0, correction=0))
    scale[scale == 0] = torch.inf
    d, rng = x.shape[1], np.random.default_rng(0)
    directions = rng.normal(size=(d, SKETCH)) if d > SKETCH else np.eye(d)
    onto = torch.as_tensor(directions, device=x.device)
    return torch.cat([((part - centre) / scale) @ onto for part in torch.split(x, BLOCK)])


def _twins(rows: Tensor, queries: Index) -> tuple[Index, Index]:
    """Pairs of twins, of which the first is one of the queries."""
    distance, near = _nearest(rows, queries)
    share = np.clip(10 ** (-5 / _dimension(distance)), 1e-3, 0.05)
    found = distance < share * distance[:, -1:]
    return np.repeat(queries, found.sum(axis=1)), near[found]


def _dimension(distance: Array) -> float:
    """Intrinsic dimension, from how the distance grows between the middle and the last neighbour; ∞ if it does not."""
    middle, last = distance[:, NEIGHBORS // 2 - 1], distance[:, -1]
    growth = np.median(last[middle > 0] / middle[middle > 0]) if (middle > 0).any() else 1.0
    return float(np.log(2) / np.log(growth)) if growth > 1 else np.inf  # distances grow like k^(1/d)


def _nearest(rows: Tensor, queries: Index) -> tuple[Array, Index]:
    """Distances and indices of the `NEIGHBORS` nearest rows of each query, in increasing order, without the query."""
    norms, found = rows.square().sum(dim=1), []
    for part in torch.split(torch.as_tensor(queries, device=rows.device), BLOCK):
        square = torch.addmm(norms, rows[part], rows.T, alpha=-2).scatter_(1, part[:, None], torch.inf)
        near = square.topk(NEIGHBORS, dim=1, largest=False, sorted=False).indices
        distance, order = torch.linalg.vector_norm(rows[part][:, None] - rows[near], dim=2).sort(dim=1)
        found.append((distance, near.gather(1, order)))
    first, second = zip(*found, strict=True)
    return to_numpy(torch.cat(first)), to_numpy(torch.cat(second))


def _repeated(within: float, between: float, n: int, m: int) -> bool:
    """Whether rows are far more often equal within the sets, of n and m rows, than between them."""
    return bool(within / (n * (n - 1) + m * (m - 1)) > REPEATED * between / (n * m))


def _components(a: Index, b: Index, n: int) -> Index:
    """Lowest index in the connected component of each of n nodes of the graph with edges (a, b)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(coo_array((np.ones(len(a), dtype=bool), (a, b)), shape=(n, n)), directed=False)
    _, first = np.unique(label, return_index=True)
    return np.asarray(first[label])


def independent_rows(together: Index, real: Flags) -> Flags:
    """Which rows are samples of their own; False for the copies in a set whose rows were repeated.

    Rows of a discrete distribution are equal within and between the sets, about equally often if P = Q. If they are
    equal far more often within the sets than between them, rows were repeated, and each counts once.
    """
    _, first, inverse = np.unique(2 * together + real, return_index=True, return_inverse=True)
    if not were_repeated(*(np.bincount(together[mask], minlength=len(real)) for mask in (real, ~real))):
        return np.ones(len(real), dtype=bool)
    return np.asarray(first[inverse] == np.arange(len(real)))


def were_repeated(real: Counts, fake: Counts) -> bool:
    """Whether rows were repeated, given how often each record is in each set."""
    p, q = real.astype(np.float64), fake.astype(np.float64)
    return _repeated(float(p @ (p - 1) + q @ (q - 1)), float(p @ q), p.sum(), q.sum())


def twin_records(index: Counts, distance: Array) -> Counts:
    """The record of each distinct row, from its nearest ones: rows far nearer than the fourth neighbour are twins."""
    reach = TWIN * distance[:, min(4, distance.shape[1]) - 1]
    row, place = np.nonzero(distance <= reach[:, None])
    other = index[row, place]
    mutual = distance[row, place] <= reach[other]
    first = _components(row[mutual], other[mutual], len(reach))
    return np.asarray(np.unique(first, return_inverse=True)[1], dtype=np.int64)
