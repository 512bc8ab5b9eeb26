"""The trees of `precall.metrics.members.trees` that grow on a GPU, in plain torch: what the kernels must find."""

import torch

from precall.metrics.members.trees import BINS, FEWEST, LEAST, LEAVES, RIDGE


def tree(bins, slopes, trained):
    """As `trees._tree`."""
    task, node = torch.arange(len(bins), device=bins.device), torch.zeros_like(trained, dtype=torch.long)
    table = torch.zeros(len(bins), LEAVES, 3, bins.shape[1], BINS + 1, dtype=torch.float64, device=bins.device)
    gain, splits = table.new_zeros(len(bins), LEAVES), []
    place = torch.zeros_like(gain, dtype=torch.long)
    table[:, 0] = histograms(bins, slopes, trained)
    gain[:, 0], place[:, 0] = best(table[:, 0])
    for new in range(1, LEAVES):
        largest, leaf = gain.max(dim=1)
        at = place[task, leaf]
        feature, cut = at // (BINS + 1), at % (BINS + 1)
        there = node == leaf[:, None]
        moves = there & (bins[task, feature] > cut[:, None]) & (largest > 0)[:, None]
        node = torch.where(moves, new, node)
        moved, stays = moves & trained, there & ~moves & trained
        fewer = moved.sum(dim=1) <= stays.sum(dim=1)
        kind = torch.where(largest > 0, torch.where(fewer, 1, 2), 0)
        splits.append(torch.stack([leaf, feature, cut, kind], dim=1))
        table[:, new] = histograms(bins, slopes, moved)
        table[task, leaf] -= table[:, new]
        both = torch.stack([leaf, torch.full_like(leaf, new)], dim=1)
        gain[task[:, None], both], place[task[:, None], both] = best(table[task[:, None], both])
    return node, table[..., 0, :].sum(dim=-1), torch.stack(splits, dim=1)


def best(sums):
    """The largest gain of a split, `Σ G²/(H + RIDGE)` of both sides less that of the whole, and its feature and bin."""
    left = sums.cumsum(dim=-1)
    total = left[..., -1:]
    gradient, hessian, count = torch.stack([left, total - left]).unbind(dim=-3)
    fits = ((count >= FEWEST) & (hessian >= LEAST)).all(dim=0)
    whole = total[..., 0, :, :] ** 2 / (total[..., 1, :, :] + RIDGE)
    gain = (gradient**2 / (hessian + RIDGE)).sum(dim=0) - whole
    found = torch.where(fits, gain, 0.0).flatten(-2).max(dim=-1)
    return found.values, found.indices


def histograms(bins, slopes, chosen):
    """Sums of both slopes and of ones in each bin over the chosen rows, shape (tasks, 3, features, bins)."""
    tasks, features, _ = bins.shape
    values = torch.nn.functional.pad(slopes.double(), (0, 1), value=1.0).movedim(2, 1)[:, :, None]
    place = (bins.long() + (BINS + 1) * torch.arange(features, device=bins.device)[:, None])[:, None]
    some = (values * chosen[:, None, None]).expand(-1, -1, features, -1).flatten(2)
    sums = some.new_zeros(tasks, 3, features * (BINS + 1))
    return sums.scatter_add_(2, place.expand(-1, 3, -1, -1).flatten(2), some).view(tasks, 3, features, BINS + 1)
