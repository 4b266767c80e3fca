"""What is explored, as the loop of `explore` sees it: a known model or a Gymnasium environment, played with an explorer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..algorithms import Explorer
from ..atlas.recording import Recording
from ..data.counts import Counts
from ..data.tabular import TabularMDP
from ..rewards.observed import Paid
from ..setting import Setting
from ..words import plain
from .gymnasium import BLOCK, Simulator


class World(Protocol):
    """Plays episodes and lets an explorer learn from them."""

    setting: Setting
    name: str
    fingerprint: str  # by which an exploration that is taken up again recognises it
    origin: str | None  # a fingerprint that no other environment has; None if there is none to be had

    def advance(self, explorer: Explorer, episodes: int, goal: float) -> bool:
        """At least one and at most that many episodes; True once an explorer that follows its bound sees it at `goal`."""

    def check(self, counts: Counts) -> None:
        """Raises if what the counts say is known of states is not what this was told of them."""

    def rests(self, episodes: int) -> bool:
        """Whether an exploration can be taken up after that many episodes."""

    def state(self) -> dict[str, Any]:
        """What the next episode depends on, as plain JSON."""

    def restore(self, state: dict[str, Any], paid: Paid | None, recording: Recording | None) -> None:
        """Goes on from there."""

    @property
    def facts(self) -> dict[str, Any]:
        """What plans and pictures want to know of it: labels of states, the shape of a grid."""

    @property
    def paid(self) -> Paid | None:
        """What was paid so far, if anything is."""

    @property
    def recording(self) -> Recording | None:
        """The episodes so far, if they are to be recorded."""


class KnownModel:
    """A `TabularMDP`, played at compiled speed, or an episode at a time if it is to be recorded."""

    def __init__(self, mdp: TabularMDP, setting: Setting, seed: int, record: bool) -> None:
        self.mdp, self.setting, self.name = mdp, setting, plain(mdp.name)
        self.fingerprint = mdp.digest()
        self.origin: str | None = self.fingerprint
        self.facts: dict[str, Any] = {} if mdp.grid is None else {"grid": mdp.grid, "arrows": mdp.arrows}
        self.rng = np.random.default_rng(seed)
        self._episodes: list[tuple[np.ndarray, np.ndarray]] | None = [] if record else None
        self.paid = None

    def advance(self, explorer: Explorer, episodes: int, goal: float) -> bool:
        if self._episodes is None:
            return explorer.advance(self.mdp, self.rng, episodes, goal)
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

    def restore(self, state: dict[str, Any], paid: Paid | None, recording: Recording | None) -> None:
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


class Environment:
    """A Gymnasium environment, played step by step."""

    def __init__(self, simulator: Simulator, setting: Setting, seed: int, record: bool, alarms: Sequence[str] = ()) -> None:
        self.simulator, self.setting, self.seed, self.name = simulator, setting, seed, simulator.name
        made = written(simulator.env)
        try:
            space = str(simulator.env.observation_space)
        except Exception:  # it is nested too deeply, or somebody's own
            space = type(simulator.env.observation_space).__name__
        text = f"{simulator.name} {made} {space} {simulator.terminal} {simulator.observations}"
        self.fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self.origin = self.fingerprint if made else None
        simulator.record = [] if record else None
        self._alarms = list(alarms)  # what an audit said against its assumptions

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"labels": self.simulator.labels, "grid": self.simulator.grid, "arrows": self.simulator.arrows}
        facts["alarms"] = self._alarms or None
        return {name: fact for name, fact in facts.items() if fact is not None}

    def advance(self, explorer: Explorer, episodes: int, goal: float) -> bool:
        """Plays to the end of the present block of episodes at most: explorations are taken up where a block begins."""
        for _ in range(min(episodes, BLOCK - explorer.episodes % BLOCK)):
            states, actions, paid = self.simulator.play(explorer.actor(), explorer.episodes, self.seed, explorer.counts)
            if explorer.wants_rewards:
                explorer.tell(states, actions, paid)  # type: ignore[call-arg]
            elif type(explorer).tell is Explorer.tell:
                explorer._learn(states[None], actions[None])  # what `tell` would do after checks that the simulator has made
            else:
                explorer.tell(states, actions)
            self.simulator.keep()
            if explorer.reached(goal):
                return True
        return False

    def check(self, counts: Counts) -> None:
        before = Counts(counts.setting).told()[:, 0]  # what the setting says is not the environment's to tell
        mine, theirs = (
            {tuple(row) for row in x[~np.isin(x[:, 0], before)].tolist()} for x in (self.simulator.told(), counts.told())
        )
        if mine != theirs:
            raise ValueError("what it says of legal actions and of ends is not what it says that the environment told.")

    def rests(self, episodes: int) -> bool:
        return episodes % BLOCK == 0

    def state(self) -> dict[str, Any]:
        return self.simulator.dump()

    def restore(self, state: dict[str, Any], paid: Paid | None, recording: Recording | None) -> None:
        self.simulator.restore(state)
        self.simulator.paid = Paid() if paid is None else paid
        if self.simulator.record is not None and recording is not None:
            rows = zip(*(part.tolist() for part in recording), strict=True)
            self.simulator.record = [(s[: n + 1], a[:n], r[:n], end) for s, a, r, n, end in rows]

    @property
    def paid(self) -> Paid | None:
        return self.simulator.paid

    @property
    def recording(self) -> Recording | None:
        rows, H = self.simulator.record, self.setting.horizon
        if rows is None:
            return None
        return Recording(
            np.array([s + s[-1:] * (H + 1 - len(s)) for s, _, _, _ in rows], np.int32).reshape(len(rows), H + 1),
            np.array([a + [self.simulator.filler(s[-1])] * (H - len(a)) for s, a, _, _ in rows], np.int32).reshape(len(rows), H),
            np.array([r + [0.0] * (H - len(r)) for _, _, r, _ in rows], float).reshape(len(rows), H),
            np.array([len(a) for _, a, _, _ in rows], np.int32),
            np.array([end for _, _, _, end in rows], np.uint8),
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


def written(env: Any) -> str:
    """How Gymnasium would make the environment again, down to its arguments and wrappers; nothing if it does not know.

    With the transitions and the map of those that have them, as toy-text environments do.
    """
    try:
        spec = env.spec
        if spec is None or any(wrapper.kwargs is None for wrapper in spec.additional_wrappers):
            return ""
        inner = env.unwrapped  # some are drawn when they are made: then what was drawn counts
        return f"{spec.to_json()} {getattr(inner, 'P', '')!r} {getattr(inner, 'desc', '')!r}"
    except Exception:  # arguments that cannot be written down; Gymnasium raises whatever json does
        return ""
