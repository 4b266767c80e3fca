"""What an algorithm loses while it learns: the gap V* - V^pi of the policy of every episode, on a known model.

Three notions of a good learner, beside those of a good result (best policy identification, reward-free exploration), come from
the same array of gaps:

    regret        the sum of the gaps
    PAC-MDP       how many gaps are above one epsilon
    Uniform-PAC   how many are above epsilon, for every epsilon at once

Gaps are exact: the policies that were asked for are evaluated in the true model, and the start is averaged over. Noting policies
does not change what is played.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..algorithms.explorer import Draws, Explorer, Learning, Policies, Repeated
from ..data.tabular import TabularMDP
from ..environments.tabular import outcome_of
from ..planning import backward_induction
from ..plots import save_figure
from .statistics import bootstrap_interval

if TYPE_CHECKING:
    from .compare import Run

CHUNK = 256  # episodes whose policies are kept at a time


class Gaps:
    """Plays a model with an explorer and keeps the gap of every episode.

    Parameters
    ----------
    mdp
        The model.
    reward
        For which gaps are measured, (S, A) or (H, S, A).
    horizon, discount
        As in the explorer's setting.
    """

    def __init__(self, mdp: TabularMDP, reward: np.ndarray, horizon: int, discount: float = 1.0) -> None:
        self.mdp, self.discount = mdp, discount
        steps = np.asarray(reward, float)
        steps = steps[:, None] if steps.ndim == 1 else steps
        self.reward = np.broadcast_to(steps, (horizon, mdp.n_states, mdp.n_actions))
        self.best = float(mdp.initial @ backward_induction(mdp, self.reward, horizon, discount).V[0])
        self.parts: list[np.ndarray] = []

    def play(self, explorer: Explorer, rng: np.random.Generator, episodes: int, goal: float = -1.0) -> bool:
        """At least one and at most `episodes` more episodes, those that `environments.tabular.play` would play."""
        request = explorer.ask_many(episodes, goal)
        noted: Any = request
        if isinstance(request, Learning):
            noted = replace(request, written="policies", episodes=min(request.episodes, CHUNK))
        before = explorer.episodes
        if isinstance(request, Repeated):  # before it is told, which changes the index
            index, node_of, key, H, _, prior = (getattr(request, name) for name in request.__dataclass_fields__)
            policies = kernels.greedy.policy(index, prior, self.mdp.n_actions, node_of, H, key)[None]
        outcome = outcome_of(noted, self.mdp, rng)
        if isinstance(request, Learning):
            policies, outcome = outcome[2], outcome[: {"": 0, "episodes": 2, "policies": 3}[request.written]]
        elif isinstance(request, Policies):
            policies = request.policies
        explorer.tell_many(request, *outcome)
        gaps = np.full(1, np.nan) if isinstance(request, Draws) else self.best - self.values(policies)
        times = explorer.episodes - before
        self.parts.append(np.broadcast_to(gaps, times) if len(gaps) == 1 else gaps)
        return explorer.reached(goal)

    def play_of(self, explorer: Explorer, mdp: TabularMDP, rng: np.random.Generator, episodes: int, goal: float) -> bool:
        """`play`, with the arguments of `environments.tabular.play`: a model can be `played_by` it."""
        return self.play(explorer, rng, episodes, goal)

    def values(self, policies: np.ndarray) -> np.ndarray:
        """The values of policies (B, H, S) from the start, (B,)."""
        (B, H, S), shape = policies[:, :, : self.mdp.n_states].shape, self.mdp.model.shape
        successors, probabilities = self.mdp.model.successors.reshape(shape), self.mdp.model.probabilities.reshape(shape)
        V, s, rows = np.zeros((B, S)), np.arange(S), np.arange(B)[:, None, None]
        for h in reversed(range(H)):
            at = min(h, len(successors) - 1), s, policies[:, h]
            V = self.reward[h, s, policies[:, h]] + self.discount * (probabilities[at] * V[rows, successors[at]]).sum(axis=-1)
        return V @ self.mdp.initial

    @property
    def all(self) -> np.ndarray:
        """The gap of every episode so far; nan where there was no policy, because successors were drawn at will."""
        return np.maximum(0.0, np.concatenate(self.parts)) if self.parts else np.zeros(0)


def packed(gaps: np.ndarray) -> str:
    """An array of gaps as text. Policies change rarely in the long run, so each gap is kept with how often it follows itself."""
    values, times = runs_of(gaps)
    return base64.b64encode(zlib.compress(values.astype("<f8").tobytes() + times.astype("<i8").tobytes(), 9)).decode()


def runs_of(gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gaps without repetitions, and how often each of them comes in a row."""
    same = (gaps[1:] == gaps[:-1]) | (np.isnan(gaps[1:]) & np.isnan(gaps[:-1]))
    begin = np.flatnonzero(np.append(len(gaps) > 0, ~same))
    return gaps[begin], np.diff(np.append(begin, len(gaps)))


