"""Models for other checkers: the empirical model, and an interval model that contains every KL ball, as DRN or UMB files.

For a ball {p : KL(p_hat, p) <= c} the interval of a successor is {p(x) : kl(p_hat(x), p(x)) <= c}, kl for two outcomes, rounded
outward; an unseen successor has [0, 1 - e^-c], and a pair without data [0, 1] everywhere. The interval model is therefore larger
than the balls, and what Storm or another checker certifies of it contains what is certified here (`docs/theory.md`, 19.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import expm1, inf, nextafter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .. import kernels
from .._files import replace_file

if TYPE_CHECKING:
    from .atlas import Atlas

MOST_EDGES = 5_000_000  # of a file
RESERVED = ("init", "deadlock", "true", "false")


class Choice(NamedTuple):
    """An action of a state: its name, and the successors with the ends of their probabilities."""

    action: str
    targets: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclass(frozen=True)
class Model:
    """A model with one initial state, number 0 if the start is random.

    In a stationary setting its states are the outcomes, otherwise they are the outcomes of each step, layer after layer; the last
    layer is never left.

    Attributes
    ----------
    atlas : Atlas
    empirical : bool
        Whether probabilities are those of the empirical model; otherwise they are intervals.
    """

    atlas: Atlas
    empirical: bool

    @property
    def extra(self) -> int:
        """1 if there is a state in front from which a random initial state is drawn."""
        return int(self.atlas.counts.setting.initial_state is None)

    @property
    def layers(self) -> int:
        """How often the outcomes are repeated: once if the setting is stationary, otherwise H + 1 times."""
        return self.atlas.counts.setting.layers

    @property
    def size(self) -> int:
        return self.extra + self.layers * self.atlas.counts.setting.n_outcomes

    @property
    def initial(self) -> int:
        state = self.atlas.counts.setting.initial_state
        return 0 if state is None else int(state)

    def labels(self) -> list[list[str]]:
        """The labels of each state: its name in letters, digits and underscores, and `done` where an episode has ended."""
        setting = self.atlas.counts.setting
        names, taken = [], set(RESERVED) | {"done"}
        for s in range(setting.n_states):
            names.append(word(self.atlas.state_name(s), taken))
        rows = [[names[s % setting.n_states], *(["done"] if s >= setting.n_states else [])] for s in range(setting.n_outcomes)]
        return [[]] * self.extra + rows * self.layers

    def states(self) -> Iterator[list[Choice]]:
        """The choices of each state, in order."""
        atlas, setting = self.atlas, self.atlas.counts.setting
        N, A = setting.n_outcomes, setting.n_actions
        taken: set[str] = set()
        actions = [word(atlas.action_name(a), taken) for a in range(A)]
        rows = Rows(atlas, self.empirical)
        if self.extra:
            yield [Choice("start", *shifted(rows.start(), 1))]
        for layer in range(self.layers):
            here = self.extra + layer * N
            ahead = here if self.layers == 1 else here + N
            for s in range(N):
                if layer == self.layers - 1 and self.layers > 1:
                    yield [Choice("end", np.array([here + s]), np.ones(1), np.ones(1))]
                    continue
                found = [(a, rows.of(layer, s, a)) for a in range(A)]
                yield [Choice(actions[a], *shifted(row, ahead)) for a, row in found if row is not None]

    def edges(self) -> int:
        """The number of transitions, without writing them."""
        return sum(len(choice.targets) for choices in self.states() for choice in choices)


def shifted(row: tuple[np.ndarray, np.ndarray, np.ndarray], by: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A row whose successors have numbers that are larger by this."""
    return row[0] + by, row[1], row[2]


