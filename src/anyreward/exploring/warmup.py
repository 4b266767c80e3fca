"""Compiling everything beforehand, so that nobody has to wait for it later: `anyreward warmup`.

Code is compiled for the types of what it is given. A list of these could be out of date; so everything that compiles is done
once, on a tiny problem, with every algorithm, by the functions that users call.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from .._files import replace_file
from ..algorithms import ALGORITHMS
from ..algorithms.registry import make_explorer
from ..atlas.format import load
from ..atlas.policies import policy_lines
from ..certificates.certificate import certify
from ..data.counts import Counts
from ..data.tabular import TabularMDP
from ..envs import double_chain, grid_world
from ..planning import FEW_STEPS, backward_induction, evaluate_policy, induct
from ..setting import Setting
from ..structure import Structure
from ..words import Countdown
from .audit import audit
from .explore import explore

H = 4
OTHER_FORMULAS: dict[str, list[dict[str, Any]]] = {"ucbvi": [{"bonus": "hoeffding"}]}  # options that select them


class Warmth(NamedTuple):
    """What `warm_up` has done."""

    compiled: int  # how many functions were compiled, each for certain types
    seconds: float
    folders: list[str]  # where compiled code is cached


def warm_up(progress: bool | None = None) -> Warmth:
    """Compiles all that the library and its commands need, unless it is in the cache on disk.

    Parameters
    ----------
    progress
        True or False to show or hide a progress bar; None shows one on a terminal, after two seconds.
    """
    begin, compiled = time.monotonic(), kernels.compiled
    if _is_warm():
        return Warmth(0, time.monotonic() - begin, compiled.folders_in_use())
    todo = tasks()
    with compiled.counted() as names, tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?!compiled code)")  # what is played here is of no interest
        with Countdown(progress, "compiling", len(todo)) as show:
            for i, task in enumerate(todo):
                show(i)
                task(Path(folder) / f"{i}.atlas")
    _remember()
    return Warmth(len(names), time.monotonic() - begin, compiled.folders_in_use())


def _note() -> str:
    """The name of the file that notes, in a folder of the cache, what there is when everything is compiled.

    It depends on all files of this package, since they determine what is compiled, and on all that Numba compiles for.
    """
    package = Path(__file__).parents[1]
    sources = b"".join(path.read_bytes() for path in sorted(package.rglob("*.py")))
    return f"warm-{hashlib.sha256(sources + kernels.compiled.machine().encode()).hexdigest()[:16]}.json"


def _remember() -> None:
    """Notes which files the cache has, with their sizes."""
    files: dict[str, int] = {}
    for folder in reversed(kernels.compiled.folders_in_use()):
        files |= {str(path.relative_to(folder)): path.stat().st_size for path in Path(folder).rglob("*.nb[ci]")}
    for folder in kernels.compiled.folders_in_use() if files else ():
        with suppress(ValueError):  # it cannot be written there
            replace_file(Path(folder) / _note(), json.dumps(files).encode())
            return


def _is_warm() -> bool:
    """Whether everything that was noted is still there."""
    folders = [Path(folder) for folder in kernels.compiled.folders_in_use()]
    for folder in folders:
        with suppress(OSError, ValueError, AttributeError):
            noted = json.loads((folder / _note()).read_bytes())
            if all(any(_size(place / name) == size for place in folders) for name, size in noted.items()):
                return True
    return False


def _size(path: Path) -> int:
    """The size of a file in bytes; -1 if there is none."""
    return path.stat().st_size if path.is_file() else -1


def tasks() -> list[Callable[[Path], None]]:
    """What compiles everything. Each task is given the name of a file that it may write."""
    found = [partial(_algorithm, name, {}) for name in ALGORITHMS]
    found += [partial(_algorithm, name, options) for name, several in OTHER_FORMULAS.items() for options in several]
    return [*found, _planning, _schedules, _observed_rewards, _structures, _data, _gymnasium]


def _algorithm(name: str, options: dict[str, Any], file: Path) -> None:
    """Exploring: in the compiled loop, resumed from a file, and an episode at a time."""
    mdp, kind = double_chain(5), ALGORITHMS[name]
    for episodes in (40, 60) if kind.resumable else (40,):
        checkpoint = file if kind.resumable else None
        budget: dict[str, Any] = {"budget": 60} if kind.needs_budget else {}
        explore(mdp, H, algorithm=name, max_episodes=episodes, checkpoint=checkpoint, progress=False, **budget, **options)
    explorer = make_explorer(name, mdp.setting(H), options, own_reward=mdp.reward, max_episodes=40)
    if kind.handles_masks:
        explorer.counts.declare_illegal(0, [0])  # what is known changes on the way
    if kind.plays_episodes:
        explorer.tell(*mdp.rollout(explorer.ask(), seed=0))


def _planning(file: Path) -> None:
    """Plans, intervals, files and merging, for all kinds of initial states."""
    mdp = double_chain(5)
    start = np.full(5, 0.2)
    for initial, known in ((0, None), (start, None), (start, start)):
        atlas = explore(TabularMDP(mdp.dense(), initial=initial), H, max_episodes=40, initial=known, progress=False)
        for reward in (mdp.reward, np.ones((5, 2, 5))):
            plan = atlas.plan(reward)
            atlas.plan(reward, cautious=True)
            atlas.evaluate(plan.policy, reward)
    again = explore(mdp, H, max_episodes=40, seed=1, progress=False)
    again.save(file)
    again.explain(mdp.reward)
    again.reach("state == 3")
    again.export(file.with_suffix(".drn"))
    file.with_suffix(".drn").unlink()
    values = induct(again.counts.model(), np.zeros((H, 5, 2)), H, 1.0)
    list(values.each())  # a step at a time, as tables and files of large plans want it
    list(policy_lines(again, values.choice))
    evaluate_policy(mdp, np.full((H, 5, 2), 0.5), mdp.reward, H)
    large = grid_world(128, 128)
    backward_induction(large, large.reward, FEW_STEPS)  # many rows that are alike
    (load(file) | explore(mdp, H, max_episodes=40, progress=False)).verify(again.plan(mdp.reward), mdp, episodes=20)


def _schedules(file: Path) -> None:
    """Many episodes of one policy at once; the paper's stopping rule; calibrated bounds; actions one by one; an index."""
    explore(double_chain(5), H, max_episodes=40, replan="geometric", progress=False)
    explore(double_chain(5), H, 1.0, max_episodes=40, algorithm="rf-ucrl", bounds="paper", progress=False)
    explore(double_chain(5), H, 2.0, max_episodes=5_000, bounds="calibrated", progress=False)
    for states in (10, 2000):
        explorer: Any = make_explorer("rf-ucrl", Setting(n_states=states, n_actions=2, horizon=H))
        explorer.actor()(0, 0)
    explorer.index  # noqa: B018


