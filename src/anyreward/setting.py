"""`Setting`: the sizes and conventions of a problem, on which algorithms, counts and certificates have to agree.

Also here are the small functions that check arguments (`whole_number`, `probability`, ...): each returns the value in its plain
type, or raises a `ValueError` of one sentence that names the argument. `checked` checks several of them, `check_fields` the
fields of a dataclass. Arguments are checked once, where they come from outside.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np

from .shared_laws import SharedLaws
from .structure import Structure

MIN_PROBABILITY = 1e-300  # the smallest accepted confidence parameter: its shares must not underflow
MAX_NODES = 2**31 - 2  # visited (step, state) nodes are numbered with 32 bits
TOLERANCE = 1e-9  # how far the sum of given probabilities may be from one; they are then rescaled
MOST_NAMES = 20  # that an error message lists; more of them help nobody
TERMINALS = ("outcome", "end", "state")  # how an early termination is represented, see `Setting`


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Sizes and conventions of a finite-horizon Markov decision process with rewards in [0, 1].

    A setting says what is known about a problem before any data are collected. It does not hold transition probabilities: those
    are either known (`TabularMDP`) or estimated from data (`Counts`). `explore` makes the setting of an environment by itself;
    make one yourself to count your own data (`Counts.from_episodes`) or to drive an explorer with `ask` and `tell`:

        setting = Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)

    The value of a policy is the expectation of sum_h gamma^h r_h(s_h, a_h) over the steps h = 0, ..., H-1.

    Parameters
    ----------
    n_states, n_actions, horizon : int
        S, A and H, at least 1 each. States, actions and steps are numbered from 0.
    discount : float, default 1.0
        gamma, in (0, 1].
    stationary : bool, default False
        True if the transition probabilities are the same at every step. This is an assumption: counts are then pooled over the
        steps, and a certificate says nothing about a problem whose transitions do depend on the step.
    initial_state : int, optional
        The state in which every episode starts. None means that the initial state is random; unless `initial` gives its
        distribution, that is estimated from the data as well.
    arrival_rewards : bool, default False
        True if certificates are to cover rewards r_h(s, a, s') that depend on the successor too. The last transition of an
        episode then matters, so its probabilities have to be estimated as well.
    absorbing_states : tuple of int, default ()
        States that are known never to be left, such as the end of an episode that terminates early. Their transitions are not
        estimated: they have confidence radius 0 and no share of delta. Data that contradict this are refused.
    illegal_actions : tuple of (int, int), default ()
        Pairs (state, action) that are known beforehand to be illegal. They have no share of delta either.
    hidden_masks : bool, default False
        True if some actions may be illegal in some states, and the environment reveals which ones only when it visits the state
        for the first time (`Counts.declare_illegal`). An unvisited state may then have any non-empty set of legal actions.
    terminal : {None, "outcome", "end", "state"}, default None
        How an episode that terminates before step H is represented.

        - None: episodes do not terminate early, or only by entering one of the `absorbing_states`.
        - "outcome": terminating in state s is an outcome of its own, numbered n_states + s, which is never left. Nothing is
          assumed.
        - "end": every termination leads to the same state, the last one, which is never left. Nothing is assumed.
        - "state": a state in which an episode terminated is never left. This is an assumption: no episode ever continues from it.
    assumed : tuple of str, default ()
        Further assumptions, one sentence each, such as how observations were turned into state numbers. They are printed with
        every certificate.
    initial : sequence of float (S,), or of pairs (state, probability), or a mapping of these, default ()
        The distribution of the initial state, if it is known: it is then not estimated, and has no share of delta. Data that
        contradict it are refused. It is kept as pairs, without the states of probability 0. A distribution that is certain of
        one state becomes `initial_state`.
    structure : Structure, optional
        How transitions are drawn, if it is known that many pairs share few laws. It is kept as tables (`SharedLaws`). Laws that
        do not depend on the step make the setting stationary.
    """

    n_states: int
    n_actions: int
    horizon: int
    discount: float = 1.0
    stationary: bool = False
    initial_state: int | None = None
    arrival_rewards: bool = False
    absorbing_states: tuple[int, ...] = ()
    illegal_actions: tuple[tuple[int, int], ...] = ()
    hidden_masks: bool = False
    terminal: str | None = None
    assumed: tuple[str, ...] = ()
    initial: tuple[tuple[int, float], ...] = ()
    structure: SharedLaws | None = None

    def __post_init__(self) -> None:
        check_fields(self, boolean, "stationary", "arrival_rewards", "hidden_masks")
        check_fields(self, whole_number, "n_states", "n_actions", "horizon")
        for name in ("n_states", "n_actions", "horizon"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it has to be at least 1.")
        if self.terminal not in (None, *TERMINALS):
            raise ValueError(
                f"terminal is {shown(self.terminal)}: it has to be one of {', '.join(map(repr, TERMINALS))}, or None."
            )
        if self.structure is not None:  # before anything is computed that depends on it
            self._pool_steps()
        if max(self.horizon, self.n_actions) > MAX_NODES:
            raise ValueError(f"{self.n_actions} actions and {self.horizon} steps are too many: both have to stay below 2^31.")
        if self.layers * self.n_outcomes > MAX_NODES:
            raise ValueError(
                f"{self.layers} layers of {self.n_outcomes} states are too many: their product has to stay below 2^31."
            )
        if not 0.0 < real_number(self.discount, "discount") <= 1.0:
            raise ValueError(f"discount is {self.discount}: it has to be in (0, 1].")
        object.__setattr__(self, "discount", float(self.discount))
        if self.initial_state is not None:
            start = whole_number(self.initial_state, "initial_state")
            if not 0 <= start < self.n_states:
                raise ValueError(f"initial_state is {start}: states go from 0 to {self.n_states - 1}.")
            object.__setattr__(self, "initial_state", start)

        ends = {self.n_states - 1} if self.terminal == "end" else set()
        known = tuple(
            sorted({whole_number(s, "absorbing_states") for s in as_list(self.absorbing_states, "absorbing_states")} | ends)
        )
        if known and not 0 <= known[0] <= known[-1] < self.n_states:
            raise ValueError(f"absorbing_states are {known}: states go from 0 to {self.n_states - 1}.")
        object.__setattr__(self, "absorbing_states", known)
        object.__setattr__(self, "illegal_actions", self._checked_illegal())
        if not isinstance(self.assumed, tuple | list) or not all(isinstance(text, str) for text in self.assumed):
            raise ValueError(f"assumed is {shown(self.assumed)}: it has to be a tuple of sentences.")
        object.__setattr__(self, "assumed", tuple(self.assumed))
        law = self._checked_initial()
        if law and self.initial_state is not None:
            raise ValueError("initial_state and initial are both given: leave one of them out.")
        if len(law) == 1:
            object.__setattr__(self, "initial_state", law[0][0])
        object.__setattr__(self, "initial", law if len(law) > 1 else ())
        if self.structure is not None:
            self._tabulate()

    def _pool_steps(self) -> None:
        """Makes the setting stationary if the laws of its structure do not depend on the step."""
        given: Any = self.structure
        if isinstance(given, dict) and set(given) == {field.name for field in fields(SharedLaws)}:  # from a file
            given = SharedLaws(**given)
        if not isinstance(given, Structure | SharedLaws):
            raise ValueError(f"structure is {shown(given)}: it has to be a Structure.")
        if given.step_dependent and self.horizon > 1 and self.stationary:
            raise ValueError("structure has laws that depend on the step, but stationary is True: leave one of them out.")
        object.__setattr__(self, "stationary", not (given.step_dependent and self.horizon > 1))
        object.__setattr__(self, "structure", given)

    def _tabulate(self) -> None:
        """Turns the declared structure into tables. Raises if it does not fit the setting."""
        given: Any = self.structure
        if self.hidden_masks:
            raise ValueError(
                "structure needs to know which actions are legal, also in states that were never visited: pass "
                "action_masks='none' if all of them are everywhere, or an array (in a log, legal as a mapping)."
            )
        if self.terminal == "outcome":
            raise ValueError(
                "structure does not suit terminal='outcome', where terminating in a state and continuing from it are two "
                "outcomes: pass terminal='state' or terminal='end' if you know how episodes terminate."
            )
        absorbing, illegal = set(self.absorbing_states), set(self.illegal_actions)
        if isinstance(given, Structure):
            given = given.tabulate(self.n_states, self.n_actions, self.horizon, lambda s, a: s in absorbing or (s, a) in illegal)
        if (given.n_states, given.n_actions) != (self.n_states, self.n_actions) or given.steps not in (1, self.horizon):
            raise ValueError(
                f"structure is for {given.n_states} states, {given.n_actions} actions and {given.steps} steps, "
                "not for this setting."
            )
        without = (given.law_of < 0).all(axis=1).reshape(-1, self.n_states, self.n_actions)
        expected = np.zeros(without.shape[1:], bool)
        expected[list(absorbing)] = True
        if illegal:
            expected[*np.array(sorted(illegal)).T] = True
        if (without & ~expected).any():
            raise ValueError("structure has no law for some legal pair: every legal pair needs one.")
        object.__setattr__(self, "structure", given)

    def _checked_initial(self) -> tuple[tuple[int, float], ...]:
        """`initial` as pairs of positive probability, by state, that sum to one. Raises if it is not a distribution."""
        entries = as_list(self.initial.items() if isinstance(self.initial, Mapping) else self.initial, "initial")
        if not entries:
            return ()
        if not any(isinstance(entry, tuple | list | np.ndarray) for entry in entries):
            if len(entries) != self.n_states:
                raise ValueError(
                    f"initial has {len(entries)} entries: there are {self.n_states} states, each with a probability."
                )
            entries = list(enumerate(entries))
        law: dict[int, float] = {}
        for entry in entries:
            if not isinstance(entry, tuple | list | np.ndarray) or len(entry) != 2:
                raise ValueError(f"initial has {shown(entry)}: its entries have to be numbers, or pairs (state, probability).")
            s, p = whole_number(entry[0], "a state of initial"), real_number(entry[1], "a probability of initial")
            if not 0 <= s < self.n_states:
                raise ValueError(f"initial has state {s}: states go from 0 to {self.n_states - 1}.")
            if not 0.0 <= p <= 1.0 + TOLERANCE:
                raise ValueError(f"initial has the probability {p:g} for state {s}: it has to be from 0 to 1.")
            if s in law:
                raise ValueError(f"initial names state {s} twice: each state may appear once.")
            law[s] = p
        total = fsum(law.values())
        if abs(total - 1.0) > TOLERANCE:
            raise ValueError(f"initial sums to {total:.12g}: probabilities have to sum to one.")
        total = total if abs(total - 1.0) > 2.0**-50 else 1.0  # what was rescaled once, and saved, stays as it is
        return tuple((s, p / total) for s, p in sorted(law.items()) if p > 0.0)

    def _checked_illegal(self) -> tuple[tuple[int, int], ...]:
        """`illegal_actions`, sorted and without repetitions. Raises if a pair is out of range or a state has no legal action."""
        pairs, absorbing = set(), set(self.absorbing_states)
        for pair in as_list(self.illegal_actions, "illegal_actions"):
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise ValueError(f"illegal_actions has {shown(pair)}: each entry has to be a pair (state, action).")
            s, a = (whole_number(x, "illegal_actions") for x in pair)
            if not (0 <= s < self.n_states and 0 <= a < self.n_actions):
                raise ValueError(
                    f"illegal_actions has ({s}, {a}): states go from 0 to {self.n_states - 1}, actions to {self.n_actions - 1}."
                )
            if s in absorbing:
                raise ValueError(f"illegal_actions has ({s}, {a}), but state {s} is absorbing: nothing is played there.")
            pairs.add((s, a))
        full = next((s for s, many in Counter(s for s, _ in pairs).items() if many == self.n_actions), None)
        if full is not None:
            raise ValueError(f"illegal_actions forbids every action in state {full}: at least one has to be legal.")
        return tuple(sorted(pairs))

    @cached_property
    def n_outcomes(self) -> int:
        """The number of different outcomes of a transition: n_states or, with `terminal="outcome"`, twice as many."""
        return 2 * self.n_states if self.terminal == "outcome" else self.n_states

    @cached_property
    def estimates_start(self) -> bool:
        """Whether the distribution of the initial state is unknown, so that it has to be estimated."""
        return self.initial_state is None and not self.initial

    @property
    def start_in_words(self) -> str:
        """What is known about the initial state, as a phrase; empty if it is estimated."""
        if self.initial:
            return f"the initial state has the given distribution: {distribution(self.initial)}"
        return "" if self.initial_state is None else f"every episode starts in state {self.initial_state}"

    @cached_property
    def starts(self) -> tuple[np.ndarray, np.ndarray]:
        """The states in which episodes can start, (K,), and their probabilities, (K,); both empty if they are estimated."""
        pairs = self.initial if self.initial_state is None else ((self.initial_state, 1.0),)
        return np.array([s for s, _ in pairs], np.int64), np.array([p for _, p in pairs])

    def check_starts(self, states: np.ndarray, who: str = "", named: Callable[[str], str] = str) -> None:
        """Raises if one of these initial states, (B,), is known to be impossible: `who` or, if that is empty, an episode.

        `named` gives the sentence the names of the states that it mentions (`Counts.named`).
        """
        if self.estimates_start:
            return
        known = self.starts[0]
        possible = states == known[0] if len(known) == 1 else np.isin(states, known)
        if possible.all():
            return
        b = int((~possible).argmax())
        why = "which has probability 0 in initial" if self.initial else f"not in the initial_state {self.initial_state}"
        raise ValueError(named(f"{who or f'episode {b}'} starts in state {states[b]}, {why}."))

    def stays(self, states: np.ndarray) -> np.ndarray:
        """Which outcomes are known beforehand to be absorbing: an array of booleans in the shape of `states`."""
        ended = states >= self.n_states
        return ended | np.isin(states, self.absorbing_states) if self.absorbing_states else ended

    def identity(self) -> dict[str, Any]:
        """All fields as plain values, for a digest of the setting.

        Fields that were added later are left out when they have their default value, so that the digests in older files stay
        valid.
        """
        fields = asdict(self)
        return {name: value for name, value in fields.items() if name not in LATER_FIELDS or value != LATER_FIELDS[name]}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a certificate about this setting assumes in addition to the Markov property, as phrases for printing."""
        said = []
        if self.structure is not None:
            said.append(self.structure.in_words)
        elif self.stationary:
            said.append("the transitions are the same at every step")
        if not self.estimates_start:
            said.append(self.start_in_words)
        left = self.absorbing_states[:-1] if self.terminal == "end" else self.absorbing_states
        if left:
            said.append(f"never left: {listed('state', left)}")
        if self.illegal_actions:
            said.append(f"illegal actions: those of {listed('state', sorted({s for s, _ in self.illegal_actions}))} as given")
        if self.hidden_masks:
            said.append("which actions are legal depends on the state alone")
        if self.terminal == "state":
            said.append("a state in which an episode terminated once always terminates it")
        return (*said, *self.assumed)

    @cached_property
    def layers(self) -> int:
        """The number of separate tables of states in the counts: H + 1, or 1 if the setting is stationary (pooled steps)."""
        return 1 if self.stationary else self.horizon + 1

    @cached_property
    def planes(self) -> int:
        """The number of values that an index keeps for each visited state: H + 1 if the setting is stationary, otherwise 1.

        In a step-dependent setting a state is stored once for each step at which it was visited, so one value is enough.
        """
        return self.horizon + 1 if self.stationary else 1

    @cached_property
    def sigma(self) -> np.ndarray:
        """sigma_k = 1 + gamma + ... + gamma^(k-1) for k = 0, ..., H, an array (H + 1,): the largest possible value of k steps."""
        sigma = np.concatenate([[0.0], np.cumsum(self.discount ** np.arange(self.horizon))])
        sigma.flags.writeable = False  # it is computed once, and shared
        return sigma

    @cached_property
    def shared_laws(self) -> tuple[int, int]:
        """With a structure, how many estimated laws values from the start can depend on, and an estimated start: without the laws
        of the last step, unless it is arriving that is paid, and with them."""
        laws = self.structure
        assert laws is not None
        drawn = laws.law_of.reshape(laws.steps, self.n_states, -1)

        def among(steps: int) -> int:
            keys = drawn[: min(steps, laws.steps)].reshape(-1)
            if steps > 0 and laws.step_dependent and not self.estimates_start:
                keys = np.concatenate([drawn[0, self.starts[0]].reshape(-1), drawn[1:steps].reshape(-1)])
            keys = np.unique(keys)
            return int(laws.estimated[keys[keys >= 0]].sum()) + self.estimates_start

        return among(self.horizon - (not self.arrival_rewards)), among(self.horizon)

    @cached_property
    def n_distributions(self) -> int:
        """The number of distributions to estimate: one for each (h, s, a), or (s, a) if stationary, plus a random start."""
        steps = 1 if self.stationary else self.horizon
        return steps * self.n_states * self.n_actions + self.estimates_start


# Fields that the first versions did not have, with the value that describes how those versions behaved.
LATER_FIELDS: dict[str, Any] = {
    "illegal_actions": (),
    "hidden_masks": False,
    "terminal": None,
    "assumed": (),
    "initial": (),
    "structure": None,
}


def listed(noun: str, numbers: Sequence[int], most: int = 6) -> str:
    """Numbers in words: "state 3"; "states 3, 4 and 5"; "states 0, 1, 2, 3, 4, 5 and 94 more"."""
    shown = [str(number) for number in numbers[:most]]
    if len(numbers) > most:
        return f"{noun}s {', '.join(shown)} and {len(numbers) - most:,} more"
    return f"{noun} {shown[0]}" if len(shown) == 1 else f"{noun}s {', '.join(shown[:-1])} and {shown[-1]}"


def distribution(law: Sequence[tuple[int, float]], most: int = 6) -> str:
    """A distribution in words: "state 3 with probability 0.25, state 7 with 0.75"; "..., and 94 more states"."""
    said = [f"state {s} with {'' if i else 'probability '}{p:.6g}" for i, (s, p) in enumerate(law[:most])]
    return ", ".join(said) + (f", and {len(law) - most:,} more states" if len(law) > most else "")


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the most similar known name, or a list of (the first) known ones."""
    known = sorted(known)
    close = get_close_matches(name[:100], known, 1)
    if close:
        return f"; perhaps {close[0]!r} is meant"
    if not known:
        return "; there are none"
    others = f" and {len(known) - MOST_NAMES:,} others" if len(known) > MOST_NAMES + 1 else ""
    apart = "; " if any("," in each for each in known) else ", "
    return f"; there {'is' if len(known) == 1 else 'are'} {apart.join(known[:MOST_NAMES] if others else known)}{others}"


def shown(value: Any) -> str:
    """The representation of a value for an error message, at most 80 characters long."""
    try:
        text = repr(value) if not isinstance(value, str) or len(value) <= 200 else repr(value[:200])
    except Exception:  # a user's `__repr__` may raise anything, and so may very deep nesting
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_list(values: Any, name: str) -> list[Any]:
    """`values` as a list. Raises if they cannot be iterated over."""
    try:
        return list(values)
    except TypeError:
        raise ValueError(f"{name} are {shown(values)}: a list is needed.") from None


def checked(*given: tuple[Any, ...]) -> list[Any]:
    """Arguments, each by what checks it (`boolean`, `probability`, ...), its name and its value.

        seed, seconds = checked((whole_number, "seed", seed), (positive, "max_seconds", max_seconds, inf))

    A fourth entry is what stands for None; without one, None is checked like any other value.
    """
    return [instead[0] if instead and value is None else check(value, name) for check, name, value, *instead in given]


def check_fields(it: Any, check: Callable[[Any, str], Any], *names: str) -> None:
    """Checks fields of a frozen dataclass, which become what `check` makes of them."""
    for name in names:
        object.__setattr__(it, name, check(getattr(it, name), name))


def boolean(value: Any, name: str) -> bool:
    """`value` as a bool. Accepts True, False, 0 and 1; a text such as "false" is refused, since Python would take it for true."""
    if isinstance(value, bool | np.bool_) or (isinstance(value, int) and value in (0, 1)):
        return bool(value)
    raise ValueError(f"{name} is {shown(value)}: it has to be True or False.")


def whole_number(value: Any, name: str) -> int:
    """`value` as an int. Raises if it is not an integer; a float such as 2.0 is refused too."""
    try:
        return int(operator.index(value))
    except TypeError:
        raise ValueError(f"{name} is {shown(value)}: it has to be a whole number.") from None


def real_number(value: Any, name: str) -> float:
    """`value` as a float. Raises if it is not a number."""
    if isinstance(value, str) or np.iscomplexobj(value):
        raise ValueError(f"{name} is {shown(value)}: it has to be a number.")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is {shown(value)}: it has to be a number.") from None


def probability(value: Any, name: str) -> float:
    """`value` as a float strictly between 0 and 1, and at least `MIN_PROBABILITY`, so that it can be shared by many events."""
    if 0.0 < real_number(value, name) < MIN_PROBABILITY:
        raise ValueError(f"{name} is {value}: it has to be at least {MIN_PROBABILITY:g}.")
    if not 0.0 < real_number(value, name) < 1.0:
        raise ValueError(f"{name} is {value}: it has to be strictly between 0 and 1.")
    return float(value)


def positive(value: Any, name: str) -> float:
    """`value` as a float greater than 0."""
    if not real_number(value, name) > 0.0:
        raise ValueError(f"{name} is {value}: it has to be positive.")
    return float(value)
