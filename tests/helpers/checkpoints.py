"""Explorations to interrupt, resume and compare: every kind of explorer and environment, small."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import anyreward as ar
from anyreward.algorithms import Explorer

from .problems import random_mdp
from .waiting import PATIENCE

ROOT = Path(__file__).parents[2]
H = 5


class Rooms(gymnasium.Env):
    """Numbered as it appears, with masks, ends and random pay: everything that a simulator has to remember."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Text(8)
        self.action_space = gymnasium.spaces.Discrete(3)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([1, 1, self.room % 2], np.int8)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.room = int(self.np_random.integers(0, 3))
        return f"room {self.room}", self._info()

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.room = min(9, max(0, self.room + int(self.np_random.integers(-1, 2)) + int(action)))
        return f"room {self.room}", float(self.np_random.random() < 0.5), self.room == 9, False, self._info()


class Wanderer(Explorer):
    """An explorer of one's own that remembers something beside its counts."""

    def __init__(self, setting: ar.Setting, **options: Any) -> None:
        super().__init__(setting, **options)
        self.turn = 0

    def ask(self) -> np.ndarray:
        shape = self.setting.horizon, self.setting.n_states
        return np.random.default_rng((self.seed, self.turn)).integers(0, self.setting.n_actions, shape)

    def _learn(self, states: np.ndarray, actions: np.ndarray) -> None:
        super()._learn(states, actions)
        self.turn += 1 + int(states.sum()) % 3

    def state(self) -> dict[str, np.ndarray]:
        return {**super().state(), "turn": np.array([self.turn])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self.turn = int(state["turn"][0])


def chain(**_: Any) -> ar.TabularMDP:
    return ar.envs.double_chain(length=7)


def garnet(random_start: bool = False, by_step: bool = False) -> ar.TabularMDP:
    return random_mdp(5, 2, seed=3, random_start=random_start, H=H if by_step else None)


def reward() -> np.ndarray:
    return np.random.default_rng(5).random((7, 2)).round(2)


CASES: dict[str, tuple[Callable[[], Any], int | None, dict[str, Any]]] = {  # name: what is explored, episodes, options
    "path": (chain, 30_000, {}),
    "every": (chain, 15_000, {"replan": "every"}),
    "geometric": (chain, 60_000, {"replan": "geometric"}),
    "to a target": (chain, None, {"epsilon": 0.9}),
    "rf-ucrl": (chain, 30_000, {"algorithm": "rf-ucrl"}),
    "rf-ucrl every to a target": (chain, None, {"algorithm": "rf-ucrl", "bounds": "paper", "replan": "every", "epsilon": 4.9}),
    "paper": (chain, 20_000, {"bounds": "paper", "clip": False, "ties": "first"}),
    "bpi known": (chain, 10_000, {"algorithm": "bpi-ucrl", "reward": reward()}),
    "bpi observed": (chain, 10_000, {"algorithm": "bpi-ucrl", "reward": reward(), "rewards": "observed"}),
    "bpi random": (chain, 10_000, {"algorithm": "bpi-ucrl", "reward": reward(), "rewards": "random", "stationary": True}),
    "bpi on arrival": (chain, 60, {"algorithm": "bpi-ucrl", "reward": lambda h, s, a, s_next: float(s_next == 6)}),
    "shared laws": (chain, 40_000, {"structure": "own"}),
    "shared laws bpi": (chain, 2_000, {"structure": "own", "algorithm": "bpi-ucrl", "reward": reward()}),
    "stationary": (chain, 40_000, {"stationary": True, "discount": 0.9}),
    "random start": (lambda: garnet(random_start=True), 20_000, {"arrival_rewards": True}),
    "random start bpi": (lambda: garnet(random_start=True), 4_000, {"algorithm": "bpi-ucrl", "reward": np.eye(5)[4]}),
    "by step": (lambda: garnet(by_step=True), 20_000, {"growth": 1.2}),
    "stationary geometric": (lambda: garnet(random_start=True), 60_000, {"stationary": True, "replan": "geometric"}),
    "recorded": (chain, 400, {"record": True}),
    "wanderer": (chain, 800, {"algorithm": Wanderer}),
    "frozen lake": (lambda: "FrozenLake-v1", 900, {}),
    "frozen lake geometric": (lambda: "FrozenLake-v1", 900, {"replan": "geometric", "record": True}),
    "frozen lake bpi": (lambda: "FrozenLake-v1", 500, {"algorithm": "bpi-ucrl", "rewards": "random", "initial_state": 0}),
    "rooms": (lambda: Rooms, 600, {"max_states": 12, "record": True}),
    "rooms end": (lambda: Rooms, 600, {"max_states": 12, "terminal": "end", "stationary": True}),
}


def whole_scale(name: str) -> float:
    """Known models are so fast that they have to be explored for longer to be killed on the way."""
    episodes = CASES[name][1]
    return 1 if episodes is None or episodes < 1_000 else 3


def go(name: str, path: str | Path | None, scale: float = 1, **options: Any) -> ar.Atlas:
    """The exploration of a case, whole or as far as it comes."""
    env, episodes, given = CASES[name]
    episodes = None if episodes is None else max(1, round(episodes * scale))
    call = {"max_episodes": episodes, "seed": 11, "progress": False, "checkpoint": path, **given, **options}
    return ar.explore(env(), H, **call)


def same(one: ar.Atlas, other: ar.Atlas) -> bool:
    """Whether two atlases are the same to the last bit."""
    assert one.counts.digest() == other.counts.digest()
    for name, column in one.counts.columns().items():
        np.testing.assert_array_equal(column, other.counts.columns()[name])
    assert one.certificate == other.certificate
    assert one.history == other.history
    assert one.runs == other.runs
    assert one.paid == other.paid
    assert (one.policy is None) == (other.policy is None)
    assert one.policy is None or (one.policy == other.policy).all()
    S = one.counts.setting.n_states
    plans = [atlas.plan(np.linspace(0, 1, S)) for atlas in (one, other)]
    assert (plans[0].policy == plans[1].policy).all()
    assert [(p.value, p.lower, p.upper) for p in plans[:1]] == [(p.value, p.lower, p.upper) for p in plans[1:]]
    assert (one.recording is None) == (other.recording is None)
    if one.recording is not None and other.recording is not None:
        for mine, theirs in zip(one.recording, other.recording, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    return True


def script(text: str, *arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, **options
    )
    return done
