"""Going on from an atlas: further episodes into the same counts, for every reward or for given ones, with any algorithm.

The result is an atlas of all episodes, and its certificate speaks of all of them. That is valid whatever was seen before: the
events behind certificates hold at all times of any exploration that does not look ahead, and where one algorithm ends and another
begins is part of how it explores (`docs/theory.md`, 20.3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from math import inf
from typing import Any

import numpy as np

from ..algorithms import Explorer, make_explorer
from ..algorithms.registry import explorer_class, for_rewards
from ..atlas.atlas import SAME, Atlas
from ..atlas.recording import Recording
from ..certificates.bounds import Bound, TightBound
from ..certificates.calibrated import CalibratedBound
from ..data.counts import Counts
from ..data.spaces import Indexed
from ..data.tabular import TabularMDP
from ..environments.base import Environment
from ..environments.gymnasium import GymnasiumEnvironment
from ..environments.tabular import TabularEnvironment
from ..playing.opening import ADAPTER, Gymnasium, as_model
from ..rewards.forms import UNIT, Reward, checked_range
from ..rewards.given import given_rewards, is_list
from ..setting import Setting, boolean, positive, shown, whole_number
from .explore import check_episodes
from .progress import Progress
from .run import Run

NOTHING_OWN = {"epsilon": None, "met": False, "guarantee": "none: it went on from data that it did not collect itself"}


def extend(
    self: Atlas,
    env: Any,
    *,
    epsilon: float | None = None,
    max_episodes: int | None = None,
    max_seconds: float | None = None,
    rewards: Sequence[Reward] | None = None,
    mixtures: bool = False,
    algorithm: str | type[Explorer] = "rf-trajectory",
    seed: int = 0,
    progress: bool | Callable[[int, float], None] | None = None,
    same_environment: bool = False,
    **options: Any,
) -> Atlas:
    """Plays further episodes into the counts of this atlas, and returns an atlas of all of them. This one stays as it is.

        atlas = atlas.extend(env, epsilon=1.0)                                  # until every plan for every reward is that good
        atlas = atlas.extend(env, epsilon=0.5, rewards=["state == 30"])         # until there is such a plan for this reward
        atlas = atlas.extend(env, max_seconds=60)

    Parameters
    ----------
    env
        The environment that was explored, in any of the forms that `explore` takes. What is known of it (its start, its terminal
        states, masks, a structure) is as it was.
    epsilon, max_episodes, max_seconds : optional
        When to stop, as in `explore`: one of them is needed. `max_episodes` are further ones. Ctrl-C returns the atlas so far.
    rewards, mixtures : optional
        Explore for these rewards, as in `explore`: the certificate is then about them. Without them it is about every reward.
    algorithm
        Any algorithm that needs no more than counts to go on from; `"multi-bpi"` if rewards are given.
    seed : int, default 0
        Of the further episodes, which are different ones for every atlas.
    progress
        As in `explore`.
    same_environment : bool, default False
        Whether you know that this is the environment that was explored; it is needed only if that cannot be verified.
    **options
        Options of the algorithm, such as `replan`, and arguments of `Gymnasium`, such as `env_args`.

    Notes
    -----
    Whether and how to go on may depend on what was found: the certificate is valid all the same. Its delta is that of this atlas.
    An atlas with calibrated bounds cannot be extended, since its certificate is about quotas that were fixed beforehand.
    """
    if epsilon is None and max_episodes is None and max_seconds is None:
        raise ValueError(
            "neither epsilon nor max_episodes nor max_seconds is given: going on needs at least one of them to stop."
        )
    mine, counts = self.certificate, self.counts
    if counts.selected or mine.bounds == CalibratedBound.name:
        raise ValueError(
            "an atlas with calibrated bounds cannot be extended: its certificate is about quotas that were fixed beforehand. "
            "Explore again, with a smaller epsilon."
        )
    target = None if epsilon is None else positive(epsilon, "epsilon")
    seconds = inf if max_seconds is None else positive(max_seconds, "max_seconds")
    most = check_episodes(max_episodes, mine.horizon)
    if max_episodes is not None:
        most = self.episodes + max_episodes
        check_episodes(most, mine.horizon)
    if whole_number(seed, "seed") < 0:
        raise ValueError(f"seed is {seed}: it cannot be negative.")
    kind = explorer_class(for_rewards(algorithm) if is_list(rewards) else algorithm)
    if boolean(mixtures, "mixtures") and not is_list(rewards):
        raise ValueError("mixtures is True, but no list of rewards is given: give one, or leave it out.")
    fresh = own_seed(self, seed)
    environment = environment_of(self, env, {name: options.pop(name) for name in ADAPTER if name in options}, fresh)
    known = known_to_be_the_same(self, environment, same_environment)
    if is_list(rewards):
        within = checked_range(options.get("reward_range", UNIT))
        options["rewards"] = given_rewards(rewards, environment.setting, within, environment.numbering, environment.reward)
        options["mixtures"] = mixtures
    explorer = make_explorer(
        kind,
        environment.setting,
        {"delta": mine.delta, "bounds": bound_for(self, kind), "seed": fresh, **options},
        own_reward=environment.reward,
        max_episodes=most,
        epsilon=target,
    )
    explorer.go_on_from(begun(self))
    explorer.counts.numbering = environment.numbering
    run = Run(
        environment,
        explorer,
        algorithm=kind.name or kind.__name__,
        options=explorer.options,
        seed=seed,
        epsilon=target,
        max_episodes=most,
        max_seconds=seconds,
        stop_by="certificate",
        checkpoint=None,
        on_interrupt="return",
    )
    about = explorer.certificate(target)
    alike = (mine.reward, mine.rewards, mine.mixtures, mine.reward_range, mine.bounds, mine.options)
    if alike == (about.reward, about.rewards, about.mixtures, about.reward_range, about.bounds, about.options):
        run.history = list(self.history)
    with (
        run.interrupts.heard(),
        Progress(progress, target, None if max_episodes is None else most, seconds, about.largest, run.t, run.history) as show,
    ):
        atlas = run.go(show)
    return joined(self, run, atlas, fresh, known)


Atlas.extend = extend  # a method of atlases, which know nothing of who plays


def own_seed(atlas: Atlas, seed: int) -> int:
    """A seed of its own for every atlas: further episodes must not be played with random numbers that were used already."""
    word = hashlib.sha256(f"{atlas.certificate.digest} {atlas.runs} {seed}".encode()).digest()
    return int.from_bytes(word[:6], "little")


def begun(atlas: Atlas) -> Counts:
    """A copy of the counts. Where episodes are recorded, it has no transfer evidence, which is checked against a recording run by
    run: certificates are valid without it."""
    counts = atlas.counts
    if atlas.recording is None or not counts.transfer:
        return counts.copy()
    columns = {name: column for name, column in counts.columns().items() if name != "evidence"}
    plain = Counts.from_columns(counts.setting, columns, counts.declarations())
    plain.taken, plain.paid, plain.source = counts.taken, counts.paid, counts.source
    return plain


def bound_for(atlas: Atlas, kind: type[Explorer]) -> Bound:
    """The error bound of the atlas. One that was certified for given rewards had no parts that only every reward needs."""
    bound = atlas.certificate.bound
    if isinstance(bound, TightBound) and not atlas.certificate.every_reward and not kind.needs_reward:
        return TightBound(max_successors=bound.max_successors, threshold=bound.threshold)
    return bound


def environment_of(atlas: Atlas, env: Any, adapter: dict[str, Any], seed: int) -> Environment:
    """The environment that is to be played, with the setting and the numbering of the atlas; raises if they are not its own."""
    setting, record = atlas.counts.setting, atlas.recording is not None
    model = as_model(env, adapter)
    environment: Any
    how = (setting.horizon, setting.discount, setting.stationary, setting.arrival_rewards)
    if isinstance(model, TabularMDP):
        mine = model.setting(*how, setting.absorbing_states, setting.initial or None)
        environment = TabularEnvironment(model, mine, seed, record)
    else:
        try:
            environment = GymnasiumEnvironment(as_it_was(model, setting), *how, seed, record)
        except ValueError as problem:  # what is known of the one does not suit the other
            raise ValueError(f"this cannot be gone on from with {shown(env)} as it was explored: {problem}") from problem
        if isinstance(environment.observations, Indexed) and isinstance(atlas.numbering.observations, Indexed):
            environment.observations.restore(atlas.numbering.observations.dump())
        if setting.terminal == "state":
            environment._ended = set(np.setdiff1d(atlas.counts.stays(), setting.absorbing_states).tolist())
        mine = environment.setting
    mine = replace(mine, structure=setting.structure)
    if mine != setting:
        one, two = asdict(mine), asdict(setting)
        differ = ", ".join(name for name in one if one[name] != two[name])
        raise ValueError(f"this is not the environment that was explored: they differ in {differ}.")
    environment.setting = setting
    one, two = environment.numbering.to_dict(), atlas.numbering.to_dict()
    if any(one[name] != two[name] and one[name] and two[name] for name in one):  # names may be unknown to one of them
        raise ValueError(
            "this is not the environment that was explored: its states or actions are numbered or named differently."
        )
    names = {"state_names": atlas.numbering.state_names, "action_names": atlas.numbering.action_names}
    environment.numbering = replace(environment.numbering, **names)
    found: Environment = environment
    return found


def as_it_was(env: Gymnasium, setting: Setting) -> Gymnasium:
    """An environment with what is known of it by the setting, unless it is said again."""
    masks = None
    if not setting.hidden_masks:
        masks = np.ones((setting.n_states - (setting.terminal == "end"), setting.n_actions), bool)
        for s, a in setting.illegal_actions:
            masks[s, a] = False
    known = (setting.terminal, setting.initial_state, setting.initial or None, masks)
    was: dict[str, Any] = dict(zip(("terminal", "initial_state", "initial", "action_masks"), known, strict=True))
    return replace(env, **{name: value for name, value in was.items() if getattr(env, name) is None})


def known_to_be_the_same(atlas: Atlas, environment: Environment, said: bool) -> bool:
    """Whether the environment is verified to be the one that was explored; raises if it is another one, or that is not said."""
    prints, name = (atlas.source.get("fingerprint"), environment.origin), atlas.source.get("env", "data of unknown origin")
    if None not in prints and prints[0] != prints[1]:
        raise ValueError(f"this is not the environment that was explored, {name}: their fingerprints differ.")
    if None in prints and not said:
        raise ValueError(
            f"it cannot be verified that {environment.name} is what was explored, {name}. If you know that it is the same, pass "
            "same_environment=True."
        )
    return None not in prints


def joined(before: Atlas, run: Run, after: Atlas, seed: int, known: bool) -> Atlas:
    """What was explored before and after, as one atlas: the counts of `after` are of both."""
    said = (*after.certificate.assumed, *before.certificate.assumed, *(() if known else (SAME,)))
    paid = None if before.paid is None or after.paid is None else before.paid + after.paid
    recording = None
    if before.recording is not None and after.recording is not None:
        recording = Recording(*(np.concatenate(parts) for parts in zip(before.recording, after.recording, strict=True)))
    more = after.episodes - before.episodes
    earlier = [*before.source.get("extended", []), {k: v for k, v in before.source.items() if k != "extended"}]
    source = {**after.source, "own": NOTHING_OWN, "extended": earlier}
    if not known:
        source.pop("fingerprint", None)
    mark = hashlib.sha256(f"{run.mark} {seed}".encode()).hexdigest()
    return replace(
        after,
        certificate=replace(after.certificate, assumed=tuple(dict.fromkeys(said))),
        source=source,
        runs=(*before.runs, mark),
        paid=paid,
        recording=recording,
        recorded=() if recording is None else (*before.recorded, more),
    )
