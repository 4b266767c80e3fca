"""`Structure`: what you know about how transitions are drawn, so that many state-action pairs share few laws.

Machines wear alike, demand does not depend on the stock, a queue's arrivals do not care about the other queue. Without being
told, the library estimates a distribution for each state and action. With a structure it estimates the few laws that there are,
and every visit of a law counts for all pairs that share it:

    slips = Structure(                                  # the double chain: two laws in all
        law=lambda s, a: a,                             # pairs with the same law draw from the same distribution ...
        outcomes=(-1, 1),                               # ... one of these outcomes, ...
        successor=lambda s, a, x: min(max(s + x, 0), 30),   # ... which leads here
    )
    explore(env, 20, epsilon=2.0, structure=slips)

**What is declared.** A transition from (s, a) is a sequence of draws i = 1, ..., m. Draw i has the law q_g, g = law_i(s, a),
whatever happened before; its outcomes are known beforehand, and together they determine the successor s' = f(s, a, x_1, ...,
x_m). One draw is the form above; several are `Structure.drawn` and `Structure.factored`. This is an assumption: certificates
print it, data that are impossible under it are refused, and an alarm (`data.alarm`) tests it on all data as they come.

**What is counted** (`docs/theory.md`, 15.1). A draw counts if its outcome follows from where the transition led. Whether it does
is a property of the *pair*, known before the draw: at a border, where two outcomes lead to the same state, no draw of the pair
counts. To count just those that can be told apart would select by outcome.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import product
from math import prod
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ._checks import called
from .shared_laws import LONGEST, MOST_DRAWS, MOST_EDGES, SharedLaws, distribution, packed, shown


class Structure:
    """A declaration of how transitions are drawn, before the sizes of the problem are known; `tabulate` makes tables of it.

        # the double chain: two laws, one for each action; a move fails, and then goes the other way
        anyreward.Structure(law=lambda s, a: a, outcomes=["ahead", "back"],
                            successor=lambda s, a, x: min(30, s + 1) if (a == 1) == (x == "ahead") else max(0, s - 1))

    Parameters
    ----------
    law : callable (s, a) or (h, s, a), or array_like (S, A) or (H, S, A)
        Which law a pair draws from: any hashable value, the same for pairs that share one. Laws of (s, a) are shared by all
        steps.
    successor : callable (s, a, x), or array_like (S, A, X)
        The state to which outcome x leads. With an array, x is the position of the outcome.
    outcomes : sequence, int, mapping or callable
        The possible outcomes of a law: a sequence of any hashable values, or a number K for 0, ..., K-1; or a mapping from laws
        to such, or a function of the law, if they differ.
    outcome : callable (s, a, s_next), optional
        Which outcome led from s with a to s_next; None if that cannot be told. It follows from `successor`, and is only compared
        with it. An answer for some successors of a pair and not for others is refused.
    known : mapping, optional
        Laws that are known: from a law to the probabilities of its outcomes, in their order, or as a mapping. They are not
        estimated and have no share of delta.

    Notes
    -----
    States and actions are numbers here, as in `Setting`. For an environment whose observations have several parts, numbers count
    through the parts in the order of NumPy's `ravel_multi_index`. `Structure.drawn` is for transitions of several independent
    draws, `Structure.factored` for states of several parts that move independently.
    """

    _made: tuple[Callable[..., Structure], tuple[Any, ...]]  # how it was declared

    def __init__(
        self,
        law: Any,
        successor: Any,
        outcomes: Any,
        outcome: Callable[[int, int, int], Any] | None = None,
        known: Mapping[Hashable, Any] | None = None,
    ) -> None:
        by_position = not callable(successor)
        read = _Array(successor, (3,), "successor", "(S, A, X)") if by_position else successor

        def ahead(s: int, a: int, possible: list[tuple[Any, ...]], n_states: int) -> np.ndarray:
            found = [read(s, a, k if by_position else x) for k, x in enumerate(possible[0])]
            called = (f"successor({s}, {a}, {shown(x)})" for x in possible[0])
            return np.array([_number(t, n_states, what) for t, what in zip(found, called, strict=True)], np.int32)

        self._declare([_Draw.of(law, outcomes, "law")], ahead, known, outcome)
        self._arrays += [read] if by_position else []
        self._made = Structure, (law, successor, outcomes, outcome, known)

    @classmethod
    def drawn(
        cls,
        laws: Sequence[Any],
        outcomes: Sequence[Any],
        successor: Callable[..., int],
        known: Mapping[Hashable, Any] | None = None,
    ) -> Structure:
        """Transitions of several independent draws, which together determine the successor.

            two_queues = Structure.drawn(           # state 10 i + j: i customers wait for a service, then j for the next one
                laws=[lambda s, a: "arrival", lambda s, a: "service"],
                outcomes=[(0, 1), (0, 1)],
                successor=lambda s, a, arrived, served: after(s // 10, s % 10, arrived, served),
            )

        In a single queue no service could be told from no arrival, where one customer comes and another one goes: then no draw
        of a service would count.

        Parameters
        ----------
        laws : sequence
            For each draw its law, as `law` of `Structure`. Draws may share laws. Given the state and the action, a draw is
            independent of those before it: an assumption like the others.
        outcomes : sequence
            For each draw its outcomes, as `outcomes` of `Structure`.
        successor : callable (s, a, x_1, ..., x_m)
            The state to which these outcomes lead.
        known : mapping, optional
            As for `Structure`.
        """
        for given, name in ((laws, "laws"), (outcomes, "outcomes")):
            if not isinstance(given, Sequence) or isinstance(given, str):
                raise ValueError(f"{name} is {shown(given)}: it has to be a list with an entry for each draw.")
        if not laws or len(laws) != len(outcomes) or len(laws) > MOST_DRAWS:
            raise ValueError(
                f"there are {len(laws)} laws and {len(outcomes)} lists of outcomes: each draw needs one of both, and there can "
                f"be from 1 to {MOST_DRAWS} draws."
            )
        _check_callable(successor, "successor")

        def ahead(s: int, a: int, possible: list[tuple[Any, ...]], n_states: int) -> np.ndarray:
            if prod(map(len, possible)) > MOST_EDGES:
                raise ValueError(f"state {s} with action {a} has more than {MOST_EDGES:,} combinations of outcomes.")
            found = [(successor(s, a, *x), x) for x in product(*possible)]
            return np.array([_number(t, n_states, f"successor({s}, {a}, {shown(x)[1:-1]})") for t, x in found], np.int32)

        made = cls.__new__(cls)
        made._declare(
            [_Draw.of(law, each, f"law {i}") for i, (law, each) in enumerate(zip(laws, outcomes, strict=True))], ahead, known
        )
        made._made = cls.drawn, (laws, outcomes, successor, known)
        return made

    @classmethod
    def factored(
        cls,
        sizes: Any,
        parents: Sequence[Sequence[int]] | Mapping[Any, Sequence[Any]] | None = None,
        law: Callable[[Any, tuple[int, ...], int], Hashable] | None = None,
        outcomes: Callable[[Any, tuple[int, ...], int], Sequence[Any]] | None = None,
        successor: Callable[[Any, tuple[int, ...], int, Any], int] | None = None,
        known: Mapping[Hashable, Any] | None = None,
    ) -> Structure:
        """States of several parts that move independently, given the state and the action.

            plant = Structure.factored((4, 4, 4), law=lambda i, level, a: (level, a == i + 1))     # machines that wear alike
            shop = Structure.factored({"stock": 3, "wear": 5}, parents={"stock": ["stock", "wear"]})
            same = Structure.factored(env.observation_space, parents={"stock": ["stock", "wear"]})      # a Dict of these parts

        Parameters
        ----------
        sizes : sequence of int, mapping from names to int, or observation space
            How many values each part has. State number s is `numpy.ravel_multi_index(parts, sizes)`. A Dict, Tuple or
            MultiDiscrete of Gymnasium has such parts; those of a Dict have its keys as names, in its order, which is that of the
            alphabet. Values are numbered from 0, whatever a space calls them.
        parents : sequence of sequences of int, or mapping, optional
            For each part, the parts on which its next value depends, in the order in which functions are given their values. By
            default each part depends on itself alone, and so do parts that a mapping leaves out. Parts with names are called by
            them, here and by the functions, in place of their number i.
        law : callable (i, values, a), optional
            The law of part i where its parents have these values. By default every part, values and action have a law of their
            own. Parts that behave alike share laws if this does not depend on i.
        outcomes : callable (i, values, a), optional
            The outcomes that are possible there. By default all values of the part.
        successor : callable (i, values, a, x), optional
            The next value of part i after outcome x. By default x itself.
        known : mapping, optional
            As for `Structure`.
        """
        listed: Any = np.ravel(sizes.nvec) if hasattr(sizes, "nvec") else getattr(sizes, "spaces", sizes)  # of a space
        names = list(listed) if isinstance(listed, Mapping) else None  # of the parts, if they have any
        try:
            parts = tuple(index(getattr(n, "n", n)) for n in (listed if names is None else listed.values()))
            called: Sequence[Any] = range(len(parts)) if names is None else names
            above = _numbers_of(parents, called)
        except TypeError:
            raise ValueError(
                f"sizes is {shown(sizes)} and parents is {shown(parents)}: lists of whole numbers are needed."
            ) from None
        if not 1 <= len(parts) <= MOST_DRAWS or min(parts) < 1:
            raise ValueError(
                f"sizes is {shown(sizes)}: a state needs from 1 to {MOST_DRAWS} parts, and every part at least one value."
            )
        for given_function, name_of in ((law, "law"), (outcomes, "outcomes"), (successor, "successor")):
            if given_function is not None:
                _check_callable(given_function, name_of)
        if len(above) != len(parts) or any(not 0 <= j < len(parts) for group in above for j in group):
            what = "numbers" if names is None else f"names, which are {shown(names)},"
            raise ValueError(f"parents is {shown(parents)}: it needs, for each of {len(parts)} parts, the {what} of its parents.")

        def given(i: int, s: int) -> tuple[int, ...]:
            values = np.unravel_index(s, parts)
            return tuple(int(values[j]) for j in above[i])

        def draw(i: int) -> _Draw:
            def name(h: int, s: int, a: int) -> Hashable:
                return (called[i], given(i, s), a) if law is None else law(called[i], given(i, s), a)

            def possible(s: int, a: int, which: Hashable) -> Any:
                return range(parts[i]) if outcomes is None else outcomes(called[i], given(i, s), a)

            return _Draw(name, possible, False)

        def ahead(s: int, a: int, possible: list[tuple[Any, ...]], n_states: int) -> np.ndarray:
            flat = np.zeros(1, np.int64)
            for i, size in enumerate(parts):
                moved = [x if successor is None else successor(called[i], given(i, s), a, x) for x in possible[i]]
                said = (f"the next value of part {called[i]} after {shown(x)} in state {s} with action {a}" for x in possible[i])
                values = np.array([_number(t, size, what) for t, what in zip(moved, said, strict=True)], np.int64)
                flat = (flat[:, None] * size + values).reshape(-1)
                if len(flat) > MOST_EDGES:
                    raise ValueError(f"state {s} with action {a} has more than {MOST_EDGES:,} successors, which are too many.")
            return flat.astype(np.int32)

        made = cls.__new__(cls)
        made._declare([draw(i) for i in range(len(parts))], ahead, known)
        made._parts = parts
        made._made = cls.factored, (sizes, parents, law, outcomes, successor, known)
        return made

    def __reduce__(self) -> tuple[Callable[..., Structure], tuple[Any, ...]]:
        """What a pickle keeps: how it was declared."""
        return self._made

    def _declare(
        self,
        draws: list[_Draw],
        ahead: Callable[..., np.ndarray],
        known: Mapping[Hashable, Any] | None,
        outcome: Callable[[int, int, int], Any] | None = None,
    ) -> None:
        """Keeps the parts of a declaration: its draws, and where the combinations of their outcomes lead."""
        if known is not None and not isinstance(known, Mapping):
            raise ValueError(f"known is {shown(known)}: it has to be a mapping from laws to the probabilities of their outcomes.")
        if outcome is not None:
            _check_callable(outcome, "outcome")
        self._draws, self._ahead, self._known, self._outcome = draws, ahead, dict(known or {}), outcome
        self._parts: tuple[int, ...] | None = None
        self._arrays = [draw.law for draw in draws if isinstance(draw.law, _Array)]

    @property
    def step_dependent(self) -> bool:
        """Whether laws depend on the step."""
        return any(draw.of_step for draw in self._draws)

    def tabulate(
        self, n_states: int, n_actions: int, horizon: int, without: Callable[[int, int], bool] = lambda s, a: False
    ) -> SharedLaws:
        """The declaration as tables, for a problem of these sizes. Raises if the two do not fit.

        Parameters
        ----------
        n_states, n_actions, horizon : int
        without : callable (s, a), optional
            Pairs that have no law: illegal actions, and absorbing states.
        """
        if self._parts is not None and prod(self._parts) != n_states:
            raise ValueError(
                f"the parts of the structure have {' x '.join(map(str, self._parts))} = {prod(self._parts):,} values, "
                f"but there are {n_states:,} states: give the size of every part."
            )
        steps = horizon if self.step_dependent else 1
        for array in self._arrays:
            array.check(n_states, n_actions, horizon)
        numbers: dict[Hashable, int] = {}
        outcomes: list[tuple[Any, ...]] = []  # of each law
        keys = np.full((steps * n_states * n_actions, len(self._draws)), -1, np.int32)
        targets: list[np.ndarray] = []
        edges = 0
        for pair, (h, s, a) in enumerate(product(range(steps), range(n_states), range(n_actions))):
            if without(s, a):
                continue
            possible = []
            for i, draw in enumerate(self._draws):
                name = _hashable(_called((s, a), draw.law, h, s, a), s, a)
                possible.append(_checked_outcomes(_called((s, a), draw.outcomes, s, a, name), name))
                keys[pair, i] = number = numbers.setdefault(name, len(numbers))
                if number == len(outcomes):
                    outcomes.append(possible[i])
                elif len(outcomes[number]) != len(possible[i]):
                    raise ValueError(
                        f"the law {shown(name)} has {len(possible[i])} outcomes for state {s} with action {a}, and "
                        f"{len(outcomes[number])} elsewhere: pairs that share a law have as many outcomes."
                    )
            targets.append(_called((s, a), self._ahead, s, a, possible, n_states))
            edges += len(targets[-1])
            if edges > MOST_EDGES or sum(map(len, outcomes)) > MOST_EDGES:
                raise ValueError(f"the structure has more than {MOST_EDGES:,} possible transitions, which are too many.")
        shared = SharedLaws(
            n_states=n_states,
            n_actions=n_actions,
            steps=steps,
            draws=len(self._draws),
            sizes=tuple(map(len, outcomes)),
            names=tuple(shown(name)[:LONGEST] for name in numbers),
            known=self._known_laws(numbers, outcomes),
            keys=packed(keys),
            targets=packed(np.concatenate(targets) if targets else np.zeros(0, np.int32)),
        )
        if self._outcome is not None:
            self._check_outcome(shared, outcomes)
        shared.check_that_all_laws_are_revealed()
        return shared

    def _known_laws(
        self, laws: dict[Hashable, int], outcomes: list[tuple[Any, ...]]
    ) -> tuple[tuple[int, tuple[float, ...]], ...]:
        """The known laws by number, with the probabilities of their outcomes."""
        found = []
        for name, given in self._known.items():
            if name not in laws:
                raise ValueError(f"known has the law {shown(name)}, which no state and action draw from: leave it out.")
            possible = outcomes[laws[name]]
            given = given.tolist() if isinstance(given, np.ndarray) else given
            if not isinstance(given, Mapping | Sequence) or isinstance(given, str):
                raise ValueError(f"known gives {shown(given)} for the law {shown(name)}: a list of probabilities is needed.")
            p = [given.get(x, 0.0) for x in possible] if isinstance(given, Mapping) else list(given)
            unknown = [x for x in given if x not in possible] if isinstance(given, Mapping) else []
            if unknown or len(p) != len(possible):
                raise ValueError(f"known gives {shown(given)} for the law {shown(name)}, whose outcomes are {shown(possible)}.")
            found.append((laws[name], distribution(p, f"the known law {shown(name)}")))
        return tuple(sorted(found))

    def _check_outcome(self, laws: SharedLaws, outcomes: list[tuple[Any, ...]]) -> None:
        """Raises unless `outcome` says what follows from `successor`."""
        assert self._outcome is not None
        A, S, t = laws.n_actions, laws.n_states, laws.tables
        for pair in np.flatnonzero(laws.law_of[:, 0] >= 0):
            s, a = int(pair) // A % S, int(pair) % A
            possible, edges = outcomes[laws.law_of[pair, 0]], slice(t.pointer[pair], t.pointer[pair + 1])
            answers = [_called((s, a), self._outcome, s, a, int(target)) for target in t.target[edges]]
            said = [answer is not None for answer in answers]
            if any(said) != all(said):
                raise ValueError(
                    f"outcome answers for some successors of state {s} with action {a} and not for others, which selects draws "
                    "by how they turned out: let it return None for all of them."
                )
            if all(said) and (not t.revealed[pair, 0] or any(y != x for y, x in zip(answers, possible, strict=True))):
                raise ValueError(
                    f"outcome and successor contradict each other for state {s} with action {a}: outcome({s}, {a}, "
                    "successor(s, a, x)) has to be x, and None where two outcomes lead to the same state."
                )


class _Draw(NamedTuple):
    """One draw of a transition: its law (h, s, a), the outcomes of a law (s, a, law), and whether the law depends on the step."""

    law: Callable[[int, int, int], Any]
    outcomes: Callable[[int, int, Hashable], Any]
    of_step: bool

    @classmethod
    def of(cls, law: Any, outcomes: Any, name: str) -> _Draw:
        """The draw of a declaration by functions or arrays."""
        function, of_step = _function_of_pair(law, name)

        def possible(s: int, a: int, which: Hashable) -> Any:
            if isinstance(outcomes, Mapping):
                if which not in outcomes:
                    raise ValueError(f"outcomes has none for the law {shown(which)}: every law needs its outcomes.")
                return outcomes[which]
            return outcomes(which) if callable(outcomes) else outcomes

        return cls(function, possible, of_step)


def _numbers_of(parents: Any, called: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """The parents of each part by their numbers, -1 for what is no part. Raises a TypeError for what are no lists."""
    if parents is None:
        return tuple((i,) for i in range(len(called)))
    if isinstance(parents, Mapping):
        parents = [parents.get(name, (name,)) for name in called] if set(parents) <= set(called) else ()
    if any(isinstance(group, str) for group in parents):
        raise TypeError
    if isinstance(called, range):
        return tuple(tuple(map(index, group)) for group in parents)
    return tuple(tuple(called.index(name) if name in called else -1 for name in group) for group in parents)


def _function_of_pair(law: Any, name: str) -> tuple[Callable[[int, int, int], Any], bool]:
    """A law as a function of (h, s, a), and whether it depends on h."""
    if not callable(law):
        array = _Array(law, (2, 3), name, "(S, A) or (H, S, A)")
        return array, array.values.ndim == 3
    try:
        needed = [p for p in inspect.signature(law).parameters.values() if p.default is p.empty and p.kind in (0, 1)]
    except (TypeError, ValueError):
        needed = [None, None]  # type: ignore[list-item]
    if len(needed) not in (2, 3):
        raise ValueError(f"{name} takes {len(needed)} arguments: it has to be a function of (s, a) or of (h, s, a).")
    return (law, True) if len(needed) == 3 else ((lambda h, s, a: law(s, a)), False)


class _Array:
    """An array in place of a function: a law (S, A) or (H, S, A), read by (h, s, a); or successors (S, A, X), by (s, a, x)."""

    def __init__(self, values: Any, dimensions: tuple[int, ...], name: str, form: str) -> None:
        try:
            self.values, self.name, self.form = np.asarray(values), name, form
        except ValueError:
            raise ValueError(
                f"{name} is a list whose rows differ in length: it has to be a function, or an array {form}."
            ) from None
        if self.values.ndim not in dimensions:
            raise ValueError(f"{name} has shape {self.values.shape}: it has to be a function, or an array {form}.")

    def check(self, n_states: int, n_actions: int, horizon: int) -> None:
        """Raises if the array is not for a problem of these sizes."""
        shape, of_law = self.values.shape, self.form != "(S, A, X)"
        right = shape[-2:] == (n_states, n_actions) if of_law else shape[:2] == (n_states, n_actions)
        if not right or (of_law and len(shape) == 3 and shape[0] != horizon):
            sizes = f"S = {n_states}, A = {n_actions}, H = {horizon}"
            raise ValueError(f"{self.name} has shape {shape}: it has to be {self.form} with {sizes}.")

    def __call__(self, *where: int) -> Any:
        where = where[-2:] if self.values.ndim == 2 else where
        if any(i >= n for i, n in zip(where, self.values.shape, strict=True)):
            raise ValueError(f"{self.name} has shape {self.values.shape}, which has no entry {where}.")
        return self.values[where].item()


def _check_callable(given: Any, name: str) -> None:
    if not callable(given):
        raise ValueError(f"{name} is {' '.join(shown(given).split())}: it has to be a function.")


def _called(pair: tuple[int, int], function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the user's returns for a pair. Raises a ValueError if it fails."""
    return called(f"the structure fails for state {pair[0]} with action {pair[1]}", function, *arguments)


def _hashable(name: Any, s: int, a: int) -> Hashable:
    """The name of a law. Raises if it is None or cannot be compared with others."""
    if name is None:
        raise ValueError(f"law is None for state {s} with action {a}: every legal pair needs a law; it may be one of its own.")
    try:
        hash(name)
    except TypeError:
        raise ValueError(f"law is {shown(name)} for state {s} with action {a}: it has to be hashable, such as a tuple.") from None
    return name


def _checked_outcomes(given: Any, name: Hashable) -> tuple[Any, ...]:
    """The outcomes of a law as a tuple of different values."""
    given = given.tolist() if isinstance(given, np.ndarray) else given
    count = given if isinstance(given, int | np.integer) else len(given) if hasattr(given, "__len__") else 0
    if isinstance(given, bool) or count > MOST_EDGES:
        raise ValueError(
            f"the outcomes of the law {shown(name)} are {shown(given)}: a list of hashable values is needed, or their number, "
            f"at most {MOST_EDGES:,}."
        )
    try:
        possible = tuple(range(given)) if isinstance(given, int | np.integer) else tuple(given)
        different = len(set(possible)) == len(possible)
    except TypeError:
        raise ValueError(
            f"the outcomes of the law {shown(name)} are {shown(given)}: a list of hashable values is needed."
        ) from None
    if not possible or not different:
        raise ValueError(f"the outcomes of the law {shown(name)} are {shown(given)}: it needs some, and each of them once.")
    return possible


def _number(value: Any, n: int, what: str) -> int:
    """A state, or the value of a part, as an int below n."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{what} is {shown(value)}: it has to be a whole number.")
    if not 0 <= value < n:
        raise ValueError(f"{what} is {value}: it has to be from 0 to {n - 1}.")
    return int(value)
