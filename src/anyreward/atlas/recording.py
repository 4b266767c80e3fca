"""`Recording`: the episodes themselves, kept in an atlas if they were asked for (`explore(..., record=True)`)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._checks import checked_array
from ..data.counts import COLUMNS, Counts
from ..data.importers import minari_package
from ..rewards.observed import ObservedRewards
from ..setting import Setting

if TYPE_CHECKING:
    from .atlas import Atlas

DAMAGED = "its recording is"  # the beginning of error messages about a damaged file
MAX_REWARD = float(np.finfo(float).max)  # refuses infinite rewards


class Recording(NamedTuple):
    """Episodes as they were played, one in each row. After an early termination, the remaining entries repeat the last state.

    Attributes
    ----------
    states : ndarray of int32, (B, H+1)
    actions : ndarray of int32, (B, H)
    rewards : ndarray of float64, (B, H)
        The rewards that the environment paid; 0 after a termination.
    lengths : ndarray of int32, (B,)
        The number of steps that were played.
    terminated : ndarray of uint8, (B,)
        1 if the episode terminated by itself.
    """

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    lengths: np.ndarray
    terminated: np.ndarray

    def check(self, setting: Setting, episodes: int) -> None:
        """Raises if this is not a recording of that many episodes of the setting."""
        B, H = episodes, setting.horizon
        states = checked_array(self.states, np.int32, (B, H + 1), DAMAGED, 0, setting.n_outcomes - 1)
        checked_array(self.actions, np.int32, (B, H), DAMAGED, 0, setting.n_actions - 1)
        checked_array(self.rewards, float, (B, H), DAMAGED, -MAX_REWARD, MAX_REWARD)
        lengths = checked_array(self.lengths, np.int32, (B,), DAMAGED, 1, H)
        checked_array(self.terminated, np.uint8, (B,), DAMAGED, 0, 1)
        after = states[np.arange(B)[:, None], np.minimum(np.arange(H + 1)[None], lengths[:, None])]
        if not (states == after).all():  # an episode that has terminated does not move any more
            raise ValueError(f"{DAMAGED} damaged.")

    def check_counts(self, counts: Counts, runs: tuple[int, ...]) -> None:
        """Raises if counting these episodes again, run by run, does not give these counts and their evidence."""
        if sum(runs) != len(self.states) or min(runs, default=1) < 1 - (len(runs) == 1):
            raise ValueError(f"{DAMAGED} damaged.")
        again = Counts(counts.setting, counts.transfer)
        again.declare(counts.declarations())
        again.runs = 0
        empty, begin = again.copy(), 0
        for run in runs:
            part = empty.copy()
            rows = slice(begin, begin + run)
            part.add_episodes(*part.checked(self.states[rows].astype(np.int64), self.actions[rows].astype(np.int64)))
            again, begin = again + part, begin + run
        mine, theirs = again.columns(), counts.columns()
        same = all(np.array_equal(mine[name], theirs[name]) for name in COLUMNS)
        if not same or not np.allclose(mine.get("evidence", 0.0), theirs.get("evidence", 0.0), rtol=1e-9, atol=1e-9):
            raise ValueError("its counts do not match its recording.")

    def check_paid(self, paid: ObservedRewards, setting: Setting) -> None:
        """Raises if these observed rewards are not those of the recorded episodes."""
        again = ObservedRewards(paid.pooled)
        rows = zip(self.states.tolist(), self.actions.tolist(), self.rewards.tolist(), self.lengths.tolist(), strict=True)
        for states, actions, rewards, n in rows:
            again.add_episode(states[: n + 1], actions[:n], rewards[:n])
        mine, theirs = again._table, paid._table
        if (
            paid.paid_again not in (None, again.paid_again)
            or mine.keys() != theirs.keys()
            or any(not np.allclose(mine[key], theirs[key], rtol=1e-9, atol=1e-12) for key in mine)
        ):
            raise ValueError("its observed rewards do not match its recording.")


def to_minari(atlas: Atlas, dataset_id: str, **options: Any) -> Any:
    """Stores the recorded episodes of an atlas as a Minari dataset, and returns it.

    The dataset is stored where Minari keeps its datasets. Observations are state numbers, `Discrete(n_states)`, and actions are
    action numbers.

    Parameters
    ----------
    atlas : Atlas
        Explored with `record=True`.
    dataset_id : str
    **options
        Passed on to `minari.create_dataset_from_buffers`.
    """
    if atlas.recording is None:
        raise ValueError("this atlas has no episodes, only their counts: explore with record=True to keep them.")
    minari = minari_package()
    from gymnasium.spaces import Discrete
    from minari.data_collector import EpisodeBuffer

    setting, buffers = atlas.counts.setting, []
    rows = zip(*atlas.recording, strict=True)
    for b, (states, actions, rewards, n, terminated) in enumerate(rows):
        ends = np.arange(n) == n - 1
        buffers.append(
            EpisodeBuffer(
                id=b,
                observations=(states[: n + 1] % setting.n_states).astype(np.int64).tolist(),
                actions=actions[:n].astype(np.int64).tolist(),
                rewards=rewards[:n].tolist(),
                terminations=(ends & bool(terminated)).tolist(),
                truncations=(ends & (not terminated)).tolist(),
            )
        )
    about = {
        "observation_space": Discrete(setting.n_states),
        "action_space": Discrete(setting.n_actions),
        "algorithm_name": f"anyreward {atlas.source.get('algorithm', '')}".strip(),
        "description": f"Reward-free exploration of {atlas.source.get('env', 'an environment')}; {atlas.certificate}",
        "data_format": "arrow",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari warns that no author is named
        return minari.create_dataset_from_buffers(dataset_id, buffers, **{**about, **options})