def unpacked(text: str) -> tuple[np.ndarray, np.ndarray]:
    """What `runs_of` gave, from what `packed` made of it."""
    content = zlib.decompress(base64.b64decode(text))
    half = len(content) // 2
    return np.frombuffer(content[:half], "<f8"), np.frombuffer(content[half:], "<i8")


def mistakes(gaps: np.ndarray, epsilon: Any) -> np.ndarray:
    """How many gaps are above epsilon, for one epsilon or an array of them."""
    return len(gaps) - np.searchsorted(np.sort(gaps), epsilon, side="right")


def save_picture(path: Path, runs: Sequence[Run], title: str, styles: dict[str, dict[str, Any]]) -> None:
    """Draw the five notions of a good learner side by side.

    Above, what is lost while it learns: regret and bad episodes against the number of episodes, bad episodes against epsilon.
    Below, what is known in the end: the value error for the model's own reward, as best policy identification asks for it, and
    the worst one for 20 other rewards, as reward-free exploration does. Means over the runs with 95% bootstrap intervals. A bad
    episode is one with a gap above a tenth of the optimum.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17, 11), layout="constrained")
    (*above, below, beside, empty) = figure.subplots(2, 3).ravel()
    axes = (*above, below, beside)
    for name in dict.fromkeys(run.algorithm for run in runs):
        mine = [run for run in runs if run.algorithm == name]
        kept = [run for run in mine if run.gaps is not None and not np.isnan(run.gaps).any()]
        curves: list[tuple[Any, Any, np.ndarray]] = [
            (axis, mine[0].episodes, np.array([getattr(run, kind) for run in mine]))
            for axis, kind in ((below, "error"), (beside, "worst"))
        ]
        if kept:  # a generative model plays no policies
            gaps, best = np.array([run.gaps for run in kept]), kept[0].best
            t = np.unique(np.geomspace(1, gaps.shape[1], 60).round().astype(int))
            epsilons = np.geomspace(best / 1000, best, 60)
            curves += [
                (above[0], t, np.cumsum(gaps, axis=1)[:, t - 1]),
                (above[1], t, np.cumsum(gaps > best / 10, axis=1)[:, t - 1]),
                (above[2], epsilons / best, np.stack([mistakes(run, epsilons) for run in gaps])),
            ]
        for axis, x, values in curves:
            bands = [bootstrap_interval(list(column), 300) for column in values.T]
            axis.plot(x, [b.mean for b in bands], label=name, **styles[name])
            colour = styles[name]["color"]
            axis.fill_between(x, [b.low for b in bands], [b.high for b in bands], color=colour, alpha=0.1, linewidth=0)
    labels = (
        ("Regret: the sum of all gaps", "episodes", "symlog"),
        ("PAC-MDP: episodes with a gap above V*/10", "episodes", "symlog"),
        ("Uniform-PAC: episodes with a gap above ε", "ε / V*", "symlog"),
        ("Best policy: value error for its own reward", "episodes", "log"),
        ("Reward-free: the worst of 20 other rewards", "episodes", "log"),
    )
    for axis, (text, under, scale) in zip(axes, labels, strict=True):
        axis.set(xscale="log", yscale=scale, xlabel=under, title=text)
        axis.grid(alpha=0.3)
        if scale == "symlog":
            axis.set_ylim(bottom=0)
    empty.axis("off")
    empty.legend(*below.get_legend_handles_labels(), loc="center left", fontsize=9)
    figure.suptitle(title)
    save_figure(path, figure)