def _observed_rewards(file: Path) -> None:
    """BPI-UCRL with rewards that are told, with a reward on arrival, and with an epsilon to stop at."""
    mdp = double_chain(5)
    explore(mdp, H, 1.0, algorithm="bpi-ucrl", reward=mdp.reward, max_episodes=40, progress=False)
    for rewards in ("deterministic", "random"):
        explore(mdp, H, algorithm="bpi-ucrl", rewards=rewards, max_episodes=40, progress=False)
        explorer: Any = make_explorer("bpi-ucrl", mdp.setting(H), {"rewards": rewards})
        explorer.tell(*mdp.rollout(explorer.ask(), seed=0), np.zeros(H))
    explore(mdp, H, algorithm="bpi-ucrl", reward=np.ones((5, 2, 5)), max_episodes=40, progress=False)
    explore(mdp, H, rewards=["own", "state == 0"], max_episodes=40, progress=False)


def _structures(file: Path) -> None:
    """Laws that pairs share, with few outcomes and with many; the initial state is one more law."""
    mdp, start = double_chain(5), np.full(5, 0.2)
    few = Structure(law=lambda s, a: a, outcomes=(-1, 1), successor=lambda s, a, x: min(max(s + x, 0), 4))
    many = Structure(law=lambda s, a: (s, a), outcomes=5, successor=lambda s, a, x: x)
    for structure, initial in ((few, 2), (many, start)):
        model = TabularMDP(mdp.dense(), initial=initial)
        explore(model, H, max_episodes=40, structure=structure, progress=False).plan(mdp.reward)
    explore(mdp, H, algorithm="bpi-ucrl", reward=mdp.reward, max_episodes=40, structure=few, progress=False)


def _data(file: Path) -> None:
    """Data that somebody else collected."""
    mdp = double_chain(5)
    counts = Counts.from_episodes(*mdp.rollout(np.zeros((H, 5), int), episodes=20, seed=0), mdp.setting(H))
    for bounds in ("tight", "paper"):
        certify(counts, bounds=bounds)
    certify(counts, bounds="calibrated", quotas=counts.n())


def _gymnasium(file: Path) -> None:
    """A Gymnasium environment: its audit, and its own rewards."""
    audit("FrozenLake-v1", H)
    explore("FrozenLake-v1", H, max_episodes=20, progress=False).plan("own")
