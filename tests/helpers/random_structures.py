"""Random declared structures with their true laws, written out densely and without the library's tables."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

import anyreward as ar


@dataclass
class Problem:
    """A declaration as plain dictionaries, the true laws, and a setting that was made of them."""

    setting: ar.Setting
    laws: dict[tuple[int, int, int], tuple[Any, ...]]  # of step, state and action: the law of each draw
    ahead: dict[tuple[int, int, tuple[int, ...]], int]  # of state, action and the outcomes of all draws
    outcomes: dict[Any, int]  # how many outcomes each law has
    truth: dict[Any, np.ndarray]
    known: dict[Any, np.ndarray]
    start: np.ndarray

    def combinations(self, h: int, s: int, a: int) -> list[tuple[int, ...]]:
        """The combinations of outcomes of a pair."""
        return list(itertools.product(*(range(self.outcomes[g]) for g in self.laws[h, s, a])))

    def dense(self, q: dict[Any, np.ndarray]) -> np.ndarray:
        """The transitions (H, S, A, S) if the laws are these."""
        H, S, A = self.setting.horizon, self.setting.n_states, self.setting.n_actions
        P = np.zeros((H, S, A, S))
        for h, s, a in itertools.product(range(H), range(S), range(A)):
            if s in self.setting.absorbing_states:
                P[h, s, a, s] = 1.0
                continue
            if (s, a) in self.setting.illegal_actions:
                P[h, s, a, 0] = 1.0
                continue
            for x in self.combinations(h, s, a):
                P[h, s, a, self.ahead[s, a, x]] += np.prod([q[g][k] for g, k in zip(self.laws[h, s, a], x, strict=True)])
        return P

    def counted(self, states: np.ndarray, actions: np.ndarray) -> dict[Any, np.ndarray]:
        """How often each outcome of each law was revealed in episodes, whatever else it could have been."""
        seen = {g: np.zeros(K) for g, K in self.outcomes.items()}
        for path, played in zip(states.tolist(), actions.tolist(), strict=True):
            for h, a in enumerate(played):
                s, then = path[h], path[h + 1]
                if s in self.setting.absorbing_states:
                    continue
                every = [
                    x
                    for x in self.combinations(h, s, a)
                    if all(g not in self.known or self.known[g][k] > 0 for g, k in zip(self.laws[h, s, a], x, strict=True))
                ]
                for i, g in enumerate(self.laws[h, s, a]):
                    told: dict[int, set[int]] = {}
                    for x in every:
                        told.setdefault(self.ahead[s, a, x], set()).add(x[i])
                    if all(len(values) == 1 for values in told.values()):
                        seen[g][min(told[then])] += 1
        return seen

    def estimates(self, seen: dict[Any, np.ndarray]) -> dict[Any, np.ndarray]:
        """The law of each name in the empirical model: its frequencies, uniform without data, or as it is known to be."""
        q = {g: N / N.sum() if N.sum() else np.full(len(N), 1 / len(N)) for g, N in seen.items()}
        return {**q, **self.known}

    def play(self, episodes: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Episodes with legal actions that are chosen at random, each state having its favourite."""
        H, S, A = self.setting.horizon, self.setting.n_states, self.setting.n_actions
        P, favourite = self.dense(self.truth), rng.integers(0, A, S)
        states, actions = np.zeros((episodes, H + 1), int), np.zeros((episodes, H), int)
        for e in range(episodes):
            states[e, 0] = rng.choice(S, p=self.start)
            for h in range(H):
                s = states[e, h]
                legal = [a for a in range(A) if (s, a) not in self.setting.illegal_actions]
                a = favourite[s] if rng.random() < 0.7 and favourite[s] in legal else rng.choice(legal)
                actions[e, h], states[e, h + 1] = a, rng.choice(S, p=P[h, s, a])
        return states, actions


def random_problem(seed: int) -> Problem:
    """A problem with one draw, several, or a factored state; with known laws, hidden outcomes, steps, ends, starts, discounts."""
    rng = np.random.default_rng(seed)
    while True:
        try:
            return _drawn(rng) if rng.random() < 0.7 else _factored(rng)
        except ValueError as problem:
            if "can be told at no state" not in str(problem):
                raise


def _options(rng: np.random.Generator, S: int, A: int, H: int) -> tuple[dict[str, Any], np.ndarray]:
    """What else a setting says, and the distribution of the initial state."""
    options: dict[str, Any] = {"horizon": H, "n_states": S, "n_actions": A}
    options["discount"] = float(rng.choice([1.0, 0.8]))
    options["arrival_rewards"] = bool(rng.random() < 0.3)
    if rng.random() < 0.3 and S > 2:
        options["absorbing_states"] = (int(rng.integers(0, S)),)
    if rng.random() < 0.3:
        s = int(rng.integers(0, S))
        if s not in options.get("absorbing_states", ()):
            options["illegal_actions"] = ((s, int(rng.integers(0, A))),)
    kind, start = rng.integers(0, 3), rng.dirichlet(np.ones(S))
    if kind == 0:
        options["initial_state"] = int(rng.integers(0, S))
        start = np.eye(S)[options["initial_state"]]
    elif kind == 1:
        options["initial"] = dict(enumerate(start.tolist()))
    return options, start