class Rows:
    """The successors of each pair with the ends of their probabilities."""

    def __init__(self, atlas: Atlas, empirical: bool) -> None:
        counts, certificate = atlas.counts, atlas.certificate
        self.setting, self.table, self.empirical = counts.setting, counts.model_table, empirical
        self.most = certificate.bound.most_successors(counts.setting)
        self.radii = np.zeros(0)
        if not empirical:
            radii = atlas.radii(certificate.transition_delta, True)  # the last step too, with which one may arrive
            self.radii = radii if radii.ndim == 1 else radii.sum(axis=1) * (1 + 1e-14)  # KL adds up over the draws of a structure
        self.marks = counts.table.known.reshape(-1, counts.setting.n_actions)

    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The distribution of the initial state."""
        states, p = self.setting.starts
        if not self.setting.estimates_start:
            return states, p, p
        return self._ball(0, self.setting.n_states, self.setting.n_states)

    def of(self, layer: int, s: int, a: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """The successors of a pair; None if the action is illegal."""
        mark = self.marks[s, a] if len(self.marks) else 0
        if mark & kernels.table.ILLEGAL:
            return None
        if mark & kernels.table.STAYS:
            return np.array([s]), np.ones(1), np.ones(1)
        node = int(self.table.node_of[layer, s])
        row = node * self.setting.n_actions + a if node else -1
        return self._ball(row, self.setting.n_outcomes, self.most)

    def _ball(self, row: int, outcomes: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The intervals of a row of the table, or its empirical distribution; row -1 has no data."""
        table, declared = self.table, self.setting.structure is not None and row != 0
        size = int(table.size[row]) if row >= 0 else 0
        edges = slice(int(table.first[row]), int(table.first[row]) + size) if size else slice(0, 0)
        targets, seen = table.state[table.target[edges]].astype(np.int64), table.seen[edges]
        order = np.argsort(targets)
        targets, seen = targets[order], seen[order]
        blank = size == 0 or (table.n[row] == 0 and not (declared and self.empirical))  # a structure's model has a row
        everywhere = np.arange(outcomes)
        if blank:
            if self.empirical:
                return everywhere, np.full(outcomes, 1 / outcomes), np.full(outcomes, 1 / outcomes)
            targets = targets if declared and size else everywhere
            return targets, np.zeros(len(targets)), np.ones(len(targets))
        q = seen / seen.sum()
        if self.empirical:
            return targets[q > 0], q[q > 0], q[q > 0]
        c = float(self.radii[row])
        unseen = min(1.0, nextafter(-expm1(-c), inf))
        lower = np.array([max(0.0, 1.0 - kernels.radii.kl_up(1.0 - x, c)) if x > 0 else 0.0 for x in q])
        upper = np.array([kernels.radii.kl_up(x, c) if x > 0 else unseen for x in q])
        lower = np.maximum(0.0, lower - 1e-12)
        upper = np.minimum(1.0, upper + 1e-12)
        if size == 1 and not declared and size >= most:
            return targets, np.ones(1), np.ones(1)
        if declared or size >= most:
            return targets, lower, upper
        low, high = np.zeros(outcomes), np.full(outcomes, unseen)
        low[targets], high[targets] = lower, upper
        return everywhere, low, high


def word(name: str, taken: set[str]) -> str:
    """A name in letters, digits and underscores that begins with a letter and was not taken, and takes it."""
    text = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "state"
    text = text if text[0].isalpha() else f"s{text}"
    found, i = text, 1
    while found in taken:
        i += 1
        found = f"{text}_{i}"
    taken.add(found)
    return found


def export(atlas: Atlas, path: Path, empirical: bool) -> None:
    """See `Atlas.export`."""
    model = Model(atlas, empirical)
    setting = atlas.counts.setting
    N, ending = setting.n_outcomes, path.suffix.lower()
    if ending not in (".drn", ".umb"):
        raise ValueError(f"{path} cannot be written: the name has to end in .drn or .umb.")
    wide = model.layers * N * setting.n_actions * N
    if wide > MOST_EDGES and model.edges() > MOST_EDGES:
        raise ValueError(
            f"the model has more than {MOST_EDGES:,} transitions, since any state may follow where nothing else is known: state "
            "what is known (stationary, deterministic, max_successors or a structure), or export the empirical model."
        )
    if ending == ".drn":
        replace_file(path, "".join(drn(model)).encode())
    else:
        from .umb import write_umb

        write_umb(model, path)


def drn(model: Model) -> Iterator[str]:
    """The text of a DRN file, piece by piece."""
    atlas, setting = model.atlas, model.atlas.counts.setting
    choices = sum(len(row) for row in model.states())
    yield f"// {'The empirical model' if model.empirical else 'An interval model that contains every KL ball'} of an atlas.\n"
    for assumption in atlas.certificate.assumptions:
        yield f"// Assumes: {' '.join(assumption.split())}\n"
    if not model.empirical:
        yield f"// The true model is in it with probability at least 1 - {atlas.certificate.delta!r}.\n"
    steps = setting.horizon + model.extra
    yield f'// An episode has {setting.horizon} steps: a bound of {steps} on steps, as in Pmax=? [F<={steps} "label"].\n'
    yield f"@type: MDP\n@value_type: {'double' if model.empirical else 'double-interval'}\n@parameters\n\n@reward_models\n\n"
    yield f"@nr_states\n{model.size}\n@nr_choices\n{choices}\n@model\n"
    for i, (labels, row) in enumerate(zip(model.labels(), model.states(), strict=True)):
        yield " ".join([f"state {i}", *(["init"] if i == model.initial else []), *labels]) + "\n"
        for choice in row:
            yield f"\taction {choice.action}\n"
            for target, low, high in zip(choice.targets.tolist(), choice.lower.tolist(), choice.upper.tolist(), strict=True):
                yield f"\t\t{target} : {low!r}\n" if model.empirical else f"\t\t{target} : [{low!r}, {high!r}]\n"
