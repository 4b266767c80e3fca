"""A first look at an environment: its sizes, tests of the assumptions, and a forecast of how many episodes exploring it takes.

A few thousand random steps are played. They are used for this report alone and never for a certificate. Two assumptions are
tested by a likelihood ratio (`data.likelihood`; `docs/theory.md`, 9.9): that the next observation depends on (step, state,
action) alone (the environment is Markov), and that it does not depend on the step. Evidence against the second is a reason to
warn if it is to be explored as stationary; otherwise, without such evidence, the report suggests to assume it, if it is known.
"""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from time import monotonic
from typing import Any

import numpy as np

from ..data.likelihood import ALARM, log_likelihood_ratio, p_value
from ..data.spaces import Binned, Indexed, described
from ..data.tabular import TabularMDP
from ..environments.gymnasium import GymnasiumEnvironment
from ..playing.opening import ADAPTER, EnvironmentFailure, Gymnasium, as_model, checked_mask, in_short, make, time_limit
from ..rewards.observed import ObservedRewards
from ..setting import nearest, shown
from ..words import console, is_shown, plain, verbatim, worded
from .forecast import episodes_for, in_words
from .parts import part_lines

STEPS = 5_000  # random steps of an audit
PATIENCE = 2.0  # seconds before a message says that the environment is being audited
DEFAULT_HORIZON = 100


