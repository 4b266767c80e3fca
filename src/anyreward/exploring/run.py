"""One exploration under way: ask for episodes, let the explorer learn from them, look at the certificate, stop."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import replace
from functools import cached_property
from math import ceil, inf, sqrt
from typing import Any

from ..algorithms import Explorer
from ..atlas.atlas import Atlas
from ..certificates.certificate import OBSERVED
from ..environments.base import Environment
from ..executors import NoWorkers
from ..playing.opening import EnvironmentFailure
from ..words import Up
from .checkpoint import Checkpoint
from .interrupts import Interrupted, Interrupts
from .progress import Progress

log = logging.getLogger(__name__)
RARELY, AT_LAST = 1.4, 8.0  # by which episodes grow between two looks that are for the history alone, at least and at most
FREE = 500  # visited pairs, about, of which a look is too short to matter
LOOK, CHECK = 32.0, 1.0  # transitions, for each further pair, from one look or check to the next: they take a tenth of the time
SLICE = 0.1  # seconds of exploration, about, before the clock and Ctrl-C are looked at again
LOST = "the episodes that failed, of which nothing was counted ({}), were like the others"


class Run:
    """An exploration under way.

    Parameters
    ----------
    environment, explorer
        Who plays, and who learns.
    algorithm, options, seed
        What the explorer was made from, to be noted in the atlas.
    epsilon
        The target; None to go on to `max_episodes`.
    max_episodes
        Where to stop at the latest.
    max_seconds
        When to stop at the latest, in seconds from the beginning of `go`; inf for no limit.
    stop_by
        `"certificate"`, or `"own"` for the algorithm's own guarantee.
    checkpoint
        Where to save on the way, and to resume from; None for nowhere.
    on_interrupt
        What Ctrl-C does: `"return"` stops the exploration as if max_episodes had been reached, `"raise"` raises, after saving if
        there is a checkpoint.
    """

    def __init__(
        self,
        environment: Environment,
        explorer: Explorer,
        *,
        algorithm: str,
        options: dict[str, Any],
        seed: int,
        epsilon: float | None,
        max_episodes: int,
        max_seconds: float,
        stop_by: str,
        checkpoint: Checkpoint | None,
        on_interrupt: str,
    ) -> None:
        self.environment, self.explorer, self.checkpoint = environment, explorer, checkpoint
        self.epsilon, self.max_episodes, self.max_seconds, self.stop_by = epsilon, max_episodes, max_seconds, stop_by
        self.on_interrupt, self.interrupts = on_interrupt, Interrupts(self.answer_to_interrupt)
        plain = {key: value for key, value in options.items() if isinstance(value, str | int | float | bool)}
        self.source = {"env": environment.name, "algorithm": algorithm, "seed": seed, "options": plain}
        if environment.origin is not None:
            self.source["fingerprint"] = environment.origin
        # Explorations with the same seed draw from the environment alike, whatever they do with it: they are not independent.
        setting = str(environment.setting).replace(", initial=()", "")  # as earlier versions wrote it
        self.mark = hashlib.sha256(f"{setting} {seed}".encode()).hexdigest()
        self.history: list[tuple[int, float]] = []  # (episodes, certified epsilon) at every look
        self.lost = 0  # episodes that failed, and are not counted
        self.looking = 0.0  # seconds that the last look took
        self.far: tuple[tuple[int, float], bool] | None = None  # the last answer of `is_far_from`, and to what
        self.due = 0  # after how many episodes the bound may have come down to the target
        if checkpoint is not None:
            atlas = checkpoint.resume(explorer, environment)
            if atlas is not None:
                self.history, self.lost = list(atlas.history), checkpoint.failures
                self.due = min(checkpoint.due, int(RARELY * self.history[-1][0])) if self.history else 0
        self.t = explorer.counts.episodes  # how many there are, as of the last time that some were played

    def go(self, show: Progress) -> Atlas:
        """Explores until it is certified, or until it has to stop; returns what was explored."""
        explorer, environment, checkpoint = self.explorer, self.environment, self.checkpoint
        goal = -1.0 if self.epsilon is None else self.epsilon / 2  # without a target, none is reached
        begin = time.monotonic()
        last_look = self.history[-1][0] if self.history else 0
        t = first = self.t
        log.info("exploring %s with %s, from episode %d on", environment.name, self.source["algorithm"], t)
        look, arrived = last_look if self.history else t, t == last_look  # what was certified may be enough for this call
        while look < min(t, self.max_episodes):
            look = self.next_look(look)
        while True:
            over, bound = False, None
            if arrived or t >= look:
                over = t >= self.max_episodes or explorer.finished
                bound = self.look(goal) if over or arrived or self.is_due(goal) else None
                look = self.next_look(t)
            show(t, None if bound is None else 2 * bound)
            if over or (bound is not None and bound <= goal):
                stopped = False
                break
            late = time.monotonic() - begin + self.looking >= self.max_seconds and t > first  # a look is still to come
            stopped = self.interrupts.requested and (checkpoint is None or environment.rests(t))
            if late or stopped:
                break
            arrived = self.play(look - t, goal)
            t = self.t
            show.phase, show.expected = explorer.phase, explorer.expected
            if checkpoint is not None and checkpoint.is_due() and not arrived and environment.rests(t):
                checkpoint.save(self.atlas, environment, explorer)
        if checkpoint is not None and t:  # before a look that an exploration which is not stopped here would not make
            checkpoint.save(self.atlas, environment, explorer)
            if stopped and self.on_interrupt == "raise":
                raise Interrupted(f"stopped after {t:,} episodes, saved in {checkpoint.path}: the same call resumes from there.")
        elif stopped and self.on_interrupt == "raise":
            raise KeyboardInterrupt
        if self.history[-1][0] < t:
            show(t, 2 * self.look(goal))
        log.info("explored %s: epsilon %s after %d episodes", environment.name, Up(self.history[-1][1]), t)
        return self.atlas()

    def play(self, episodes: int, goal: float) -> bool:
        """Plays some episodes, at most that many: about as many as a `SLICE` of time has room for, and whole ones.

        An episode under way is played to its end. Were it given up, episodes that take long, for whatever happens in them, would
        be missing more often than others, and what is explored after resuming, or merged, would be a biased sample.
        """
        explorer, begin, before = self.explorer, time.monotonic(), self.t
        try:
            arrived = self.environment.play(explorer, episodes, goal)
        except Exception as problem:
            self.keep(problem)
            raise
        seconds = max(time.monotonic() - begin, 1e-9)
        self.t = explorer.counts.episodes
        fitting = int(SLICE / seconds * (self.t - before))
        explorer.per_call = max(1, min(type(explorer).per_call, fitting))
        return arrived

    def look(self, goal: float) -> float:
        """Looks at the bound after the present episode, notes it, and estimates when it may have come down to the goal.

        While an explorer evens out what is charged (`Explorer.steady`), it falls like episodes^(-1/2) in the long run, and hardly
        ever faster than episodes^-2, unless it was large because of what had not been seen, or rarely: `is_far_from` tells.
        """
        begin, t, bound = time.monotonic(), self.t, self.bound()
        self.looking = time.monotonic() - begin
        if goal > 0 and self.waits:
            steady = self.explorer.is_steady and not self.is_far_from(goal)
            most = min(t * sqrt(bound / goal) / self.explorer.growth, max(RARELY * t, t + self.apart(LOOK)))
            self.wait_until(max(t, int(most)) if steady else t)
        log.debug("epsilon %s after %d episodes", Up(2 * bound), t)
        if not self.history or self.history[-1][0] < t:
            self.history.append((t, 2 * bound))
        return bound

    def is_far_from(self, goal: float) -> bool:
        """`Explorer.is_far_from`, asked once for the same episodes."""
        asked = self.t, goal
        if self.far is None or self.far[0] != asked:
            self.far = asked, self.explorer.is_far_from(goal)
        return self.far[1]

    def answer_to_interrupt(self) -> str:
        """What the first Ctrl-C is answered."""
        saving, returning = "saving what was explored", "returning the atlas so far"
        doing = saving if self.on_interrupt == "raise" else returning if self.checkpoint is None else f"saving and {returning}"
        return f"interrupted after {self.explorer.episodes:,} episodes: {doing}; press Ctrl-C again to abort"

    def bound(self) -> float:
        """What it is stopped by: the certificate, or the algorithm's own guarantee if that is asked for."""
        if self.stop_by == "certificate":
            return self.explorer.error_bound
        own = self.explorer.guaranteed()
        return inf if own is None else own / 2

    @cached_property
    def waits(self) -> bool:
        """Whether looks wait until they can be worth their while."""
        return self.stop_by == "certificate" and self.explorer.looks_can_wait

    def is_due(self, goal: float) -> bool:
        """Whether to look at the bound now: because it may have come down to the goal, or for the history."""
        t = self.t
        if not self.waits or not self.history:
            return True
        last = self.history[-1][0]
        if t >= min(max(RARELY * last, last + self.apart(LOOK)), AT_LAST * last):
            return True
        if goal <= 0 or t < self.due:
            return False
        far = self.is_far_from(goal)
        if far and self.explorer.is_steady:
            self.wait_until(t + self.apart(CHECK))
        return not far

    def apart(self, transitions: float) -> int:
        """So many episodes that looks, or checks, of what was visited take a small part of the time; 0 if that is little.

        It is so little wherever episodes take as long as they do in Python.
        """
        if not self.environment.is_compiled:
            return 0
        counts, setting = self.explorer.counts, self.explorer.setting
        pairs = counts.n_nodes * setting.n_actions * (setting.planes + 7)  # radii take as long as seven passes
        return int(transitions * max(0, pairs - FREE) / setting.horizon)

    def wait_until(self, t: int) -> None:
        """Does not look at the bound for the sake of the target before there are t episodes."""
        self.due = t
        if self.checkpoint is not None:
            self.checkpoint.due = t

    def next_look(self, t: int) -> int:
        """After how many episodes it is asked next whether a look at the bound is due."""
        batch = self.environment.batch or 1
        look = -(-max(t + 1, ceil(t * self.explorer.growth)) // batch) * batch  # where a batch ends
        return max(t, min(look, self.max_episodes))

    def keep(self, problem: Exception) -> None:
        """Does not lose what was explored because of something that went wrong: it is saved, or goes with the exception.

        To stop there is valid. To resume is not without saying so: the episode that failed is missing, whatever happened in it
        (`LOST`). Data that contradict an assumption of the call cannot be resumed from at all.
        """
        try:
            problem.atlas = self.atlas()  # type: ignore[attr-defined]
        except Exception:  # what went wrong left nothing that could be kept
            return
        where = "the atlas so far is the attribute `atlas` of this exception"
        checkpoint = self.checkpoint
        if (
            checkpoint is not None and self.explorer.episodes and isinstance(problem, ValueError)
        ):  # the environment's, not Python's
            failed, gone = isinstance(problem, EnvironmentFailure), isinstance(problem, NoWorkers)
            if not gone:
                checkpoint.wrong = {"failures": self.lost + 1} if failed else {"refused": str(problem)}
            checkpoint.save(self.atlas, self.environment, self.explorer)
            where = f"the atlas so far is saved in {checkpoint.path}" + (
                ", and the same call resumes from there" if failed or gone else ""
            )
        problem.add_note(f"After {self.explorer.episodes:,} episodes: {where}.")

    def atlas(self) -> Atlas:
        """What was explored so far."""
        explorer, environment = self.explorer, self.environment
        certificate, certified = explorer.certificate(self.epsilon), explorer.certified
        whole = certified is explorer.counts  # otherwise what was paid and recorded is not of the counts
        said = environment.assumptions + (LOST.format(self.lost),) * (self.lost > 0)
        certificate = replace(certificate, assumed=(*certificate.assumed, *said))
        return Atlas(
            certified,
            certificate,
            tuple(self.history),
            {**self.source, **environment.facts, "own": self.own()},
            (self.mark,),
            explorer.recommendation,
            environment.paid if whole else None,
            environment.recording if whole else None,
            reward=None if certificate.reward in (None, OBSERVED) else getattr(explorer, "reward", None),
            numbering=environment.numbering.copy(),  # it may go on growing
            own_reward=environment.reward,
            rewards=explorer.given if certificate.rewards else (),
        )

    def is_done(self, atlas: Atlas) -> bool:
        """Whether an atlas of this exploration is what was asked for: certified, or, without a target, at least not void."""
        if self.stop_by == "own" and self.epsilon is not None:
            return bool(atlas.source["own"]["met"])
        return not atlas.certificate.says_nothing and (self.epsilon is None or atlas.certificate.met)

    def own(self) -> dict[str, Any]:
        """What the algorithm itself guarantees."""
        explorer, epsilon = self.explorer, self.explorer.guaranteed()
        met = epsilon is not None and self.epsilon is not None and epsilon <= self.epsilon
        about = "heuristic, no guarantee" if explorer.heuristic else explorer.guarantee
        what = {"about": explorer.certifies} if explorer.certifies else {}
        return {"epsilon": epsilon, "met": met, "guarantee": about, **what, **explorer.facts}
