"""Explore any Gymnasium environment: it becomes a process with numbered states and actions and episodes of H steps.

Pass the environment, its id or a function that makes it to `explore`; `Gymnasium(env, ...)` says what else you know about it.
This is what is done to it, so that a certificate about the process is a certificate about the environment:

- **Early termination.** An episode that terminates before step H stays where it terminated, and is paid nothing there. With
  `terminal="outcome"`, the default, "it terminated in observation s" is an outcome of its own, numbered S + s, beside "it
  continues from s". Nothing is assumed, and rewards can depend on where an episode terminated. With `terminal="end"` all
  terminations are one extra state, the last one: nothing is assumed either, but rewards cannot tell them apart. With
  `terminal="state"` the state is s itself, and no episode may ever continue from it: an assumption, which needs the fewest
  episodes. Nothing has to be estimated after a termination.
- **Illegal actions.** If `info["action_mask"]` forbids an action a, legal action number a mod k is played instead, where k
  actions are legal. The mask has to be a function of the observation. In a state that was never visited any mask is possible,
  unless all masks are known beforehand (`action_masks`).
- **Initial state.** It is estimated, unless `initial_state` says where every episode starts, or `initial` with which
  probabilities.
- **Truncation** before step H is refused: the process does not know why an episode was cut.
- **Seeds.** Every 32nd episode begins with a seed of its own, made from the run's seed and the number of the episode. There an
  exploration can be resumed, whatever random generator the environment uses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from .. import kernels
from ..algorithms import Explorer
from ..atlas.recording import Recording
from ..data.counts import Counts
from ..data.numbering import Numbering
from ..data.spaces import Codec, Indexed, Whole, assumed_by, checked_size, codec, known_start
from ..playing.calls import Calls
from ..playing.opening import (
    EnvironmentFailure,
    Gymnasium,
    all_legal,
    checked_mask,
    in_short,
    known_masks,
    make,
    own_action_names,
    time_limit,
    written,
)
from ..playing.transcripts import Transcript
from ..rewards.observed import ObservedRewards
from ..setting import Setting, shown, whole_number
from ..words import plain

BLOCK = 32  # episodes between two seeds


class GymnasiumEnvironment:
    """A Gymnasium environment as exploration sees it: plays episodes, step by step, and lets an explorer learn from them.

    Parameters
    ----------
    gymnasium
        The environment, and how it becomes a process with numbered states.
    horizon
        Steps of an episode.
    discount, stationary, arrival_rewards
        Of the setting, see `Setting`.
    seed
        From which the seeds of the environment are made.
    record
        Whether to keep every episode.
    """

    batch: int | None = None
    is_compiled = False
    assumptions: tuple[str, ...] = ()

    def __init__(
        self,
        gymnasium: Gymnasium,
        horizon: int,
        discount: float = 1.0,
        stationary: bool = False,
        arrival_rewards: bool = False,
        seed: int = 0,
        record: bool = False,
    ) -> None:
        self.horizon, self.seed = whole_number(horizon, "horizon"), seed
        if self.horizon < 1:
            raise ValueError(f"horizon is {self.horizon}: it has to be at least 1.")
        self.terminal = "outcome" if gymnasium.terminal is None else gymnasium.terminal
        self.env, name = make(gymnasium.env, gymnasium.env_args)
        self.name = plain(name)
        self.calls: Calls | Transcript = Calls(self.env, gymnasium.step_timeout)
        try:
            spaces = self.env.observation_space, self.env.action_space
            limit = time_limit(self.env)
        except Exception as problem:  # they may be properties that compute something
            raise ValueError(f"the spaces of {self.name} cannot be looked at: {in_short(problem)}.") from problem
        self.observations: Codec = checked_size(codec(spaces[0], gymnasium.bins, gymnasium.max_states), "observation")
        self.actions: Codec = checked_size(codec(spaces[1], name="action"), "action")
        self.n_states = self.observations.size + (self.terminal == "end")
        self.n_actions = self.actions.size
        self._masks = known_masks(gymnasium.action_masks, self.observations, self.n_actions)
        if limit is not None and limit < self.horizon:
            raise ValueError(
                f"{self.name} ends every episode after {limit} steps, before the horizon of {self.horizon}: "
                f"use a horizon of at most {limit}, or make the environment with max_episode_steps={self.horizon}."
            )
        self.setting = Setting(
            n_states=self.n_states,
            n_actions=self.n_actions,
            horizon=self.horizon,
            discount=discount,
            stationary=stationary,
            initial_state=self._start(gymnasium.initial_state),
            initial=known_start(gymnasium.initial, self.observations, self.n_states),
            arrival_rewards=arrival_rewards,
            terminal=self.terminal,
            hidden_masks=self._masks is None,
            illegal_actions=() if self._masks is None else tuple((int(s), int(a)) for s, a in np.argwhere(~self._masks)),
            assumed=self._assumed,
        )
        named = own_action_names(self.env, self.name) if gymnasium.action_names is None else gymnasium.action_names
        self.numbering = Numbering(self.observations, self.actions).named(gymnasium.state_names, named)
        self._possible = frozenset(self.setting.starts[0].tolist())  # the states in which episodes can start, if that is known
        self.alarms: list[str] = []  # what an audit said against its assumptions
        self.paid, self.reward = ObservedRewards(), None
        self._record: list[tuple[list[int], list[int], list[float], int]] | None = [] if record else None
        self._ended: set[int] = set()  # states in which episodes ended
        self._alive = bytearray(self.n_states)  # 1: was met and went on; 2: and said which actions are legal
        self._seen: dict[int, tuple[Any, str, bytes]] = {}  # by state: its mask as it is given, once it has been checked
        own = [isinstance(part, Whole) and part.start == 0 for part in (self.observations, self.actions)]  # its own numbers
        self._plain, self._as_it_is = self.observations.size * own[0], own[1]  # observations below the first, and actions
        self._fresh = True  # no episode was played yet
        self._last: tuple[list[int], list[int], list[float], int] = [], [], [], 0  # the last episode
        self._allowed: dict[int, tuple[bytes, list[int]]] = {}  # by state: the mask, and the actions it allows

    def _start(self, given: Any) -> int | None:
        """The number of the initial state, which may be given as that number or as an observation."""
        if given is None or isinstance(given, int | np.integer):
            return None if given is None else int(given)
        return self.encode(given)

    @property
    def _assumed(self) -> tuple[str, ...]:
        """What the numbering of observations assumes, and masks that forbid nothing."""
        free = ("every action is legal everywhere",) if self._masks is not None and self._masks.all() else ()
        return (*assumed_by(self.observations), *free)

    def play(self, explorer: Explorer, episodes: int, goal: float) -> bool:
        """Plays to the end of the present block of episodes at most: explorations are resumed where a block begins."""
        for _ in range(min(episodes, explorer.per_call, BLOCK - explorer.episodes % BLOCK)):
            self.count(explorer, *self.episode(explorer.actor(), explorer.episodes, explorer.counts))
            if explorer.reached(goal):
                return True
        return False

    def count(self, explorer: Explorer, states: np.ndarray, actions: np.ndarray, paid: np.ndarray) -> None:
        """Lets the explorer learn from the last episode, and keeps what was paid."""
        if explorer.observes_rewards:
            explorer.tell(states, actions, paid)  # type: ignore[call-arg]
        elif type(explorer).tell is Explorer.tell:
            explorer._learn(states[None], actions[None])  # what `tell` would do after checks that were made here
        else:
            explorer.tell(states, actions)
        self._keep()

    def episode(self, act: Callable[[int, int], int], t: int, counts: Counts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Plays episode number t with the actions that `act(h, s)` chooses; returns its H+1 states, H actions and H rewards.

        What the environment tells about its states on the way is declared to `counts`.
        """
        step, encode, decode, H = self.calls.step, self.encode, self.actions.decode, self.horizon
        plain, as_it_is, alive, masked = self._plain, self._as_it_is, self._alive, self._allowed
        if t % BLOCK == 0 or self._fresh:
            words = np.random.SeedSequence(self.seed, spawn_key=(2, *divmod(t, BLOCK))).generate_state(2, np.uint64)
            self._fresh = False
            number: int | None = int(words[0] >> np.uint64(2))
        else:
            number = None
        try:
            observation, info = self.calls.reset(number)
        except (Exception, SystemExit) as problem:
            raise self._failure(problem, t, "resetting it") from problem
        s = encode(observation)
        if self._possible and s not in self._possible:
            counts.setting.check_starts(np.array([s]), self.name, self.numbering.names_in)
        states, actions, rewards = [s], [], []
        for h in range(H):
            if "action_mask" in info or alive[s] != 1:
                self._meet(s, info, counts)
            a = int(act(h, s))
            if masked:
                a = self._permitted(s, a)
            try:
                observation, reward, terminated, truncated, info = step(a if as_it_is else decode(a))
            except (Exception, SystemExit) as problem:
                doing = self.numbering.names_in(f"at step {h}, playing action {a} in state {s}")
                raise self._failure(problem, t, doing) from problem
            if not isfinite(reward):
                raise ValueError(f"{self.name} paid {reward} at step {h}: a reward has to be a finite number.")
            if terminated:
                s_next = self._end(observation, counts)
            else:
                s_next = observation if type(observation) is int and 0 <= observation < plain else encode(observation)
                if truncated and h + 1 < H:
                    raise ValueError(
                        f"{self.name} was truncated after {h + 1} steps, before the horizon of {H}: "
                        f"use a horizon of at most {h + 1}, or an environment with a longer time limit."
                    )
            states.append(s_next)
            actions.append(a)
            rewards.append(reward)
            s = s_next
            if terminated:
                break
        else:
            self._meet(s, info, counts)
        played = len(actions)
        self._last = states, actions, rewards, int(terminated)
        if played < H:  # it stays where it ended, and is paid nothing
            left = H - played
            states, actions, rewards = states + [s] * left, actions + [self.filler(s)] * left, rewards + [0.0] * left
        return np.array(states, np.int64), np.array(actions, np.int64), np.array(rewards)

    def encode(self, observation: Any) -> int:
        """The number of an observation."""
        try:
            return self.observations.encode(observation)
        except Exception as problem:  # whatever a strange object raises when it is looked at
            if isinstance(problem, ValueError) and str(problem).endswith("."):
                raise
            raise ValueError(
                f"{self.name} gave the observation {shown(observation)}, which is not in its space: {in_short(problem)}."
            ) from problem

    def _keep(self) -> None:
        """Takes the last episode into what was paid and recorded, once it has been learnt from: not if it was refused."""
        states, actions, rewards, _ = self._last
        self.paid.add_episode(states, actions, rewards)
        if self._record is not None:
            self._record.append(self._last)

    def filler(self, s: int) -> int:
        """The action that is written down where an episode has ended in state s, and nothing is played: a legal one."""
        return int(self._masks[s].argmax()) if self._masks is not None and self.terminal == "state" else 0

    def _failure(self, problem: BaseException, t: int, doing: str) -> EnvironmentFailure:
        self._fresh = True
        return EnvironmentFailure(f"{self.name} failed in episode {t}, {doing}: {in_short(problem)}.")

    def _meet(self, s: int, info: dict[str, Any], counts: Counts) -> None:
        """Takes note of a state that is met alive, before it is counted."""
        if s in self._ended:
            where = self.numbering.names_in(f"state {s}")
            raise ValueError(f"{self.name} ended in {where} before and goes on from there now: leave out terminal='state'.")
        mask = info.get("action_mask")
        if type(mask) is np.ndarray and self._seen.get(s) == (mask.shape, mask.dtype.char, mask.tobytes()):
            return  # as before
        before, self._alive[s] = self._alive[s], 1 if mask is None else 2
        if before not in (0, self._alive[s]):
            where = self.numbering.names_in(f"state {s}")
            raise ValueError(f"info['action_mask'] of {where} is there at some times and not at others: it always has to be.")
        if mask is None:
            if before == 0:
                self._first(s, b"", counts)
            return
        word = checked_mask(mask, self.n_actions, s, self.numbering.names_in)
        if before == 0:
            self._first(s, word, counts)
        elif self._allowed.get(s, (all_legal(self.n_actions),))[0] != word:
            where = self.numbering.names_in(f"state {s}")
            raise ValueError(f"info['action_mask'] of {where} changes: it has to be a function of the observation.")
        if type(mask) is np.ndarray:
            self._seen[s] = mask.shape, mask.dtype.char, mask.tobytes()

    def _first(self, s: int, word: bytes, counts: Counts) -> None:
        """Takes note of the mask of a state that is met for the first time; an empty one means that nothing is said."""
        if self._masks is not None:
            known = self._masks[s].tobytes()
            if word and word != known:
                where = self.numbering.names_in(f"state {s}")
                raise ValueError(
                    f"info['action_mask'] of {where} is {list(word)}, but action_masks says {list(known)}: they have to agree."
                )
            word = known
        if 0 in word:
            self._allowed[s] = word, [a for a in range(self.n_actions) if word[a]]
        if self._masks is None:
            counts.declare_illegal(s, [a for a in range(self.n_actions) if word and not word[a]])

    def _permitted(self, s: int, a: int) -> int:
        if s not in self._allowed:
            return a
        word, allowed = self._allowed[s]
        return a if word[a] else allowed[a % len(allowed)]

    def _end(self, observation: Any, counts: Counts) -> int:
        if self.terminal == "end":
            return self.n_states - 1
        s = self.encode(observation)
        if self.terminal == "outcome":
            return self.n_states + s
        if s not in self._ended:
            if self._alive[s]:
                where = self.numbering.names_in(f"state {s}")
                raise ValueError(f"{self.name} went on from {where} before and ends there now: leave out terminal='state'.")
            self._ended.add(s)
            counts.declare_absorbing([s])
        return s

    def rests(self, episodes: int) -> bool:
        return episodes % BLOCK == 0

    def state(self) -> dict[str, Any]:
        """What it has learnt about its states, as plain JSON."""
        observations = self.observations
        return {
            "ended": sorted(self._ended),
            "alive": [np.flatnonzero(np.frombuffer(self._alive, np.uint8) == kind).tolist() for kind in (1, 2)],
            "allowed": [[s, allowed] for s, (_, allowed) in self._allowed.items()],
            "labels": observations.dump() if isinstance(observations, Indexed) else None,
        }

    def check(self, counts: Counts) -> None:
        before = Counts(counts.setting).declarations()[:, 0]  # what the setting says is not the environment's to tell
        mine, theirs = (
            {tuple(row) for row in x[~np.isin(x[:, 0], before)].tolist()} for x in (self.declarations(), counts.declarations())
        )
        if mine != theirs:
            raise ValueError("what it says of legal actions and of ends is not what it says that the environment told.")

    def declarations(self) -> np.ndarray:
        """What the environment told of its states, as rows for `Counts.declare`: (s A + a, mark)."""
        A, rows, table = self.n_actions, [], kernels.table
        if self._masks is None:
            for s in np.flatnonzero(np.frombuffer(self._alive, np.uint8)).tolist():
                word = self._allowed[s][0] if s in self._allowed else all_legal(A)
                rows += [(s * A + a, 0 if word[a] else table.ILLEGAL) for a in range(A)]
        rows += [(s * A + a, table.STAYS) for s in self._ended for a in range(A)]
        return np.array(rows, np.int64).reshape(-1, 2)

    def restore(self, state: dict[str, Any], paid: ObservedRewards | None, recording: Recording | None) -> None:
        """Takes up what `state` gave."""
        self.paid = ObservedRewards() if paid is None else paid
        if self._record is not None and recording is not None:
            rows = zip(*(part.tolist() for part in recording), strict=True)
            self._record = [(s[: n + 1], a[:n], r[:n], end) for s, a, r, n, end in rows]
        self._ended = {int(s) for s in state["ended"]}
        for kind, states in zip((1, 2), state["alive"], strict=True):
            for s in states:
                self._alive[s] = kind
        for s, allowed in state["allowed"]:
            if (
                not (0 <= s < self.n_states and self._alive[s] == 2)
                or not allowed
                or not set(allowed) < set(range(self.n_actions))
            ):
                raise ValueError("what it says of legal actions is damaged.")
            word = bytes(int(a in set(allowed)) for a in range(self.n_actions))
            self._allowed[int(s)] = word, [int(a) for a in allowed]
        if isinstance(self.observations, Indexed):
            self.observations.restore(state["labels"])

    @cached_property
    def _made(self) -> str:
        return written(self.env)

    @cached_property
    def fingerprint(self) -> str:
        """By which a checkpoint recognises it."""
        try:
            space = str(self.env.observation_space)
        except Exception:  # it is nested too deeply, or somebody's own
            space = type(self.env.observation_space).__name__
        text = f"{self.name} {self._made} {space} {self.terminal} {self.observations}"
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def origin(self) -> str | None:
        """The same, if Gymnasium could make the environment again from what it says; else None."""
        return self.fingerprint if self._made else None

    @property
    def facts(self) -> dict[str, Any]:
        facts = {"grid": self.grid, "arrows": self.arrows, "alarms": self.alarms or None}
        return {name: fact for name, fact in facts.items() if fact is not None}

    @property
    def recording(self) -> Recording | None:
        rows, H = self._record, self.horizon
        if rows is None:
            return None
        return Recording(
            np.array([s + s[-1:] * (H + 1 - len(s)) for s, _, _, _ in rows], np.int32).reshape(len(rows), H + 1),
            np.array([a + [self.filler(s[-1])] * (H - len(a)) for s, a, _, _ in rows], np.int32).reshape(len(rows), H),
            np.array([r + [0.0] * (H - len(r)) for _, _, r, _ in rows], float).reshape(len(rows), H),
            np.array([len(a) for _, a, _, _ in rows], np.int32),
            np.array([end for _, _, _, end in rows], np.uint8),
        )

    @property
    def arrows(self) -> str | None:
        """How the actions of well-known grids look."""
        looks = {"FrozenLake": "←↓→↑", "CliffWalking": "↑→↓←"}
        return next((look for start, look in looks.items() if self.name.startswith(start)), None)

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns, if the environment's states are the fields of a grid, as those of FrozenLake and CliffWalking are."""
        try:
            inner = self.env.unwrapped
            for shape in (getattr(getattr(inner, "desc", None), "shape", None), getattr(inner, "shape", None)):
                if isinstance(shape, tuple) and len(shape) == 2 and int(np.prod(shape)) == self.observations.size:
                    return int(shape[0]), int(shape[1])
        except Exception:  # these may be anything
            return None
        return None
