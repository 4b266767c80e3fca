"""A choice in which two rewards are easy and their mean is not."""

from typing import NamedTuple

import numpy as np

import anyreward as ar


class Choice(NamedTuple):
    mdp: ar.TabularMDP
    structure: ar.Structure


def _choice() -> Choice:
    """From state 0, action 0 leads to state 1 and action 1 to state 2, as is known; action 2 leads to state 3, rarely to 4."""
    P = np.zeros((5, 3, 5))
    P[1:, :, 4] = P[0, 0, 1] = P[0, 1, 2] = 1.0
    P[0, 2, 3], P[0, 2, 4] = 0.9, 0.1
    structure = ar.Structure(
        law=lambda s, a: a if s == 0 else "end",
        outcomes={0: (1,), 1: (2,), 2: (3, 4), "end": (4,)},
        successor=lambda s, a, x: x,
    )
    return Choice(ar.TabularMDP(P, initial=0), structure)


CHOICE = _choice()
CORNERS = [np.array([0, 1, 0, 0.9, 0]), np.array([0, 0, 1, 0.9, 0])]  # two rewards: state 3 is nearly best for both


def choice_counts(rng: np.random.Generator, times: int) -> ar.Counts:
    """Counts of so many tries of action 2."""
    setting = ar.Setting(n_states=5, n_actions=3, horizon=2, initial_state=0, structure=CHOICE.structure)  # type: ignore[arg-type]
    policies = np.full((times, 2, 5), 2)
    return ar.Counts.from_episodes(*CHOICE.mdp.play_each(policies, rng), setting)
