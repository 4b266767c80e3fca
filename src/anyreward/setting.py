"""Sizes and conventions of a problem: what every algorithm, count and certificate has to agree on."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

MOST_NODES = 2**31 - 2  # nodes are 32-bit numbers


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A finite-horizon problem with rewards in [0, 1].

    Parameters
    ----------
    n_states, n_actions, horizon
        S, A and H, at least 1 each. States, actions and steps are numbered from 0.
    discount
        gamma in (0, 1]: the value of a policy is the expectation of sum_h gamma^h r_h(s_h, a_h).
    stationary
        True if the transitions are the same at every step. This is an assumption: counts are then pooled over the steps,
        and a certificate says nothing about a problem whose transitions do depend on the step.
    initial_state
        Where every episode starts; None if the start is random, in which case its distribution is estimated as well.
    arrival_rewards
        True if certificates are to cover rewards r(h, s, a, s') that depend on the successor as well: the last transition then
        matters too.
    absorbing_states
        States that are known never to be left, such as the end of an episode that terminates early. Their transitions need not
        be estimated: they have radius 0 and no share of delta. Data that contradict this are refused.
    """

    n_states: int
    n_actions: int
    horizon: int
    discount: float = 1.0
    stationary: bool = False
    initial_state: int | None = None
    arrival_rewards: bool = False
    absorbing_states: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("n_states", "n_actions", "horizon"):
            value = whole_number(getattr(self, name), name)
            if value < 1:
                raise ValueError(f"{name} is {value}: it has to be at least 1.")
            object.__setattr__(self, name, value)
        if self.layers * self.n_states > MOST_NODES:
            raise ValueError(
                f"{self.layers} layers of {self.n_states} states are too many: their product has to stay below 2^31."
            )
        if not 0.0 < real_number(self.discount, "discount") <= 1.0:
            raise ValueError(f"discount is {self.discount}: it has to be in (0, 1].")
        object.__setattr__(self, "discount", float(self.discount))
        object.__setattr__(self, "stationary", bool(self.stationary))
        object.__setattr__(self, "arrival_rewards", bool(self.arrival_rewards))
        if self.initial_state is not None:
            start = whole_number(self.initial_state, "initial_state")
            if not 0 <= start < self.n_states:
                raise ValueError(f"initial_state is {start}: states go from 0 to {self.n_states - 1}.")
            object.__setattr__(self, "initial_state", start)

        known = tuple(sorted({whole_number(s, "absorbing_states") for s in self.absorbing_states}))
        if known and not 0 <= known[0] <= known[-1] < self.n_states:
            raise ValueError(f"absorbing_states are {known}: states go from 0 to {self.n_states - 1}.")
        object.__setattr__(self, "absorbing_states", known)

    @property
    def layers(self) -> int:
        """How many separate tables of states the counts have: H + 1, or 1 when the steps are pooled."""
        return 1 if self.stationary else self.horizon + 1

    @property
    def sigma(self) -> np.ndarray:
        """sigma_k = 1 + gamma + ... + gamma^(k-1) for k = 0 ... H: the largest value of k steps."""
        return np.concatenate([[0.0], np.cumsum(self.discount ** np.arange(self.horizon))])

    @property
    def n_rows(self) -> int:
        """How many laws are estimated: one for each (h, s, a), or (s, a) when stationary, and the start if it is random."""
        steps = 1 if self.stationary else self.horizon
        return steps * self.n_states * self.n_actions + (self.initial_state is None)


def whole_number(value: Any, name: str) -> int:
    """`value` as an int, if it is one."""
    try:
        return int(operator.index(value))
    except TypeError:
        raise ValueError(f"{name} is {value!r}: it has to be a whole number.") from None


def real_number(value: Any, name: str) -> float:
    """`value` as a float, if it is one."""
    if isinstance(value, str):
        raise ValueError(f"{name} is {value!r}: it has to be a number.")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}: it has to be a number.") from None


def probability(value: Any, name: str) -> float:
    """`value` as a float strictly between 0 and 1."""
    if not 0.0 < real_number(value, name) < 1.0:
        raise ValueError(f"{name} is {value}: it has to be strictly between 0 and 1.")
    return float(value)


def positive(value: Any, name: str) -> float:
    """`value` as a float above 0."""
    if not real_number(value, name) > 0.0:
        raise ValueError(f"{name} is {value}: it has to be positive.")
    return float(value)
