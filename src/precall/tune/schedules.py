"""Objectives that change during training: `Schedule`, a plain GAN first and then λ."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from precall.theory import checks
from precall.tune.objective_state import restore, state_of
from precall.tune.objectives import GAN, PRObjective

PLAIN = 0.45  # share of the steps in which a generator without density is trained as a plain GAN, before λ acts


@dataclass(frozen=True)
class Scheduled:
    """An objective whose fields move geometrically from start values to their final values during the first steps.

    The state of the objective, such as the τ of `OBRSObjective`, passes to the next step.

    Args:
        objective: the final objective.
        steps: number of steps of the transition.
        start: field name → positive value at the beginning of the transition.
        first: the objective in the `first_steps` before the transition, with logits of the same kind.

    Example:
        >>> schedule = Scheduled(PRObjective(lam=100.0), steps=10, start={"lam": 1.0})
        >>> [round(schedule.at(step).lam, 6) for step in (0, 5, 10, 99)]
        [1.0, 10.0, 100.0, 100.0]
    """

    objective: Any
    steps: int
    start: dict[str, float]
    first: Any = None
    first_steps: int = 0
    latest: Any = field(init=False, repr=False, compare=False)  # the objective of the last step, with its state

    def __post_init__(self) -> None:
        object.__setattr__(self, "latest", self.objective)
        checks.count("steps", self.steps)
        for name, value in self.start.items():
            if not hasattr(self.objective, name):
                kind = type(self.objective).__name__
                raise ValueError(f"`start` must name fields of {kind}; got {name!r}. Use one of its fields.")
            checks.positive(name, value)

    def at(self, step: int) -> Any:
        """The objective at that step, with the state of the objective that was returned last."""
        if step < self.first_steps:
            return self.first
        step -= self.first_steps
        now = self.objective if step >= self.steps else replace(self.objective, **self._fields(step / self.steps))
        restore(now, state_of(self.latest))
        object.__setattr__(self, "latest", now)
        return now

    def _fields(self, way: float) -> dict[str, float]:
        return {name: first ** (1 - way) * getattr(self.objective, name) ** way for name, first in self.start.items()}

    def state_dict(self) -> dict[str, Any]:
        """The state to save in a checkpoint."""
        return {f"objective.{name}": value for name, value in state_of(self.latest).items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        restore(self.latest, {name.removeprefix("objective."): value for name, value in state.items()})


class Schedule(Scheduled):
    """A plain GAN first, then λ moves from 1 to its value. Pass it to `Trainer`, or call `at(step)` in your own loop.

    Against a plain GAN of as many steps, λ = 0.1 gains β(.1) on a ring, digits and Fashion-MNIST, and λ = 10 gains no
    α(10) (benchmarks/schedules.py). The form "tail" moves precision and recall of digits further, but both α(10) and
    β(.1) of Fashion-MNIST fall.

    Args:
        lam: λ > 0, as in `PRObjective`.
        steps: number of steps of the whole training.
        plain: share of the steps with the plain GAN; 0 to fine-tune a trained model. `form` is that of `PRObjective`.

    Example:
        >>> [getattr(Schedule(10.0, steps=1000).at(step), "lam", None) for step in (0, 450, 999)]
        [None, 1.0, 10.0]
    """

    def __init__(self, lam: float, steps: int, *, plain: float = PLAIN, form: str = PRObjective.form) -> None:
        first = int(checks.unit("plain", plain) * checks.count("steps", steps))
        objective, moving = PRObjective(lam, form=form), max(1, (steps - first) // 4)
        super().__init__(objective, moving, {"lam": 1.0}, GAN if first else None, first)


def objective_at(objective: Any, step: int) -> Any:
    return objective.at(step) if isinstance(objective, Scheduled) else objective


def final_objective(objective: Any) -> Any:
    """The objective after its schedule."""
    return objective.objective if isinstance(objective, Scheduled) else objective
