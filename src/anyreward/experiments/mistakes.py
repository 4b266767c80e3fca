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
        self.reward = np.broadcast_to(steps, (horizon, mdp.n_states, mdp.n_actions))
        self.best = float(mdp.initial @ backward_induction(mdp, self.reward, horizon, discount).V[0])
        self.parts: list[np.ndarray] = []

    def play(self, explorer: Explorer, rng: np.random.Generator, episodes: int) -> None:
        """At least one and at most `episodes` more episodes, as `environments.tabular.play` would play them."""
        request = explorer.ask_many(min(episodes, CHUNK), -1.0)
        noted: Any = replace(request, written="policies") if isinstance(request, Learning) else request
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

    def values(self, policies: np.ndarray) -> np.ndarray:
        """The values of policies (B, H, S) from the start, (B,)."""
        (B, H, S), shape = policies.shape, self.mdp.model.shape
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


def mistakes(gaps: np.ndarray, epsilon: Any) -> np.ndarray:
    """How many gaps are above epsilon, for one epsilon or an array of them."""
    return len(gaps) - np.searchsorted(np.sort(gaps), epsilon, side="right")


def save_picture(path: Path, runs: Sequence[Run], title: str, styles: dict[str, dict[str, Any]]) -> None:
    """Draw the three notions: regret and bad episodes against the number of episodes, bad episodes against epsilon.

    Means over the runs with 95% bootstrap intervals. A bad episode is one with a gap above a tenth of the optimum.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(17, 6), layout="constrained")
    axes = figure.subplots(1, 3)
    for name in dict.fromkeys(run.algorithm for run in runs):
        mine = [run for run in runs if run.algorithm == name and run.gaps is not None and not np.isnan(run.gaps).any()]
        if not mine:  # a generative model plays no policies
            continue
        gaps, best = np.array([run.gaps for run in mine]), mine[0].best
        t = np.unique(np.geomspace(1, gaps.shape[1], 60).round().astype(int))
        epsilons = np.geomspace(best / 1000, best, 60)
        curves = (
            (t, np.cumsum(gaps, axis=1)[:, t - 1]),
            (t, np.cumsum(gaps > best / 10, axis=1)[:, t - 1]),
            (epsilons / best, np.stack([mistakes(run, epsilons) for run in gaps])),
        )
        for axis, (x, values) in zip(axes, curves, strict=True):
            bands = [bootstrap_interval(list(column), 300) for column in values.T]
            axis.plot(x, [b.mean for b in bands], label=name, **styles[name])
            colour = styles[name]["color"]
            axis.fill_between(x, [b.low for b in bands], [b.high for b in bands], color=colour, alpha=0.1, linewidth=0)
    labels = (
        ("Regret: the sum of all gaps", "episodes"),
        ("PAC-MDP: episodes with a gap above V*/10", "episodes"),
        ("Uniform-PAC: episodes with a gap above ε", "ε / V*"),
    )
    for axis, (text, below) in zip(axes, labels, strict=True):
        axis.set(xscale="log", yscale="symlog", xlabel=below, title=text)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    figure.suptitle(title)
    save_figure(path, figure)
