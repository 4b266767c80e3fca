"""What is explored, as the loop of exploration sees it: something that plays episodes for an explorer.

There are two: `tabular.TabularEnvironment`, a known model that is simulated at compiled speed, and
`gymnasium.GymnasiumEnvironment`, any Gymnasium environment, played step by step. Both are asked for episodes and let the explorer
learn from them; the explorer never calls the environment.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..algorithms import Explorer
from ..atlas.recording import Recording
from ..data.counts import Counts
from ..data.numbering import Numbering
from ..rewards.observed import ObservedRewards
from ..setting import Setting


class Environment(Protocol):
    """Plays episodes and lets an explorer learn from them."""

    name: str
    batch: int | None  # episodes of a batch, whose policies are fixed before the first of them; None: there are no batches
    is_compiled: bool  # episodes take so little time that looks at what was explored have to be rare in large models
    assumptions: tuple[str, ...]  # about how it is played, beside those of the setting

    @property
    def setting(self) -> Setting:
        """The setting that is explored."""

    @property
    def fingerprint(self) -> str:
        """By which a checkpoint recognises it."""

    @property
    def origin(self) -> str | None:
        """A fingerprint that no other environment has; None if there is none to be had."""

    def play(self, explorer: Explorer, episodes: int, goal: float) -> bool:
        """Plays at least one and at most `episodes` episodes, from which the explorer learns.

        Returns True once an explorer that stops by an index of its own is certified to `goal` (`Explorer.reached`).
        """

    def check(self, counts: Counts) -> None:
        """Raises if what the counts say is known of states is not what the environment told of them."""

    def rests(self, episodes: int) -> bool:
        """Whether an exploration can be resumed after that many episodes."""

    def state(self) -> dict[str, Any]:
        """What the next episode depends on, as plain JSON."""

    def restore(self, state: dict[str, Any], paid: ObservedRewards | None, recording: Recording | None) -> None:
        """Resumes from what `state` gave."""

    @property
    def numbering(self) -> Numbering:
        """How observations and actions are numbered, and what they are called. It may go on growing."""

    @property
    def facts(self) -> dict[str, Any]:
        """What pictures want to know of it: the shape of a grid, signs for actions."""

    @property
    def paid(self) -> ObservedRewards | None:
        """What was paid so far, if anything is."""

    @property
    def reward(self) -> np.ndarray | None:
        """What it pays, if that is known."""

    @property
    def recording(self) -> Recording | None:
        """The episodes so far, if they are to be recorded."""
