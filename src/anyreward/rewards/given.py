"""Several rewards that are given at once: a list of any forms (`forms`), each with a name for what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.numbering import Numbering
from ..setting import Setting, shown
from ..words import plain
from .forms import OWN, UNIT, ArrivalReward, Reward, reward_of_setting

LONGEST = 60  # characters of a name that are kept


class Given(NamedTuple):
    """A reward with its name."""

    name: str
    reward: np.ndarray | ArrivalReward  # (H, n_outcomes, A), or on arrival
    observed: bool = False  # whether it is only observed what is paid; `reward` then has the right shape and means nothing

    @classmethod
    def to_be_observed(cls, setting: Setting, reward_range: tuple[float, float]) -> Given:
        """What an environment pays, if it does not say so beforehand."""
        return cls(OWN, np.full((setting.horizon, setting.n_outcomes, setting.n_actions), reward_range[0]), True)


def given_rewards(
    rewards: Any,
    setting: Setting,
    reward_range: tuple[float, float] = UNIT,
    numbering: Numbering | None = None,
    own: Reward = None,
    observed: bool = False,
) -> tuple[Given, ...]:
    """The rewards of a list, for all outcomes of a setting. Raises an error that says which one is wrong.

    Parameters
    ----------
    rewards : sequence
        Of rewards of any form, or of what this function returned. A text is its own name.
    setting : Setting
    reward_range : (float, float)
        In which all values have to lie.
    numbering : Numbering, optional
        The names of states and actions, for expressions.
    own : optional
        What the reward `"own"` stands for; None if that is not known beforehand.
    observed : bool, default False
        Whether `"own"` is to be observed if it is not known beforehand.
    """
    if isinstance(rewards, str | np.ndarray) or not isinstance(rewards, Sequence):
        raise ValueError(f"rewards is {shown(rewards)}: it has to be a list of rewards.")
    if not len(rewards):
        raise ValueError("rewards is an empty list: give at least one reward.")
    found = []
    for i, given in enumerate(rewards):
        name = f"rewards[{i}]"
        if isinstance(given, Given):
            found.append(given)
            continue
        if isinstance(given, str) and given == OWN:
            if own is None and observed:
                found.append(Given.to_be_observed(setting, reward_range))
                continue
            if own is None:
                raise ValueError(
                    f"{name} is 'own', but what this environment pays is not known beforehand, and can only be observed from the "
                    "first episode on: give it in full, or explore anew."
                )
            given, called = own, OWN
        else:
            called = plain(given)[:LONGEST] if isinstance(given, str) else name
        try:
            found.append(Given(called, reward_of_setting(given, setting, reward_range, numbering)))
        except ValueError as problem:
            said = f"the reward {shown(given)}" if isinstance(given, str) and given != OWN else name
            raise ValueError(f"{said} cannot be used: {problem}") from None
    return tuple(found)


def is_list(rewards: Any) -> bool:
    """Whether this is meant as a list of rewards, and not as what is known of a reward that is observed."""
    return rewards is not None and not isinstance(rewards, str)
