"""Calling `reset` and `step` of a Gymnasium environment, and checking what they return.

An environment is foreign code: it may return something else than Gymnasium requires, or not return at all. All such errors are
raised here, so that callers can rely on the values. With a timeout, the environment is called in a thread of its own. A call that
does not return in time raises a TimeoutError, and the thread is abandoned, since Python cannot stop it.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any

from ..setting import real_number, shown

LONGEST = 1e6  # the longest timeout, in seconds
Step = tuple[Any, float, bool, bool, dict[str, Any]]  # observation, reward, terminated, truncated, info


class Calls:
    """Resets and steps an environment, with checked results.

    Parameters
    ----------
    env
        A Gymnasium environment.
    timeout
        The seconds that a call of `reset` or `step` may take. None: no limit.
    """

    def __init__(self, env: Any, timeout: float | None = None) -> None:
        self.env = env
        if timeout is not None and not 0.0 < real_number(timeout, "step_timeout") <= LONGEST:
            raise ValueError(f"step_timeout is {timeout}: it has to be above 0 and at most {LONGEST:,.0f} seconds.")
        self._call = None if timeout is None else _WithTimeout(float(timeout))

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; returns the observation and the info. Raises a TypeError if the environment returns anything else."""
        options = {} if seed is None else {"seed": seed}
        answer = self.env.reset(**options) if self._call is None else self._call(lambda: self.env.reset(**options))
        if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[1], dict):
            raise TypeError(f"reset returned {shown(answer)}, it has to return an observation and a dictionary")
        return answer

    def step(self, action: Any) -> Step:
        """Play an action of the environment's action space.

        Returns the observation, the reward, whether the episode was terminated or truncated, and the info. Raises a TypeError if
        the environment returns anything else.
        """
        answer = self.env.step(action) if self._call is None else self._call(lambda: self.env.step(action))
        try:
            observation, reward, terminated, truncated, info = answer
            if type(reward) is float and type(terminated) is type(truncated) is bool and type(info) is dict:
                return observation, reward, terminated, truncated, info  # as nearly all are: nothing has to be converted
            pay, end, cut = float(reward), bool(terminated), bool(truncated)
        except (TypeError, ValueError):
            raise TypeError(
                f"step returned {shown(answer)}, it has to return an observation, a number, two truth values and a dictionary"
            ) from None
        if not isinstance(info, dict):
            raise TypeError(f"step returned {shown(info)} as its info, it has to be a dictionary")
        return observation, pay, end, cut, info


class _WithTimeout:
    """Calls functions one after another in a thread of its own, and raises a TimeoutError if one takes too many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._late = seconds, False
        self._calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        threading.Thread(target=_serve, args=(self._calls, self._answers), name="environment", daemon=True).start()
        weakref.finalize(self, self._calls.put, None)  # ends the thread when this object is deleted

    def __call__(self, function: Callable[[], Any]) -> Any:
        if not self._late:
            self._calls.put(function)
            self._late = True  # until the call has returned
            try:
                answer, problem = self._answers.get(timeout=self._seconds)
            except queue.Empty:
                raise TimeoutError(f"it did not return within {self._seconds:g} seconds") from None
            self._late = False
            if problem is not None:
                raise problem
            return answer
        raise TimeoutError("an earlier call has not returned yet")


def _serve(
    calls: queue.SimpleQueue[Callable[[], Any] | None], answers: queue.SimpleQueue[tuple[Any, BaseException | None]]
) -> None:
    """The loop of the thread: calls each function of one queue and puts its result or exception into the other."""
    while (function := calls.get()) is not None:
        try:
            answers.put((function(), None))
        except BaseException as problem:  # it is raised again in the thread of the caller
            answers.put((None, problem))
        del function  # it refers to the environment, which would be kept alive
