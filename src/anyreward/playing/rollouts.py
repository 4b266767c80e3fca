"""Playing a fixed policy on fresh episodes: in a known model, in a Gymnasium environment, or in a vector of them.

Episodes are those of the process that was explored (`environments.gymnasium`): an episode that terminates early stays where it
is, an illegal action is replaced by a legal one, and every episode begins with a seed of its own, which exploration never uses.

**No episode is selected by its outcome.** In a vector environment, one episode is played in each environment, and the next ones
begin when all have ended; those that end earlier wait. Taking episodes as they end would prefer the short ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import kernels
from ..data.numbering import Numbering
from ..data.tabular import TabularMDP
from ..rewards.forms import as_reward
from ..setting import Setting, nearest, shown, whole_number
from .lanes import Single, Vector, check_spaces, is_vector, legal_action
from .opening import ADAPTER, NAMES, as_model

if TYPE_CHECKING:
    from ..kernels.planning import Choice

STREAM = 4  # of seeds; exploration and its audit have others
BATCH = 1_000  # episodes of a known model at a time
MAX_SEED = 2**31 - 1  # some environments take no larger seed


class Rollouts(NamedTuple):
    """Episodes of a fixed policy.

    Attributes
    ----------
    states : ndarray of int64, (B, H+1)
        As the process counts them; an episode that has terminated stays where it is.
    actions : ndarray of int64, (B, H)
        After an episode has terminated, those that the policy names there: rewards may depend on them.
    paid : ndarray, (B, H)
        What the environment paid.
    """

    states: np.ndarray
    actions: np.ndarray
    paid: np.ndarray


def rollouts(
    setting: Setting,
    numbering: Numbering,
    policy: np.ndarray | Choice,
    env: Any,
    seed: int,
    adapter: dict[str, Any] | None = None,
) -> Iterator[Rollouts]:
    """Plays a policy in an environment, without end: yields some episodes at a time.

    Parameters
    ----------
    setting : Setting
        Of the process that the policy is for.
    numbering : Numbering
        How observations become states.
    policy : ndarray of int, (H, S), or kernels.planning.Choice
    env
        As for `explore`, or a `gymnasium.vector.VectorEnv`.
    seed : int
        Of the episodes.
    adapter : dict, optional
        Arguments of `Gymnasium`.
    """
    choice = kernels.planning.as_choice(policy) if isinstance(policy, np.ndarray) else policy
    if not choice.ended.shape[1]:  # after an end it names the action of the state
        choice = choice._replace(ended=np.zeros((0, setting.n_outcomes - setting.n_states), np.int64))
    seed = whole_number(seed, "seed")
    if seed < 0:
        raise ValueError(f"seed is {seed}: it cannot be negative.")
    unknown = next((name for name in adapter or () if name not in ADAPTER), None)
    if unknown is not None:
        raise ValueError(f"{shown(unknown)} is not an argument of playing{nearest(unknown, ADAPTER)}.")
    if is_vector(env):
        if adapter:
            raise ValueError(f"{next(iter(adapter))} is given with a vector environment, which is made already: leave it out.")
        return _played(setting, numbering, choice, Vector(env), seed)
    opened = as_model(env, {name: value for name, value in (adapter or {}).items() if name not in NAMES})
    if isinstance(opened, TabularMDP):
        return _simulated(setting, choice, opened, seed)
    return _played(setting, numbering, choice, Single(opened), seed)


def _simulated(setting: Setting, choice: Choice, mdp: TabularMDP, seed: int) -> Iterator[Rollouts]:
    """Episodes of a known model."""
    H, S, A = setting.horizon, setting.n_states, setting.n_actions
    if (mdp.n_states, mdp.n_actions) != (S, A):
        raise ValueError(f"the model has {mdp.n_states} states and {mdp.n_actions} actions, but the plan is for {S} and {A}.")
    mdp.check_horizon(H)
    reward = np.asarray(as_reward(np.zeros(S) if mdp.reward is None else mdp.reward, S, A, H))
    batch = 0
    while True:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM, batch)))
        states, actions = mdp.play(choice, H, BATCH, rng)
        yield Rollouts(states, actions, reward[np.arange(H), states[:, :H], actions])
        batch += 1


def _played(setting: Setting, numbering: Numbering, choice: Choice, lanes: Single | Vector, seed: int) -> Iterator[Rollouts]:
    """Episodes of a Gymnasium environment, one in each lane at a time."""
    check_spaces(lanes.spaces, numbering, lanes.name)
    H, S, N, A, B, t = setting.horizon, setting.n_states, setting.n_outcomes, setting.n_actions, lanes.size, 0
    numbers = numbering.copy()  # new observations may appear, which are nobody else's business
    while True:
        states, actions, paid = np.zeros((B, H + 1), np.int64), np.zeros((B, H), np.int64), np.zeros((B, H))
        words = [np.random.SeedSequence(seed, spawn_key=(STREAM, t + i)).generate_state(1)[0] for i in range(B)]
        observations, infos = lanes.reset([int(word) % MAX_SEED for word in words])
        going = [True] * B
        states[:, 0] = [_state(numbers, x, lanes.name) for x in observations]
        setting.check_starts(states[:, 0], lanes.name, numbers.names_in)
        for h in range(H):
            if not any(going):
                states[:, h + 1 :] = states[:, h : h + 1]
                for later in range(h, H):
                    actions[:, later] = [kernels.planning.action_of(choice, later, int(s), N, A) for s in states[:, h]]
                break
            taken = []
            for i in range(B):  # environments that have ended may play on by themselves: what they do is not looked at
                s = int(states[i, h])
                named = kernels.planning.action_of(choice, h, s, N, A)
                taken.append(legal_action(named, infos[i].get("action_mask"), numbers, s % S))
                actions[i, h] = taken[i] if going[i] else named
            steps = lanes.step([numbers.action(int(a)) for a in taken], going)
            infos = [info for *_, info in steps]
            for i, (observation, reward, terminated, truncated, _) in enumerate(steps):
                if not going[i]:
                    states[i, h + 1] = states[i, h]
                    continue
                if not isfinite(reward):
                    raise ValueError(f"{lanes.name} paid {reward} at step {h}: a reward has to be a finite number.")
                if truncated and not terminated and h + 1 < H:
                    raise ValueError(
                        f"{lanes.name} was truncated after {h + 1} steps, before the horizon of {H}: "
                        "use an environment with a longer time limit."
                    )
                paid[i, h], going[i] = reward, not terminated
                states[i, h + 1] = (
                    S - 1 if terminated and setting.terminal == "end" else _state(numbers, observation, lanes.name)
                ) + (S if terminated and setting.terminal == "outcome" else 0)
        yield Rollouts(states, actions, paid)
        t += B


def _state(numbers: Numbering, observation: Any, name: str) -> int:
    """The number of an observation; one that never appeared before gets a number of its own, as in exploration."""
    try:
        return numbers.observations.encode(observation)
    except Exception as problem:  # whatever a strange object raises when it is looked at
        if isinstance(problem, ValueError) and str(problem).endswith("."):
            raise
        raise ValueError(f"{name} gave the observation {shown(observation)}, which is not in its space.") from None
