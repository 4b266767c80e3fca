"""A known model as an environment: its transitions are used to simulate episodes, and for nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import kernels
from ..algorithms import Explorer
from ..algorithms.explorer import Draws, Learning, Policies, Repeated, Request
from ..atlas.recording import Recording
from ..data.counts import Counts
from ..data.tabular import TabularMDP
from ..rewards.observed import ObservedRewards
from ..setting import Setting
from ..words import plain

ROOM = 64  # episodes for which the table has room whenever the compiled loop begins


def play(explorer: Explorer, mdp: TabularMDP, rng: np.random.Generator, episodes: int, goal: float = -1.0) -> bool:
    """Plays at least one and at most `episodes` episodes of a model, from which the explorer learns; see `Environment.play`."""
    request = explorer.ask_many(episodes, goal)
    explorer.tell_many(request, *outcome_of(request, mdp, rng))
    return explorer.reached(goal)


def outcome_of(request: Request, mdp: TabularMDP, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Plays what an explorer asks for; each kind of request says what its outcome is."""
    match request:
        case Learning():
            return _learning(request, mdp, rng)
        case Repeated(index, node_of, key, horizon, episodes, prior):
            return (kernels.simulate.walk(mdp.model, index, prior, node_of, horizon, key, episodes, rng),)
        case Draws(times, starts):
            return (mdp.draw(times, starts, rng),)
        case Policies(policies) if len(policies) == 1 or policies.strides[0] == 0:  # the same policy in all episodes
            return mdp.rollout(policies[0], len(policies), seed=rng)
        case Policies(policies):
            return mdp.play_each(policies, rng)


def _learning(request: Learning, mdp: TabularMDP, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """The compiled loop: the explorer of the request learns from each episode before the next."""
    explorer, written = request.explorer, request.episodes if request.written else 0
    counts, setting = explorer.counts, explorer.setting
    H, S = setting.horizon, setting.n_outcomes
    states, actions = np.empty((written, H + 1), np.int64), np.empty((max(1, written), H), np.uint32)
    policies = np.empty((written, H, S), np.int32) if request.written == "policies" else None
    nodes, payments = np.empty(H + 1, np.uint32), np.empty(H)
    done = 0
    while True:
        most = counts.make_room(ROOM, request.until)
        rows = slice(done, None) if written else slice(None)
        done += explorer.kernel("run")(
            mdp.model, counts.table, explorer.learner(), explorer.seed_key, rng,
            int(min(request.episodes - done, most)), request.goal,
            nodes, actions[rows], payments, states[rows], None if policies is None else policies[rows],
        )  # fmt: skip
        counts.book_if_due()
        if done == request.episodes or not written or request.goal >= 0 or counts.episodes >= request.until:
            # It may be there: the explorer tells. Or something is due, which the explorer does.
            outcome = (states[:done], actions[:done].astype(np.int64), *(() if policies is None else (policies[:done],)))
            return outcome if written else ()


class TabularEnvironment:
    """A `TabularMDP` as exploration sees it, simulated at compiled speed, or an episode at a time if it is to be recorded."""

    batch: int | None = None
    is_compiled = True
    assumptions: tuple[str, ...] = ()

    def __init__(self, mdp: TabularMDP, setting: Setting, seed: int, record: bool) -> None:
        self.mdp, self.setting, self.name = mdp, setting, plain(mdp.name)
        self.fingerprint = mdp.digest()
        self.origin: str | None = self.fingerprint
        self.numbering = mdp.numbering
        self.facts: dict[str, Any] = {} if mdp.grid is None else {"grid": mdp.grid, "arrows": mdp.arrows}
        self.rng = np.random.default_rng(seed)
        self._episodes: list[tuple[np.ndarray, np.ndarray]] | None = [] if record else None
        self._play = play if mdp.played_by is None else mdp.played_by
        self.paid, self.reward = None, mdp.reward

    def play(self, explorer: Explorer, episodes: int, goal: float) -> bool:
        if self._episodes is None:
            return self._play(explorer, self.mdp, self.rng, episodes, goal)
        states, actions = self.mdp.rollout(explorer.ask(), seed=self.rng)
        explorer.tell(states, actions)
        self._episodes.append((states, actions))
        return explorer.reached(goal)

    def check(self, counts: Counts) -> None:
        """A model says nothing of its states on the way."""

    def rests(self, episodes: int) -> bool:
        return True

    def state(self) -> dict[str, Any]:
        return {"generator": self.rng.bit_generator.state}

    def restore(self, state: dict[str, Any], paid: ObservedRewards | None, recording: Recording | None) -> None:
        begin = self.rng.bit_generator.state
        self.rng.bit_generator.state = state["generator"]
        if not is_ahead(begin, self.rng.bit_generator.state):
            raise ValueError("its generator is not that of its seed.")
        if self._episodes is not None and recording is not None:
            self._episodes = [(s[None].astype(np.int64), a[None].astype(np.int64)) for s, a in zip(*recording[:2], strict=True)]

    @property
    def recording(self) -> Recording | None:
        if self._episodes is None:
            return None
        B, H = len(self._episodes), self.setting.horizon
        states, actions = (np.concatenate([e[i] for e in self._episodes]) for i in (0, 1)) if B else (np.zeros((0, H + 1)),) * 2
        return Recording(
            states.astype(np.int32),
            actions[:, :H].astype(np.int32),
            np.zeros((B, H)),
            np.full(B, H, np.int32),
            np.zeros(B, np.uint8),
        )


def is_ahead(begin: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether a PCG64 generator that began as `begin` says can have come to `state`, by at most 2^64 draws.

    Both are states of the congruential generator x -> a x + c modulo 2^128 with the same c; one bit of the distance is found at a
    time, since the lowest k bits of x have the period 2^k.
    """
    x, c, goal = (int(n) for n in (begin["state"]["state"], begin["state"]["inc"], state["state"]["state"]))
    if state["bit_generator"] != "PCG64" or state["state"]["inc"] != c:
        return False
    a, distance, bit = 0x2360ED051FC65DA44385DF649FCCF645, 0, 1
    while x != goal:
        if (x ^ goal) & bit:
            x = (a * x + c) % 2**128
            distance |= bit
        c, a, bit = (a + 1) * c % 2**128, a * a % 2**128, bit << 1
        if bit > 2**64:
            return False
    return True
