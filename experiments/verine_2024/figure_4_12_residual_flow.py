"""Figure 4.12 of Verine (2024): G(0) of a residual flow on images, and the Lipschitz bounds of the trained network.

    python -m experiments.verine_2024.figure_4_12_residual_flow --data mnist --data-dir DIR [--device cuda] [--smoke]
        [--out DIR]

A residual flow of perceptrons on all 784 pixels (published: convolutions), trained by likelihood with the unbiased
log-determinant of Chen et al. (2019): log det(I + J) = Σ (−1)^(k+1) tr(Jᵏ)/k, with a random number of terms and a
random vector for the traces. Three questions: how far G(0) is from the data, what the constants certified by the
spectral norms say about D_λ (Theorems 4.4.3 and A.2.1, tightened), and how far they are from the largest and smallest
stretch of the network at draws, which no certified constant can be below.

The committed pictures and numbers may be of two runs of the same command.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial, reduce
from math import prod
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from experiments.common.arguments import parser
from experiments.common.bounds import inverse_lipschitz_lower_bound, lipschitz_lower_bound
from experiments.common.program import plain, sheet_of
from experiments.common.residual_flow import Contraction, solved, spectral_bound
from experiments.common.residual_flow_training import trained, with_noise
from experiments.common.saving import save
from experiments.common.summaries import Row
from precall.tune import load_data

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERROR = 1.63  # half-width of the 99 % band of an empirical distribution function (DKW), times √n


def compute(options: argparse.Namespace) -> tuple[Row, Tensor]:
    data, device = (
        load_data("digits" if options.smoke else options.data, options.data_dir),
        torch.device(options.device),
    )
    size = {"blocks": 2, "hidden": 16} if options.smoke else {"blocks": 10, "hidden": options.hidden}
    images = torch.from_numpy(np.asarray(data.samples)).to(device)
    flow, facts = trained(images, **size, steps=3 if options.smoke else options.steps, seconds=options.seconds)
    contractions: list[Contraction] = [layer.f for layer in flow.layers]  # type: ignore[misc]
    maps = [f.frozen() for f in contractions]
    x = torch.cat([torch.zeros(1, *flow.latent_shape), torch.randn(9, *flow.latent_shape)]).to(device)
    for f in maps:
        x = solved(f, x)
    held_out = with_noise(torch.from_numpy(np.asarray(data.held_out)).to(device)).flatten(1)
    away, near = torch.cdist(x[:1], held_out)[0], torch.cdist(held_out[::10], held_out[1::10]).min(1).values
    blocks = [float(np.prod([float(spectral_bound(W)) for W in f.weights()])) for f in contractions]
    forward, inverse = prod(1 / (1 - L) for L in blocks), prod(1 + L for L in blocks)
    jacobians = torch.func.vmap(torch.func.jacrev(lambda y: reduce(lambda z, f: z + f(z), reversed(maps), y)))(x)
    stretch = torch.linalg.svdvals(jacobians)  # of G⁻¹; those of G are the reciprocals
    radii, m = np.sort(away.cpu().numpy()), flow.latent_shape[0]
    error = ERROR / np.sqrt(len(radii))
    masses = np.arange(1, len(radii) + 1) / len(radii)
    low = [lipschitz_lower_bound(1.0, radii=radii, ball_masses=np.minimum(1, masses + error), lipschitz=c, latent_dim=m)
           for c in (forward, float(1 / stretch.min()))]  # fmt: skip
    high = inverse_lipschitz_lower_bound(
        1.0, radii=radii, ball_masses=np.maximum(0, masses - error), lipschitz=inverse, latent_dim=m
    )
    return {
        **size,
        **facts,
        "images": len(images),
        "distance of G(0)": {"nearest": float(away.min()), "median": float(away.median())},
        "distance of images to the nearest": float(near.median()),
        "certified": {"forward": forward, "inverse": inverse, "bound": max(low[0], high)},
        "at draws": {
            "forward": float(1 / stretch.min()),
            "inverse": float(stretch.max()),
            "bound if certified": low[1],
        },
    }, x.reshape(-1, *images.shape[1:]).clamp(-1, 1).cpu()


def draw(images: Tensor, results: Row, sheet: Figure) -> None:
    for panel, x in zip(sheet.subplots(1, 6), images, strict=False):
        panel.imshow(x[0].numpy(), cmap="gray", vmin=-1, vmax=1)
        panel.set_axis_off()
    sheet.axes[0].set_title("G(0)")
    sheet.axes[1].set_title("draws")


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="a tiny flow on digits of scikit-learn, three steps")
    made.add_argument("--data", default="mnist", help="mnist, fashion-mnist or digits")
    made.add_argument("--data-dir", type=Path, help="folder of the data")
    made.add_argument("--steps", type=int, default=2500, help="steps of training")
    made.add_argument("--seconds", type=float, default=np.inf, help="longest training")
    made.add_argument("--hidden", type=int, default=512, help="width of the perceptrons")
    made.add_argument("--device", default="cpu", help="where networks run")
    options, started = made.parse_args(arguments), perf_counter()
    found, images = compute(options)
    results = plain({"smoke": options.smoke, **found, "seconds": perf_counter() - started}, 4)
    print(results)
    stem = f"figure_4_12_residual_flow-{options.data}"
    figure = partial(sheet_of, partial(draw, images), results, (7.5, 1.6), "Verine (2024), Fig. 4.12")
    save(options.out, stem, results, figure=figure, indent=None)


if __name__ == "__main__":
    main()