def _truth(rng: np.random.Generator, outcomes: dict[Any, int]) -> tuple[dict[Any, np.ndarray], dict[Any, np.ndarray]]:
    """The true laws, some outcomes of which never happen, and those that are known."""
    truth = {g: np.where(rng.random(K) < 0.8, rng.dirichlet(np.ones(K)), 0.0) + 1e-3 * np.eye(K)[0] for g, K in outcomes.items()}
    truth = {g: p / p.sum() for g, p in truth.items()}
    return truth, {g: p for g, p in truth.items() if rng.random() < 0.15}


def _drawn(rng: np.random.Generator) -> Problem:
    S, A, H, m = int(rng.integers(2, 7)), 2, int(rng.integers(1, 5)), int(rng.integers(1, 4))
    options, start = _options(rng, S, A, H)
    names, of_step = int(rng.integers(1, 5)), rng.random() < 0.3
    outcomes = {g: int(rng.integers(1, 5 if m == 1 else 4)) for g in range(names)}
    table = rng.integers(0, names, (H if of_step else 1, S, A, m))
    laws = {
        (h, s, a): tuple(table[h if of_step else 0, s, a].tolist()) for h, s, a in itertools.product(range(H), range(S), range(A))
    }
    if of_step:  # the successors have to be the same at every step
        for g in outcomes:
            outcomes[g] = outcomes[0]
    ahead = {}
    for s, a in itertools.product(range(S), range(A)):
        many = list(itertools.product(*(range(outcomes[g]) for g in laws[0, s, a])))
        apart = len(many) <= S and rng.random() < 0.7  # whether each combination leads elsewhere
        where = rng.permutation(S)[: len(many)] if apart else rng.integers(0, S, len(many))
        ahead.update({(s, a, x): int(t) for x, t in zip(many, where, strict=True)})
    truth, known = _truth(rng, outcomes)
    used = {g for pair in laws.values() for g in pair}
    known = {g: p for g, p in known.items() if g in used}

    def named(i: int) -> Any:
        return (lambda h, s, a: laws[h, s, a][i]) if of_step else (lambda s, a: laws[0, s, a][i])

    structure = ar.Structure.drawn(
        laws=[named(i) for i in range(m)],
        outcomes=[outcomes] * m,
        successor=lambda s, a, *x: ahead[s, a, x],
        known=known,
    )
    try:
        setting = ar.Setting(structure=structure, **options)  # type: ignore[arg-type]
    except ValueError as problem:
        if "known" not in str(problem):
            raise
        raise ValueError("can be told at no state") from None  # a known law that only an absorbing state draws from
    return Problem(setting, laws, ahead, outcomes, truth, known, start)


def _factored(rng: np.random.Generator) -> Problem:
    sizes = tuple(rng.integers(2, 4, int(rng.integers(1, 3))).tolist())
    S, A, H, parts = int(np.prod(sizes)), 2, int(rng.integers(2, 5)), range(len(sizes))
    options, start = _options(rng, S, A, H)
    options.pop("absorbing_states", None)  # which no factored state is
    parents = [sorted({i, *rng.integers(0, len(sizes), 1).tolist()}) for i in parts]
    alike = len(set(sizes)) == 1 and rng.random() < 0.5
    laws, ahead, outcomes = {}, {}, {}
    for h, s, a in itertools.product(range(H), range(S), range(A)):
        values = [int(v) for v in np.unravel_index(s, sizes)]
        laws[h, s, a] = tuple((0 if alike else i, tuple(values[j] for j in parents[i]), a) for i in parts)
        outcomes.update({g: sizes[i] for i, g in enumerate(laws[h, s, a])})
        for x in itertools.product(*map(range, sizes)):
            ahead[s, a, x] = int(np.ravel_multi_index(x, sizes))
    illegal = options.get("illegal_actions", ())
    drawn = {g for (_, s, a), pair in laws.items() if (s, a) not in illegal for g in pair}
    truth, known = _truth(rng, {g: K for g, K in outcomes.items() if g in drawn})
    structure = ar.Structure.factored(sizes, parents, law=lambda i, values, a: (0 if alike else i, values, a), known=known)
    truth = {**{g: np.full(K, 1 / K) for g, K in outcomes.items()}, **truth}
    setting = ar.Setting(structure=structure, **options)  # type: ignore[arg-type]
    return Problem(setting, laws, ahead, outcomes, truth, known, start)