@dataclass
class Audit:
    """What an audit found about an environment. `print` shows it as a report.

    Example:

        found = anyreward.audit(env, horizon=20, stationary=True)
        found.alarms                                    # what speaks against an assumption; here nothing
        found.forecast(epsilon=2.0)                     # how many episodes it may take
    """

    name: str
    n_states: int
    n_actions: int
    horizon: int
    episodes: int  # number of random episodes that were played
    states_seen: int
    starts: dict[int, int]  # initial states, and how many episodes started in each
    ended: float  # share of the episodes that terminated before the horizon
    ends: int  # number of observations in which episodes terminated
    mixed: bool  # whether some episodes continued from an observation in which others terminated
    terminal: str  # what is assumed about termination: outcome, end or state
    limit: int | None  # steps after which the environment truncates an episode
    masked: bool  # whether the environment declares some actions illegal
    rewards: tuple[float, float]  # range of the rewards, including 0
    markov: float  # p-value of the test that it is Markov
    stationary: float  # p-value of the test that transitions do not depend on the step
    pooled: bool  # whether it is to be explored as stationary
    kind: str  # the observation space
    warnings: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)  # which parts of the observation look independent, as lines of the report
    _ended: frozenset[int] = frozenset()
    _transitions: list[tuple[int, int, int, int]] = field(default_factory=list, repr=False)  # h, s, a, next
    _model: TabularMDP | None = field(default=None, repr=False, compare=False)
    _start_known: str = field(default="", repr=False)  # what is assumed about the initial state, if anything
    _start_seen: str = field(default="", repr=False)  # the only initial state of the random episodes, if there is one
    _rate: float | None = field(default=None, repr=False, compare=False)  # random episodes a second

    def lines(self) -> list[str]:
        """The report, line by line.

        Example:

            for line in anyreward.audit(env, horizon=20).lines():
                print(line)
        """
        out = [f"{self.name}: {self.n_states:,} states ({self.kind}), {self.n_actions} actions, horizon {self.horizon}."]
        if self._model is not None:
            start = "known" if len(self.starts) == 1 else f"random, one of {len(self.starts):,} states"
            return [*out, f"Initial state: {start}.", "This is a known model: there is nothing to test."]
        out.append(f"Probe: {self.episodes:,} random episodes, which visited {self.states_seen:,} states.")
        if self._start_known:
            out.append(f"Initial state: {self._start_known}.")
        elif len(self.starts) == 1:
            out.append(
                f"Initial state: always {self._start_seen} in the probe. The start will be estimated. "
                f"If it is fixed, pass initial_state={next(iter(self.starts))}."
            )
        else:
            out.append(
                f"Initial state: random, {len(self.starts):,} different states in the probe. The start will be estimated. "
                "If you know its distribution, pass initial=(probabilities)."
            )
        if self.ended:
            where = f"{self.ends:,} observation{'s' if self.ends > 1 else ''}"
            how = {
                "outcome": "Terminating there and continuing from there are counted as two different outcomes.",
                "end": "All terminations are one extra state, the last one.",
                "state": "It is assumed that episodes always terminate there.",
            }[self.terminal]
            out.append(f"Terminal states: {self.ended:.0%} of the episodes terminated before the horizon, in {where}.")
            out.append(f"  {how}")
            if self.terminal == "outcome" and not self.mixed:
                out.append(
                    "  No episode continued from there. If you know that none ever does, terminal='state' needs fewer episodes."
                )
        else:
            out.append("Terminal states: no episode terminated before the horizon.")
        if self.limit is not None:
            out.append(f"Time limit: {self.limit} steps, not before the horizon.")
        if self.masked:
            out.append(
                "Illegal actions: info['action_mask'] forbids some actions in some states. In states that were not visited,"
            )
            out.append("  any action may be illegal. If you know all masks, pass action_masks.")
        out.append(
            f"Rewards: from {self.rewards[0]:g} to {self.rewards[1]:g}. They are recorded: plan for them with reward 'own'."
        )
        out.append(
            self._verdict("Markov", self.markov, "the next observation depends on more than the present observation and action")
        )
        if self.pooled:
            out.append(self._verdict("Stationary", self.stationary, "the transitions depend on the step: use stationary=False"))
        elif self.horizon > 1 and self.stationary > ALARM:
            out.append(self._verdict("Stationary", self.stationary, ""))
            out.append("  If you know that the transitions do not depend on the step, stationary=True needs far fewer episodes.")
        out += self.parts
        if self.tried_again:
            out.append(
                f"Deterministic: it has looked so. {self.tried_again:,} pairs of state and action were played more than once, "
                "and always had the same successor."
            )
            out.append("  If you know that it is deterministic, deterministic=True needs far fewer episodes.")
        return out + [f"warning: {text}" for text in self.warnings]

    @staticmethod
    def _verdict(claim: str, p: float, alarm: str) -> str:
        """The line of a test with p-value `p`: a warning, or that there is no evidence against the claim."""
        if p <= ALARM:
            return f"warning: {alarm} (likelihood-ratio test, p <= {p:.2g}; a false warning has probability at most {ALARM:.0%})"
        return f"{claim}: no evidence against it (likelihood-ratio test, p = {min(1.0, p):.2g}; warns at p <= {ALARM:g})."

    @property
    def tried_again(self) -> int:
        """How many pairs of state and action the probe played more than once, if it always went the same way; 0 if it did not."""
        successor: dict[tuple[int, int], int] = {}
        again = set()
        for _, s, a, s_next in self._transitions:
            if successor.get((s, a), s_next) != s_next:
                return 0
            if (s, a) in successor:
                again.add((s, a))
            successor[s, a] = s_next
        return len(again)

    @property
    def alarms(self) -> list[str]:
        """The warnings that a test found evidence against an assumption of the certificate."""
        return [line for line in self.lines() if line.startswith("warning") and "likelihood-ratio test" in line]

    def forecast(self, epsilon: float, delta: float = 0.1, **options: Any) -> float | None:
        """A forecast of the number of episodes until epsilon is certified, or None if there is none.

            anyreward.audit(env, horizon=20).forecast(epsilon=2.0, stationary=True)

        The forecast explores a model that is made from the random episodes: its transition probabilities are their frequencies,
        and pairs that they did not visit stay where they are. States that the random episodes did not visit are missing from the
        model, so this is a low estimate.

        Parameters
        ----------
        epsilon, delta
            The certificate, as for `explore`.
        options
            Further arguments of `explore`.
        """
        from .explore import explore

        model, absorbing = (self._model, ()) if self._model is not None else self._stand_in()
        if self._start_known:
            options = {"initial": model.initial, **options}
        atlas = explore(
            model, self.horizon, epsilon, delta, max_episodes=10**10, replan="geometric", growth=1.1, progress=False,
            on_interrupt="raise", **{"stationary": self.pooled, "absorbing_states": absorbing, **options},
        )  # fmt: skip
        return float(atlas.episodes) if atlas.certificate.met else episodes_for(atlas.history, epsilon)

    def _stand_in(self) -> tuple[TabularMDP, tuple[int, ...]]:
        """The empirical model of the random episodes, on the states that they visited, and its absorbing states."""
        numbers: dict[int, int] = {}
        rows: dict[tuple[int, int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for s in self.starts:
            numbers.setdefault(s, len(numbers))
        for _, s, a, s_next in self._transitions:
            i, j = numbers.setdefault(s, len(numbers)), numbers.setdefault(s_next, len(numbers))
            rows[0, i, a][j] += 1
        S, K = len(numbers), max((len(row) for row in rows.values()), default=1)
        successors = np.broadcast_to(np.arange(S)[:, None, None], (S, self.n_actions, K)).copy()
        p = np.zeros((S, self.n_actions, K))
        p[:, :, 0] = 1.0
        for (_, i, a), row in rows.items():
            total = sum(row.values())
            for k, (j, times) in enumerate(row.items()):
                successors[i, a, k], p[i, a, k] = j, times / total
        initial = np.zeros(S)
        for s, times in self.starts.items():
            initial[numbers[s]] = times
        ended = tuple(numbers[s] for s in self._ended if s in numbers)
        return TabularMDP.from_sparse(successors, p, initial / initial.sum()), ended

    def show(self, progress: bool | Callable[[int, float], None] | None, epsilon: float | None, delta: float) -> None:
        """Print the report and a forecast for `epsilon` to stderr, if progress is to be shown."""
        if not is_shown(progress):
            return
        out = console(stderr=True)
        for line in self.lines():
            style = "yellow" if line.startswith("warning") else "dim"
            out.print(plain(worded(line)), style=style, soft_wrap=not out.is_terminal)
        if epsilon is not None:
            for line in self.forecast_lines(epsilon, delta):
                out.print(worded(line), style="dim", soft_wrap=not out.is_terminal)

    def forecast_lines(self, epsilon: float, delta: float = 0.1) -> list[str]:
        """The forecast for `epsilon` as lines of the report: as things are, and under each assumption that is suggested."""
        needed = self.forecast(epsilon, delta)
        if needed is None:
            return [f"Forecast: none is possible for epsilon {epsilon:g}."]
        low = "" if self._model is not None else " This is a low estimate: it only knows the states that the probe visited."
        lines = [f"Forecast: {in_words(needed, self._rate)} for epsilon {epsilon:g}.{low}"]
        for argument, options in self._suggested:
            fewer = self.forecast(epsilon, delta, **options)
            if fewer is not None and fewer < needed:
                it = "they hold" if argument == "both" else "it holds"
                lines.append(f"  With {argument}, if you know that {it}: {in_words(fewer, self._rate)}.")
        return lines

    @property
    def _suggested(self) -> list[tuple[str, dict[str, Any]]]:
        """What could be assumed in addition, if it is known: arguments of `explore`, in words and as a dictionary."""
        found: list[tuple[str, dict[str, Any]]] = []
        if self._model is None and not self.pooled and self.horizon > 1 and self.stationary > ALARM:
            found.append(("stationary=True", {"stationary": True}))
        if self.tried_again:
            found.append(("deterministic=True", {"deterministic": True}))
        if len(found) == 2:
            found.append(("both", {**found[0][1], **found[1][1]}))
        return found

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        from ..pages import audit_card

        return audit_card(self.lines())


def audit(
    env: Any,
    horizon: int | None = None,
    *,
    stationary: bool = False,
    seed: int = 0,
    steps: int = STEPS,
    **adapter: Any,
) -> Audit:
    """Look at an environment before exploring it: plays random steps and reports what it found.

        print(anyreward.audit("FrozenLake-v1", horizon=20, stationary=True))

    Parameters
    ----------
    env
        A Gymnasium environment, the id of one, a function that makes one, a `TabularMDP`, or the name of one of ours.
    horizon
        Number of steps of an episode. None: the time limit of the environment, or 100 if it has none.
    stationary
        Whether it is to be explored as stationary, so that evidence that transitions depend on the step is a reason to warn.
    seed
        Seed of the actions and of the environment.
    steps
        Number of random steps; the last episode is played to its end.
    bins, max_states, terminal, action_masks, initial_state, initial, env_args, step_timeout
        As for `explore`.

    Returns
    -------
    Audit
        The findings; `print` shows them as a report, `Audit.forecast` estimates the number of episodes.
    """
    for option in adapter:
        if option not in ADAPTER:
            raise ValueError(f"{shown(option)} is not an argument of audit{nearest(option, ADAPTER)}.")
    env = as_model(env, adapter)
    if isinstance(env, TabularMDP):
        starts = {int(s): 0 for s in np.flatnonzero(env.initial)}
        steps = (env.n_steps or DEFAULT_HORIZON) if horizon is None else horizon
        return Audit(
            env.name, env.n_states, env.n_actions, steps, 0, 0, starts, 0.0, 0, False, "state", None, False, (0.0, 0.0), 1.0, 1.0,
            stationary and env.n_steps is None, "tabular", _model=env,
        )  # fmt: skip
    made, found = make(env.env, env.env_args)
    horizon = (time_limit(made) or DEFAULT_HORIZON) if horizon is None else horizon
    return audited_environment(replace(env, env=made, env_args=None), horizon, stationary, seed, steps, name=found)[1]


def audited_environment(
    env: Gymnasium,
    horizon: int,
    stationary: bool,
    seed: int,
    steps: int = STEPS,
    name: str | None = None,
    progress: bool | Callable[[int, float], None] | None = False,
    made_by: Callable[..., GymnasiumEnvironment] | None = None,
    **conventions: Any,
) -> tuple[GymnasiumEnvironment, Audit]:
    """A Gymnasium environment that can be explored, and the audit of it. Arguments as for `audit` and `explore`.

    `made_by` makes it if it is not a plain `GymnasiumEnvironment`; its arguments are those of that class.

    The environment does not depend on what the audit found: assumptions are stated by the user.
    """
    made, found = make(env.env, env.env_args)
    made_once = replace(env, env=made, env_args=None)
    probe = GymnasiumEnvironment(replace(made_once, terminal="end", action_masks=None, initial_state=None, initial=None), horizon)
    probe.name = plain(name or found)
    made_by = GymnasiumEnvironment if made_by is None else made_by
    simulator = made_by(replace(made_once, step_timeout=None), horizon, stationary=stationary, seed=seed, **conventions)
    simulator.calls = probe.calls  # both call the environment in the same thread, if there is a timeout
    chosen = simulator.terminal
    begin = monotonic()
    with delayed_status(progress, probe.name, steps):
        try:
            play = _play(probe, steps, seed)
        except ValueError:
            raise
        except (Exception, SystemExit) as problem:
            raise EnvironmentFailure(
                f"{probe.name} failed during the audit, before it was explored: {in_short(problem)}."
            ) from problem
    seconds = monotonic() - begin
    mixed = bool(play.alive & play.ended)
    simulator.name = probe.name
    notes = []
    if isinstance(probe.observations, Binned):
        notes.append(
            "observations are divided into bins: the certificate is about the process of the bins and assumes that it is Markov. "
            "It does not say how far that process is from the environment."
        )
        warnings.warn(f"{simulator.name}: {notes[-1]}", stacklevel=3)
    if isinstance(probe.observations, Indexed):
        notes.append(
            "observations are numbered in the order of appearance: the certificate assumes that there are at most "
            f"{probe.observations.size:,} of them."
        )
    if play.cut is not None:
        notes.append(
            f"an episode was truncated after {play.cut} steps, before the horizon of {horizon}: explore will refuse this. "
            f"Use a horizon of at most {play.cut}, or a longer time limit."
        )
    kinds = {Binned: "cells of the bins", Indexed: "at most, numbered in the order of appearance"}
    S, A = probe.observations.size, simulator.n_actions
    steps_apart = 1 if stationary else horizon
    row = (lambda h, s, a: (s, a)) if stationary else (lambda h, s, a: (h, s, a))
    alphabet = 2 * S
    markov = log_likelihood_ratio(
        ((row(h, s, a), before, y) for h, s, a, y, before in play.steps if h > 0), steps_apart * S * A, alphabet
    )
    same = log_likelihood_ratio((((s, a), h, y) for h, s, a, y, _ in play.steps), S * A, alphabet)
    end, beyond = probe.n_states - 1, probe.n_states  # termination in observation s has the number beyond + s

    def shift(y: int) -> int:
        """The number of a termination in the process that is explored."""
        return {"end": end, "state": y - beyond, "outcome": y}[chosen]

    ended = frozenset(shift(s + beyond) for s in play.ended)
    flat = [(h, s, a, y if y < beyond else shift(y)) for h, s, a, y, _ in play.steps]
    report = Audit(
        name=simulator.name,
        n_states=simulator.n_states,
        n_actions=A,
        horizon=horizon,
        episodes=play.episodes,
        states_seen=len(play.alive | play.ended),
        starts=dict(play.starts),
        ended=play.early / max(1, play.episodes),
        ends=len(play.ended),
        mixed=mixed,
        terminal=chosen,
        limit=time_limit(made),
        masked=play.masked,
        rewards=play.paid.range,
        markov=p_value(markov),
        stationary=p_value(same),
        pooled=stationary,
        kind=kinds.get(type(probe.observations), described(made.observation_space)),
        warnings=notes,
        parts=part_lines(probe.observations, [row for row in flat if row[3] < probe.observations.size], A),
        _ended=ended,
        _transitions=flat,
        _start_known=simulator.numbering.names_in(simulator.setting.start_in_words),
        _start_seen=probe.numbering.names_in(f"state {next(iter(play.starts))}"),
        _rate=play.episodes / max(seconds, 1e-9),
    )
    simulator.alarms = report.alarms
    return simulator, report


@contextmanager
def delayed_status(progress: bool | Callable[[int, float], None] | None, name: str, steps: int) -> Iterator[None]:
    """While an audit runs: after two seconds, and if progress is to be shown, say what takes so long."""
    if not is_shown(progress):
        yield
        return
    status = console(stderr=True).status(f"playing {steps:,} random steps of {verbatim(name)} to audit it ...")
    timer = threading.Timer(PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


@dataclass
class _Play:
    """The random episodes of an audit."""

    # h, s, a, the successor (see `_play`), and the pair (s, a) of the step before or None
    steps: list[tuple[int, int, int, int, Hashable]] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    alive: set[int] = field(default_factory=set)  # states in which an action was played
    ended: set[int] = field(default_factory=set)  # states in which an episode terminated
    episodes: int = 0
    early: int = 0  # episodes that terminated before the horizon
    masked: bool = False
    cut: int | None = None  # steps after which an episode was truncated, before the horizon
    paid: ObservedRewards = field(default_factory=ObservedRewards)


def _play(probe: GymnasiumEnvironment, steps: int, seed: int) -> _Play:
    """Play random episodes. A successor is the number of its state, plus `probe.n_states` if the episode terminated there."""
    calls, encode, named, play = probe.calls, probe.encode, probe.numbering.names_in, _Play()
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,)))
    observation, info = calls.reset(int(rng.integers(2**62)))
    while len(play.steps) < steps:
        s = encode(observation)
        play.starts[s] += 1
        play.episodes += 1
        before: Hashable = None
        for h in range(probe.horizon):
            play.alive.add(s)
            word = b"" if info.get("action_mask") is None else checked_mask(info["action_mask"], probe.n_actions, s, named)
            play.masked |= 0 in word
            legal = [a for a in range(probe.n_actions) if word[a]] if word else range(probe.n_actions)
            a = legal[int(rng.integers(len(legal)))]
            observation, reward, terminated, truncated, info = calls.step(probe.actions.decode(a))
            s_next = encode(observation)
            if not isfinite(reward):
                raise ValueError(f"{probe.name} paid {reward} at step {h}: a reward has to be a finite number.")
            play.paid.add(0, s, a, s_next, reward)
            play.steps.append((h, s, a, s_next + probe.n_states * bool(terminated), before))
            before, s = (s, a), s_next
            if terminated:
                play.ended.add(s_next)
                play.early += h + 1 < probe.horizon
            if truncated and not terminated and h + 1 < probe.horizon:
                play.cut = h + 1
            if terminated or truncated:
                break
        observation, info = calls.reset()
    return play
