"""Checks of whole episodes and of columns of whole numbers, before they are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..setting import Setting, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike


def checked_episodes(
    states: ArrayLike, actions: ArrayLike, setting: Setting, named: Callable[[str], str]
) -> tuple[np.ndarray, np.ndarray]:
    """Episodes as (B, H+1) and (B, H) int64. Raises, with names by `named`, if a shape or an entry does not fit the setting."""
    states, actions = np.asarray(states), np.asarray(actions)
    if states.ndim == 1 and actions.ndim == 1:
        states, actions = states[None], actions[None]
    H = setting.horizon
    if states.ndim != 2 or actions.ndim != 2 or states.shape != (len(actions), H + 1) or actions.shape[1] != H:
        raise ValueError(
            f"states have shape {states.shape} and actions {actions.shape}: "
            f"an episode of horizon {H} has {H + 1} states and {H} actions."
        )
    for name, values, bound in (("states", states, setting.n_outcomes), ("actions", actions, setting.n_actions)):
        if values.dtype.kind not in "iu":
            raise ValueError(f"{name} are {values.dtype}: they have to be whole numbers.")
        wrong = (values < 0) | (values >= bound)
        if wrong.any():
            b, h = (int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(f"{name}[{b}, {h}] is {values[b, h]}: {name} go from 0 to {bound - 1}.")
    left = setting.stays(states[:, :-1]) & (states[:, 1:] != states[:, :-1])
    if left.any():
        b, h = (int(i) for i in np.argwhere(left)[0])
        raise ValueError(named(f"episode {b} leaves state {states[b, h]} at step {h}, which the setting says is absorbing."))
    if (states[:, 0] >= setting.n_states).any():
        b = int((states[:, 0] >= setting.n_states).argmax())
        raise ValueError(f"episode {b} starts in {states[b, 0]}: initial states go from 0 to {setting.n_states - 1}.")
    setting.check_starts(states[:, 0], named=named)
    return np.ascontiguousarray(states, dtype=np.int64), np.ascontiguousarray(actions, dtype=np.int64)


def whole_numbers(values: ArrayLike, name: str) -> np.ndarray:
    """A column of whole numbers as int64. Fractions are refused rather than truncated."""
    array = np.asarray(values)
    if (
        array.ndim != 1
        or array.dtype.kind not in "iuf"
        or not (array.dtype.kind != "f" or np.array_equal(array, np.floor(array)))
    ):
        raise ValueError(f"the column {shown(name)} of the counts has to hold whole numbers, one in each row.")
    return array.astype(np.int64)
