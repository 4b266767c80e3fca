"""Atlas files: what is written, and how it is checked when it is read.

Use `Atlas.save` and `load`. A file may come from anywhere, so nothing in it is believed without a check: the counts are checked
against the setting, the evidence against what is possible, the certificate against the counts, and the recording and the observed
rewards against both. Only a certificate about observed rewards cannot be verified; it is shown as claimed, and never as met.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .._checks import checked_array
from .._files import as_path
from ..certificates.calibrated import CalibratedBound
from ..certificates.certificate import OBSERVED, Certificate, certify
from ..data.counts import COLUMNS, Counts
from ..data.numbering import Numbering
from ..data.tabular import checked_policy
from ..rewards.forms import ArrivalReward
from ..rewards.given import Given
from ..rewards.observed import PAID, ObservedRewards
from ..setting import Setting
from . import container
from .atlas import Atlas, extended_to_terminations
from .recording import MAX_REWARD, Recording

FORMAT = 3
NEW = {"added", "pooled", "recorded"}  # entries that earlier formats did not have
LOG = dict.fromkeys(("episodes", "transitions", "terminated", "cut_off"), 0)  # what is told of a log, besides others
MAX_CELLS, MAX_STEPS = 2**26, 2**16  # the largest problem that a small file may describe: it costs time and memory


def write(atlas: Atlas, path: Path, progress: dict[str, Any], state: dict[str, np.ndarray]) -> None:
    """Writes an atlas, together with what is needed to resume the exploration (`progress` and `state`, both may be empty)."""
    from .. import __version__

    columns = atlas.counts.columns()
    arrays = {f"state.{name}": array for name, array in state.items()}
    if atlas.paid is not None:
        columns |= atlas.paid.columns([columns[name] for name in COLUMNS[:4]], atlas.counts.setting.stationary)
        arrays |= {f"paid.{name}": array for name, array in atlas.paid.arrays().items()}
    about = {
        "format": FORMAT,
        "version": __version__,
        "certificate": atlas.certificate.to_dict(),
        "history": atlas.history,
        "source": atlas.source,
        "runs": atlas.runs,
        "policy": None if atlas.policy is None else atlas.policy.tolist(),
        "known": atlas.counts.declarations().tolist(),
        "recorded": atlas.recorded,
        "added": atlas.counts.runs,
        "pooled": atlas.paid is not None and atlas.paid.pooled,
        "paid_again": None if atlas.paid is None else atlas.paid.paid_again,
        "progress": progress,
    }
    if not atlas.numbering.is_plain:
        about["numbering"] = atlas.numbering.to_dict()
    if len(atlas.counts.taken):
        arrays["taken"] = atlas.counts.taken
    if atlas.counts.drawn is not None:
        arrays["drawn"] = atlas.counts.drawn
    if atlas.reward is not None:
        arrays |= {f"reward.{name}": array for name, array in reward_arrays(atlas.reward).items()}
    for i, one in enumerate(atlas.rewards):
        if not one.observed:
            arrays |= {f"rewards.{i}.{name}": array for name, array in reward_arrays(one.reward).items()}
    if atlas.own_reward is not None:
        arrays["own.reward"] = np.asarray(atlas.own_reward, dtype=float)
    if atlas.recording is not None:
        arrays |= {f"recording.{name}": array for name, array in atlas.recording._asdict().items()}
    container.write(path, columns, about, arrays)


def load(path: str | os.PathLike[str]) -> Atlas:
    """Reads an atlas that `Atlas.save` or a checkpoint wrote.

        atlas.save("chain.atlas")
        atlas = anyreward.load("chain.atlas")

    Nothing in the file is executed, and all of its contents are checked; a damaged or inconsistent file is refused with a
    `ValueError`.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    Atlas
    """
    return read(as_path(path))[0]


def read(path: Path) -> tuple[Atlas, dict[str, Any], dict[str, np.ndarray]]:
    """The atlas in a file, and what is needed to resume its exploration, if the file has it."""
    columns, about, arrays = container.read(path)
    try:
        if type(about["format"]) is not int or about["format"] < 1:
            raise ValueError("it does not name its format.")
        if about["format"] > FORMAT:
            raise ValueError(f"it has format {about['format']}; this anyreward reads up to {FORMAT}: install a newer one.")
        if about["format"] < FORMAT and NEW & set(about):
            raise ValueError(f"it says that it has format {about['format']}, but has entries of a later one.")
        certificate = Certificate.from_dict(about["certificate"])
        setting = certificate.setting
        size = path.stat().st_size
        cells = max((setting.horizon + 1) * setting.n_outcomes, setting.n_outcomes * setting.n_actions)
        work = setting.horizon * len(columns["count"]) if setting.stationary else 0  # of one backward pass over all steps
        if max(cells, 4 * work) > max(MAX_CELLS, 64 * size) or setting.horizon > max(MAX_STEPS, size):
            raise ValueError(f"{setting.horizon} steps with {setting.n_outcomes} states are too many for a file of this size.")
        if any(columns[name].ndim != 1 or columns[name].dtype.kind != "i" for name in COLUMNS):
            raise ValueError("its counts are not columns of whole numbers.")
        known = np.array(about["known"], dtype=np.int64).reshape(-1, 2)
        table = {name: columns[name] for name in columns if name not in PAID}
        counts = Counts.from_columns(setting, table, known, about["added"] if about["format"] == FORMAT else 2)
        counts.selected = isinstance(certificate.bound, CalibratedBound) and len(certificate.bound.restarts) > 0
        if "taken" in arrays:
            counts.taken = checked_taken(arrays["taken"], counts)
        if "drawn" in arrays and setting.structure is not None:
            counts.drawn = arrays["drawn"]
            counts.shared  # noqa: B018  # raises if these are not draws of its laws
        if about["format"] < FORMAT:
            certificate = replace(certificate, assumed=counts.declared)  # earlier versions did not print declarations
        history = tuple((int(t), float(e)) for t, e in about["history"])
        times = [-1, *(t for t, _ in history)]
        if any(a >= b for a, b in pairwise(times)) or times[-1] > certificate.played:
            raise ValueError("its history does not match its counts.")
        policy = None if about["policy"] is None else np.array(about["policy"], dtype=np.int64)
        if counts.digest() != certificate.digest:
            raise ValueError("its counts do not match its certificate.")
        reward = reward_from(arrays, "reward", setting, certificate.reward_range)
        rewards = given_from(arrays, setting, certificate)
        if policy is not None:
            policy = checked_policy(policy, setting.n_states, setting.n_actions, setting.horizon)
        if certificate.every_reward:
            if not certificate.check(counts):
                raise ValueError("its certificate does not follow from its counts.")
        elif certificate.of_observed:
            certificate = replace(certificate, claimed=True, met=False)
        elif certificate.rewards:
            if not certificate.check(counts, rewards):
                raise ValueError("its certificate does not follow from its counts and its rewards.")
        elif reward is None:
            certificate = replace(certificate, claimed=True, met=False)
        elif policy is None or not certificate.check(counts, reward, extended_to_terminations(counts, policy, reward, True)):
            raise ValueError("its certificate does not follow from its counts and its reward.")
        paid = None
        if "paid.keys" in arrays:
            told = bool(about["pooled"]), about.get("paid_again")  # earlier versions did not tell the second
            paid = ObservedRewards.from_arrays(arrays["paid.keys"], arrays["paid.values"], setting, *told)
        elif set(PAID) <= set(columns):
            paid = ObservedRewards.from_columns(columns, pooled=setting.stationary)
        if paid is not None:
            paid.check(table, setting.stationary, counts.stays())
        recording, recorded = None, tuple(int(n) for n in about.get("recorded", ()))
        if "recording.states" in arrays:
            recording = Recording(*(arrays[f"recording.{name}"] for name in Recording._fields))
            recording.check(setting, counts.episodes)
            if about["format"] == FORMAT or "merged" not in about["source"]:  # earlier formats do not say where a run ends
                recording.check_counts(counts, recorded or (counts.episodes,))
            if paid is not None and len(paid):
                recording.check_paid(paid, setting)
        notices: list[str] = []
        if about["format"] < FORMAT:
            counts, certificate, notices = from_older(counts, certificate, paid)
        runs, source = checked_runs(about["runs"]), checked_source(about["source"], setting)
        if about["format"] < FORMAT and len(counts.illegal) and "own" in source:
            source["own"] = {"epsilon": None, "met": False, "guarantee": "none: of an earlier version that did not know of masks"}
        numbering = numbering_from(about, source, setting)
        counts.numbering = numbering
        own = own_reward_from(arrays, setting)
        parts = (policy, paid, recording, recorded, reward, numbering, own, rewards)
        atlas = Atlas(counts, certificate, history, source, runs, *parts)
        state = {name.removeprefix("state."): array for name, array in arrays.items() if name.startswith("state.")}
        for text in notices:
            warnings.warn(f"{path} was saved by an earlier version: {text}", stacklevel=3)
        return atlas, dict(about["progress"]), state
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, MemoryError, RecursionError) as problem:
        raise ValueError(f"{path} does not hold a valid atlas: {one_sentence(problem)}") from None


def from_older(counts: Counts, certificate: Certificate, paid: ObservedRewards | None) -> tuple[Counts, Certificate, list[str]]:
    """Brings an atlas of an earlier version (formats 1 and 2) up to date, with sentences on what it no longer promises."""
    setting, columns, notices = counts.setting, counts.columns(), []
    known, A = counts.declarations(), setting.n_actions
    stays = np.setdiff1d(counts.stays(), setting.absorbing_states)
    if len(stays):
        setting = replace(setting, terminal="state")
        notices.append(
            "it assumes that a state in which an episode terminated once always terminates it; its certificate did not say so, "
            "and prints it now."
        )
    if len(counts.illegal):
        setting = replace(setting, hidden_masks=True)
        met = np.unique(np.concatenate([columns["s"][columns["h"] >= 0], columns["next"]]))
        pairs = np.setdiff1d((met[:, None] * A + np.arange(A)).reshape(-1), known[:, 0])
        known = np.concatenate([known, np.column_stack([pairs, np.zeros_like(pairs)])])
        notices.append(
            "it took every action to be legal in unvisited states; plans now allow for any set of legal actions there."
        )
        if not certificate.every_reward:
            certificate = replace(certificate, epsilon=certificate.largest, met=False)
            notices.append("its certificate for one reward is void for that reason: identify the policy again.")
    if paid is not None and paid.pooled:
        notices.append("its observed rewards were pooled over the steps; a plan for them needs stationary_rewards=True.")
    if paid is not None and len(paid):
        notices.append(
            "plans for its own reward took rewards that never varied for deterministic; "
            "now pass rewards='deterministic' if you know that they are."
        )
    if setting is not counts.setting:
        counts = Counts.from_columns(setting, columns, known, counts.runs)
        certificate = replace(certificate, setting=setting, digest=counts.digest(), assumed=counts.declared)
        if certificate.every_reward:
            certificate = certify(counts, certificate.delta, certificate.bounds, certificate.target, **certificate.options)
    return counts, certificate, notices


def one_sentence(problem: Exception) -> str:
    """The reason why a file is refused: the sentence of our own error, or a general one if Python raised another exception."""
    text = str(problem)
    return (
        text if isinstance(problem, ValueError) and text.endswith(".") else "its contents are incomplete or do not fit together."
    )


def reward_arrays(reward: np.ndarray | ArrivalReward) -> dict[str, np.ndarray]:
    """A reward as arrays for a file. Only one step is stored if all steps are the same."""
    if isinstance(reward, ArrivalReward):
        return {"steps": np.array([reward.shape[0]]), "pointer": reward.pointer, "target": reward.target, "pay": reward.pay}
    return {"values": np.array(reward[:1] if (reward == reward[:1]).all() else reward)}


def given_from(arrays: dict[str, np.ndarray], setting: Setting, certificate: Certificate) -> tuple[Given, ...]:
    """The rewards that a certificate is about, checked, if it is about several."""
    found = []
    for i, (name, print_) in enumerate(certificate.rewards):
        if print_ == OBSERVED:
            found.append(Given.to_be_observed(setting, certificate.reward_range))
            continue
        reward = reward_from(arrays, f"rewards.{i}", setting, certificate.reward_range)
        if reward is None:
            raise ValueError("it does not hold all rewards that its certificate is about.")
        found.append(Given(name, reward))
    return tuple(found)


def reward_from(
    arrays: dict[str, np.ndarray], prefix: str, setting: Setting, reward_range: tuple[float, float]
) -> np.ndarray | ArrivalReward | None:
    """The reward that `reward_arrays` stored under a prefix, checked, or None if the file has none there."""
    S, A, H = setting.n_outcomes, setting.n_actions, setting.horizon
    if f"{prefix}.values" in arrays:
        values = arrays[f"{prefix}.values"]
        steps = H if len(values) == H else 1
        return np.broadcast_to(checked_array(values, float, (steps, S, A), "its reward is", *reward_range), (H, S, A))
    if f"{prefix}.pay" not in arrays:
        return None
    steps = int(checked_array(arrays[f"{prefix}.steps"], np.int64, (1,), "its reward is", 1, H)[0])
    pay = checked_array(arrays[f"{prefix}.pay"], float, (None,), "its reward is", *reward_range)
    target = checked_array(arrays[f"{prefix}.target"], np.int64, pay.shape, "its reward is", 0, S - 1)
    pointer = checked_array(arrays[f"{prefix}.pointer"], np.int64, (steps * S * A + 1,), "its reward is", 0, len(pay))
    right = steps in (1, H) and pointer[0] == 0 and pointer[-1] == len(pay) and bool((np.diff(pointer) >= 0).all())
    if not right or (np.diff(np.repeat(np.arange(len(pointer) - 1), np.diff(pointer)) * S + target) <= 0).any():
        raise ValueError("its reward is damaged.")
    return ArrivalReward((steps, S, A, H), pointer, target, pay)


def checked_taken(taken: np.ndarray, counts: Counts) -> np.ndarray:
    """Actions of which it is not known where they led, from a file: at most one in each episode."""
    setting = counts.setting
    most = np.array([1 if setting.stationary else setting.horizon, setting.n_states, setting.n_actions, counts.episodes + 1]) - 1
    taken = checked_array(taken, np.int64, (None, 4), "its table of actions is", np.array([0, 0, 0, 1]), most)
    if taken[:, 3].sum(dtype=float) > counts.episodes:
        raise ValueError("its table of actions is damaged.")
    return taken


def numbering_from(about: dict[str, Any], source: dict[str, Any], setting: Setting) -> Numbering:
    """The numbering of states and actions in a file; files of earlier versions have at most the names of states."""
    if "numbering" in about:
        return Numbering.from_dict(about["numbering"], setting)
    labels = dict(enumerate(source.pop("labels", ())))
    return Numbering.of_setting(setting).named(state_names=labels or None)


def own_reward_from(arrays: dict[str, np.ndarray], setting: Setting) -> np.ndarray | None:
    """The reward of the model that was explored, checked, or None if the file has none."""
    if "own.reward" not in arrays:
        return None
    S, A, ndim = setting.n_states, setting.n_actions, arrays["own.reward"].ndim
    shape = {1: (S,), 2: (S, A)}.get(ndim, (None, S, A))
    return checked_array(arrays["own.reward"], float, shape, "the reward of its model is", -MAX_REWARD, MAX_REWARD)


def checked_runs(runs: Any) -> tuple[str, ...]:
    """Identifiers of runs from a file."""
    if not isinstance(runs, list) or not all(isinstance(run, str) and len(run) <= 200 for run in runs):
        raise ValueError("its run identifiers are damaged.")
    return tuple(runs)


def checked_source(source: Any, setting: Setting) -> dict[str, Any]:
    """The description of how an atlas was explored, from a file. Raises if an entry that is used somewhere has a wrong type."""
    if not isinstance(source, dict):
        raise ValueError("the description of its origin is damaged.")
    texts = {name: source[name] for name in ("env", "algorithm", "fingerprint", "arrows") if source.get(name) is not None}
    lists = {name: source[name] for name in ("labels", "alarms") if name in source}
    grid, own, log = source.get("grid"), source.get("own", {}), source.get("log", LOG)
    right = all(isinstance(text, str) and text.isprintable() for text in texts.values())
    right = right and all(isinstance(x, list) and all(isinstance(text, str) for text in x) for x in lists.values())
    right = right and all(text.isprintable() for text in lists.get("alarms", ()))
    right = right and len(lists.get("labels", ())) <= setting.n_states
    right = right and isinstance(own, dict) and isinstance(source.get("options", {}), dict)
    right = right and (own.get("epsilon") is None or isinstance(own["epsilon"], float | int))
    right = right and isinstance(log, dict) and set(log) >= set(LOG)
    right = right and all(isinstance(name, str) and type(n) is int and n >= 0 for name, n in log.items())
    if grid is not None:
        whole = isinstance(grid, list) and len(grid) == 2 and all(type(n) is int and n > 0 for n in grid)
        right = right and whole and grid[0] * grid[1] <= setting.n_states
    parts = [*source.get("merged", []), *source.get("extended", [])]
    if not right or not all(isinstance(part, dict) for part in parts):
        raise ValueError("the description of its origin is damaged.")
    return dict(source)
