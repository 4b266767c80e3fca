"""Sums of rewards with factors, such as r - 0.5 d for a reward r and a cost d."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .forms import ArrivalReward, core

MAX_CELLS = 10**8  # of a reward of step, state and action that is written as one on arrival


def combined(
    factors: Sequence[float], rewards: Sequence[np.ndarray | ArrivalReward], shape: tuple[int, int, int]
) -> np.ndarray | ArrivalReward:
    """The sum of rewards times factors: an array (H, S, A) if all of them are, otherwise on arrival.

    Parameters
    ----------
    factors : sequence of float
    rewards : sequence of ndarray (H, S, A) or ArrivalReward
    shape : (int, int, int)
        (H, S, A).
    """
    if not any(isinstance(r, ArrivalReward) for r in rewards):
        total = np.zeros((1, 1, 1))
        for f, r in zip(factors, rewards, strict=True):
            total = total + f * core(r)  # type: ignore[arg-type]
        return np.broadcast_to(total, shape)
    parts = [on_arrival(r, shape) for r in rewards]
    H, S, A = shape
    T = max(part.shape[0] for part in parts)
    keys, pays = [], []
    for f, part in zip(factors, parts, strict=True):
        pairs = np.repeat(np.arange(part.shape[0] * S * A), np.diff(part.pointer))
        key, pay = pairs * S + part.target, f * part.pay
        if part.shape[0] < T:  # the same at every step
            key, pay = (np.arange(T)[:, None] * (S * A * S) + key).reshape(-1), np.tile(pay, T)
        keys.append(key)
        pays.append(pay)
    named, place = np.unique(np.concatenate(keys), return_inverse=True)
    total_pay = np.bincount(place.reshape(-1), np.concatenate(pays), len(named))
    pointer = np.concatenate([[0], np.cumsum(np.bincount(named // S, minlength=T * S * A))])
    return ArrivalReward((T, S, A, H), pointer, named % S, total_pay)


def on_arrival(reward: np.ndarray | ArrivalReward, shape: tuple[int, int, int]) -> ArrivalReward:
    """A reward as one on arrival, which does not depend on the successor if it did not before."""
    if isinstance(reward, ArrivalReward):
        return reward
    H, S, A = shape
    T = 1 if (core(reward) == core(reward)[:1]).all() else H
    if T * S * A * S > MAX_CELLS:
        raise ValueError("a reward of step, state and action is too large to be combined with one on arrival: give both alike.")
    pair = reward[:T].reshape(-1)
    pointer = np.arange(len(pair) + 1) * S
    return ArrivalReward((T, S, A, H), pointer, np.tile(np.arange(S), len(pair)), np.repeat(pair, S).astype(float))


def range_of(reward: np.ndarray | ArrivalReward) -> tuple[float, float]:
    """The smallest and the largest reward of any transition, a little apart if they are the same."""
    if isinstance(reward, ArrivalReward):
        lows, highs = reward.extremes()
        low, high = float(lows.min()), float(highs.max())
    else:
        low, high = float(core(reward).min()), float(core(reward).max())
    return (low, high) if high - low > 1e-9 * max(abs(low), abs(high), 1e-9) else (low, low + max(1e-9, 1e-6 * abs(low)))
