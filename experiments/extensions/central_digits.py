"""A dial without training: rejection towards central samples, on a GAN of digits.

    python -m experiments.extensions.central_digits [--smoke] [--seeds 3] [--out DIR]

For each seed, the recipe of digits is trained as a plain GAN. Its knobs are those of `precall.improve`: truncation,
rejection with budget K, and rejection towards central samples at λ with K = 2 and 4 (`CentralKnob`). Ratios and
centrality are learnt from the training digits and 3,000 draws, in pixels, rounded to the 17 grey levels of digits.
Precision and recall (k = 5) of 599 draws against 599 held-out digits are measured in pixels and in features of
`random-vgg`, which no knob has seen, and α(10), α(1) and β(0.1) by `auto`, in pixels.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression

from experiments.common.arguments import parser
from experiments.common.saving import save
from experiments.common.summaries import Row
from experiments.common.trade_off import beyond_the_line, lines_figure
from precall.encoders import Encoder, load_encoder
from precall.improve import CentralKnob, Knob, LatentGenerator, Ratio, RatioWarning, RejectionKnob, TruncationKnob
from precall.metrics import classify, sweep
from precall.tune import recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "central_digits"
K = 5  # nearest neighbours
LAMS = (0.1, 0.3, 1.0, 2.0, 3.0, 4.0)
PSI = (1.0, 0.85, 0.7, 0.55, 0.4)
SIZES = {"steps": 2000, "draws": 3000, "n": 599}
SMOKE = {"steps": 20, "draws": 300, "n": 60}
LINES = {
    "truncation": ("C0o-", tuple(f"truncation {psi:g}" for psi in PSI)),
    "rejection": ("C1o-", tuple(f"rejection {budget:g}" for budget in (1, 2, 4))),
    **{
        f"centrality, K = {budget}": (f"C{i}v-", tuple(f"centrality, K = {budget} {lam:g}" for lam in LAMS))
        for i, budget in ((2, 2), (3, 4))
    },
}
Pixels = npt.NDArray[np.float32]


def levels(x: Pixels) -> Pixels:
    """Pixels within ±1, rounded to the 17 grey levels of digits, which would else betray the draws."""
    return np.asarray(np.rint(8 * (x + 1)) / 8 - 1, dtype=np.float32)


def flat(images: npt.NDArray[np.uint8]) -> Pixels:
    """Pixels within ±1."""
    return levels(images.reshape(len(images), -1).astype(np.float32) / 127.5 - 1)


def features(vgg: Encoder, x: Pixels) -> Pixels:
    """Features of digits."""
    bytes_ = (x * 127.5 + 127.5).round().clip(0, 255).astype(np.uint8)
    return vgg.encode(list(np.repeat(bytes_.reshape(-1, 8, 8, 1), 3, axis=3)))


def brightness(x: Pixels) -> Pixels:
    """The mean pixel, in which even the draws of a few steps overlap with the data."""
    return x.mean(1, keepdims=True)


def knobs_of(seed: int, steps: int, draws: int, *, tiny: bool) -> tuple[list[Knob], Pixels]:
    """The knobs of a plain GAN, and held-out digits. A tiny one has ratios of the brightness alone."""
    made = replace(recipe("digits"), steps=steps)
    run = made.trainer(kind="gan", seed=seed, log_every=10**9).fit(steps)
    (dim,), network = run.generator.latent_shape, run.average

    @torch.no_grad()
    def decode(z: npt.ArrayLike) -> Pixels:
        images: torch.Tensor = network(torch.as_tensor(z)).clamp(-1, 1)
        return levels(images.flatten(1).numpy())

    generator, train = LatentGenerator(decode, dim=dim), flat(made.data.samples)
    fake = generator(draws, np.random.default_rng(1000 + seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RatioWarning)  # a few large ratios, as a GAN's draws have them
        how = {"encode": brightness, "classifier": LogisticRegression()} if tiny else {}
        ratio = Ratio.fitted(real=train, fake=fake, seed=seed, **how)
    central = [CentralKnob(generator, ratio, train, LAMS, budget=k, name=f"centrality, K = {k:g}") for k in (2, 4)]
    return [
        TruncationKnob(generator, PSI),
        RejectionKnob(generator, ratio, (1.0, 2.0, 4.0)),
        *central,
    ], flat(made.data.held_out)  # fmt: skip


def scored(real: Pixels, fake: Pixels, seed: int, vgg: Encoder | None) -> Row:
    """Scores of draws, with half-widths of 95 % intervals in pixels."""
    found = sweep(real=real, fake=fake, k=K)
    around = found.intervals()
    row: Row = {name: round(float(getattr(found, name)()), 4) for name in ("precision", "recall")}
    row["half_width"] = {name: round((around[name].high - around[name].low) / 2, 4) for name in row}
    if vgg is not None:
        other = sweep(real=features(vgg, real), fake=features(vgg, fake), k=K)
        row["random-vgg"] = {name: round(float(getattr(other, name)()), 4) for name in ("precision", "recall")}
    spectrum = classify("linear" if vgg is None else "auto", real=real, fake=fake, seed=seed).spectrum
    curve = {"alpha(10)": spectrum.alpha(10.0), "alpha(1)": spectrum.alpha(1.0), "beta(0.1)": spectrum.beta(0.1)}
    return row | {name: round(float(value), 4) for name, value in curve.items()}


def compared(seed: int, vgg: Encoder | None, *, steps: int, draws: int, n: int) -> list[Row]:
    """All settings of one seed."""
    knobs, held_out = knobs_of(seed, steps, draws, tiny=vgg is None)
    rows = []
    for knob in knobs:
        for setting in knob.settings:
            fake = np.asarray(knob.draw(n, setting, 77), dtype=np.float32)
            row = {"seed": seed, "setting": f"{knob.name} {setting:g}", **scored(held_out[:n], fake, seed, vgg)}
            print(seed, f"{row['setting']:24}", *(f"{row[name]:.3f}" for name in ("precision", "recall")), flush=True)
            rows.append(row)
    return rows


def sheet(rows: Sequence[Row]) -> Figure:
    """Precision and recall in pixels, and in the features that no knob has seen."""
    return lines_figure(rows, (LINES,))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the experiment."""
    options = parser(__doc__, smoke="one seed, a few steps, without random-vgg", seeds=3).parse_args(argv)
    size, started = SMOKE if options.smoke else SIZES, process_time()
    vgg = None if options.smoke else load_encoder("random-vgg", device="cpu")
    seeds = range(1 if options.smoke else options.seeds)
    rows = [row for seed in seeds for row in compared(seed, vgg, **size)]
    beyond = {label: beyond_the_line(rows, line) for label, (_, line) in LINES.items()}
    protocol = {**size, "k": K, "seeds": len(seeds), "CPU seconds": round(process_time() - started)}
    results = {"protocol": protocol, "rows": rows, "recall beyond": beyond}
    save(options.out, NAME, results, figure=partial(sheet, rows))


if __name__ == "__main__":
    main()
