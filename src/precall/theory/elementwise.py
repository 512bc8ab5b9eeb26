"""Elementwise functions of floats, NumPy arrays and torch tensors, written so that they neither overflow nor cancel.

The divergence table is written once and is evaluated on all three. `functions(x)` returns the functions for the type
of `x`; torch is imported only when a tensor is passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import ParamSpec, Protocol, TypeVar, cast

import numpy as np

from precall.lazy import torch
from precall.theory.arrays import Array, is_tensor

Number = TypeVar("Number", float, Array, "torch.Tensor")
"""A float, an array or a tensor. The result of a function has the type of its argument."""

P = ParamSpec("P")
R = TypeVar("R")


class Functions(Protocol):
    """The functions that exist for all three types."""

    def exp(self, x: Number, /) -> Number: ...
    def expm1(self, x: Number, /) -> Number: ...
    def log(self, x: Number, /) -> Number: ...
    def log1p(self, x: Number, /) -> Number: ...
    def log_sigmoid(self, x: Number, /) -> Number: ...
    def reciprocal(self, x: Number, /) -> Number: ...
    def sqrt(self, x: Number, /) -> Number: ...
    def sign(self, x: Number, /) -> Number: ...
    def power(self, x: Number, exponent: float, /) -> Number: ...
    def xlogy(self, x: Number, y: Number, /) -> Number: ...
    def xlog1py(self, x: Number, y: Number, /) -> Number: ...
    def clip(self, x: Number, low: float, high: float, /) -> Number: ...
    def where(self, condition: object, a: Number | float, b: Number | float, /) -> Number: ...
    def all(self, condition: object, /) -> bool: ...
    def min(self, x: Number, /) -> Number: ...


def functions(x: object) -> Functions:
    """Return the functions for the type of `x`: torch's for a tensor, NumPy's for everything else."""
    return _torch_functions() if is_tensor(x) else _numpy_functions()


def _quiet(function: Callable[P, R]) -> Callable[P, R]:
    # f(0), f'(0) and f* at the end of its domain may be infinite. That is a valid value, so it must not warn.
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(divide="ignore"):
            return function(*args, **kwargs)

    return quiet


SAME = ("exp", "expm1", "sqrt", "sign", "clip", "all", "min")  # functions that have one name in NumPy and in torch


@cache
def _numpy_functions() -> Functions:
    from scipy import special

    numpy = SimpleNamespace(
        **{name: getattr(np, name) for name in SAME},
        log=_quiet(np.log),
        log1p=_quiet(np.log1p),
        log_sigmoid=special.log_expit,
        reciprocal=_quiet(partial(np.divide, 1.0)),
        power=_quiet(np.power),
        xlogy=special.xlogy,
        xlog1py=special.xlog1py,
        where=lambda condition, a, b: np.asarray(np.where(condition, a, b))[()],
    )
    return cast("Functions", numpy)


@cache
def _torch_functions() -> Functions:
    tensors = SimpleNamespace(
        **{name: getattr(torch, name) for name in (*SAME, "log", "log1p", "reciprocal", "xlogy", "where")},
        log_sigmoid=torch.nn.functional.logsigmoid,
        power=torch.pow,
        xlog1py=torch.special.xlog1py,
    )
    return cast("Functions", tensors)


def softplus(w: Number) -> Number:
    """Return log(1 + e^w), computed from log σ.

    torch's own softplus becomes linear at w = 20, where it is off by 1e-10 in float64.
    """
    return -functions(w).log_sigmoid(-w)


def log_softplus(w: Number) -> Number:
    """Return log log(1 + e^w), which equals w to the last digit below −37, where softplus is about to underflow."""
    xp = functions(w)
    return xp.where(w < -37, w, xp.log(softplus(xp.clip(w, -37, math.inf))))


def sigmoid(w: Number) -> Number:
    """Return σ(w) with the gradient σ(w) σ(−w); the usual y (1 − y) is 0 in float32 from w = 17 on."""
    xp = functions(w)
    return xp.exp(xp.log_sigmoid(w))


def indicator(x: Number) -> Number:
    """Return 1{x > 0}, with a gradient of zero instead of none."""
    xp = functions(x)
    return xp.sign(xp.clip(x, 0, math.inf))


def jeffreys_log_ratio(t: Number) -> Number:
    """Return the v = log u with 1 + v − e^(−v) = t, the inverse of f' of Jeffreys' divergence.

    v = −log W, where W + log W = 1 − t (W = LambertW(e^(1−t))). It is computed by Newton's method on
    g(v) = v − e^(−v) − (t − 1), which is increasing and concave: from a start left of the root the steps increase
    towards it without overshooting, and five of them reach float64 accuracy for every t. No e^(1−t) is formed, so
    nothing overflows. All steps stay on the torch graph. A single step after a detached solve would be cheaper, but its
    second derivative is zero, and a gradient penalty needs derivatives that are right to every order.
    """
    xp = functions(t)
    c = t - 1
    v = xp.clip(c, 0, math.inf) - xp.log1p(xp.clip(-c, 0, math.inf))
    for _ in range(5):
        v = v - (v - xp.exp(-v) - c) / (1 + xp.exp(-v))
    return v
