"""How often each transition was seen: all that the algorithms, the certificates and the plans ever need."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from . import kernels
from .setting import Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike

    from .kernels.table import Table
    from .rewards import ArrivalReward

COLUMNS = ("h", "s", "a", "next", "count")
MOST = 2**53  # the largest count that is exact as a float


class Counts:
    """Visit counts n(h, s, a, s') of a setting. Only what was visited is stored; counts add up: ``a + b``.

    The table of a `Counts` (see `columns`) has a row for each transition that was seen. Rows with h = -1 are the start
    draws: `next` is then the start state. In a stationary setting the steps are pooled and h is 0.

    With `transfer` (step-dependent settings only) each transition is also scored by how well the counts of *all* steps,
    as they were before it, predicted it: the column `evidence` sums log(predicted probability). The tight certificate uses
    it; nothing is assumed by it (see `confidence`). Predictions are renewed whenever the number of episodes has grown by 3%.
    """

    def __init__(self, setting: Setting, transfer: bool = False) -> None:
        self.setting = setting
        self._pool: Counts | None = None
        if transfer and not setting.stationary:
            self._pool = Counts(replace(setting, stationary=True))
        self._booked_at = 0  # episodes
        layers, M, A = setting.layers, 64, setting.n_actions
        N = min(layers * setting.n_states + 1, setting.horizon + 3)
        self._table: Table = kernels.table.Table(
            node_of=np.zeros((layers, setting.n_states), np.uint32),
            state=np.zeros(N, np.uint32),
            following=np.zeros(N, np.uint32),
            head=np.zeros(layers, np.uint32),
            n=np.zeros(N * A, np.int64),
            first=np.zeros(N * A, np.uint32),
            size=np.zeros(N * A, np.uint32),
            room=np.zeros(N * A, np.uint32),
            target=np.zeros(M, np.uint32),
            seen=np.zeros(M),
            booked=np.zeros(M),
            evidence=np.zeros(M),
            used=np.array([1, 0, 0, 0], np.int64),  # node 0 is s_0
            known=np.zeros(0, np.uint8),
        )
        if setting.absorbing_states:
            self.declare_absorbing(setting.absorbing_states)

    def declare_absorbing(self, states: Iterable[int]) -> None:
        """Says that states are known never to be left, although the setting did not know it: nothing has to be estimated there.

        For what an environment tells as it goes, such as the observations in which its episodes end. It has to be said before
        the first visit.
        """
        self._marks()[list(states)] = kernels.table.STAYS

    def declare_illegal(self, state: int, actions: Iterable[int]) -> None:
        """Says which actions must not be played in a state, before its first visit: certificates and plans do without them."""
        self._marks()[state, list(actions)] = kernels.table.ILLEGAL

    def _marks(self) -> np.ndarray:
        """What is known of every pair, (S, A), to be written to."""
        S, A = self.setting.n_states, self.setting.n_actions
        if len(self._table.known) == 0:
            self._table = self._table._replace(known=np.zeros(S * A, np.uint8))
        return self._table.known.reshape(S, A)

    @property
    def absorbing_states(self) -> np.ndarray:
        """The states that are known never to be left."""
        known = self._table.known.reshape(-1, self.setting.n_actions)
        return np.flatnonzero((known == kernels.table.STAYS).any(axis=1))

    @property
    def illegal(self) -> np.ndarray:
        """Which pairs must not be played, (S, A) booleans; (0, A) if there are none."""
        illegal = self._table.known.reshape(-1, self.setting.n_actions) == kernels.table.ILLEGAL
        return illegal if illegal.any() else illegal[:0]

    def known_rows(self) -> np.ndarray:
        """Which rows of the table need no estimate."""
        t, A = self._table, self.setting.n_actions
        if len(t.known) == 0:
            return np.zeros(len(t.n), bool)
        known = t.known.reshape(-1, A)[t.state].reshape(-1) != 0
        known[:A] = False  # the start draw is no state
        return known

    @classmethod
    def from_episodes(cls, states: ArrayLike, actions: ArrayLike, setting: Setting) -> Counts:
        """Counts of whole episodes, in the order in which they were played: states (B, H+1) and actions (B, H)."""
        states, actions = checked_episodes(states, actions, setting)
        counts = cls(setting, transfer=True)
        counts.add_episodes(states, actions)
        return counts

    @classmethod
    def from_dataframe(cls, frame: Any, setting: Setting) -> Counts:
        """Counts from a data frame, or anything with columns, of transitions h, s, a, next and perhaps count.

        Steps go from 0 to H-1, in a stationary setting too; episodes are counted by their first steps (or by rows with h = -1,
        whose `next` is the start, as in `columns`). Which data may be certified is said in `data`.
        """
        from .data import counts_from_dataframe

        return counts_from_dataframe(frame, setting)

    @classmethod
    def from_minari(cls, dataset: Any, horizon: int, **options: Any) -> Counts:
        """Counts of the first `horizon` steps of every episode of a Minari dataset, or of the one with that id.

        An episode that terminates goes to an extra state, the last one, which is never left. `options` are discount, stationary,
        initial_state, arrival_rewards, bins and max_states, as of `explore`. Which data may be certified is said in `data`.
        """
        from .data import counts_from_minari

        return counts_from_minari(dataset, horizon, **options)

    @classmethod
    def from_columns(cls, setting: Setting, columns: Mapping[str, ArrayLike], known: np.ndarray | None = None) -> Counts:
        """Counts from the columns h, s, a, next, count and, if they were scored, evidence, as `columns` gives them.

        `known` is what is known of pairs beyond the setting, as `declare` takes it.
        """
        missing = [name for name in COLUMNS if name not in columns]
        if missing:
            raise ValueError(f"the column {missing[0]!r} is missing: counts need {', '.join(COLUMNS)}.")
        flows = np.stack([np.asarray(columns[name], dtype=np.int64) for name in COLUMNS], axis=1)
        h, start = flows[:, 0], flows[:, 0] == -1
        steps = 1 if setting.stationary else setting.horizon
        for name, values, low, high in (
            ("h", h, -1, steps - 1),
            ("s", flows[:, 1], 0, setting.n_states - 1),
            ("a", flows[:, 2], 0, setting.n_actions - 1),
            ("next", flows[:, 3], 0, setting.n_states - 1),
            ("count", flows[:, 4], 1, MOST),
        ):
            wrong = (values < low) | (values > high)
            if name in ("s", "a"):
                wrong &= ~start
            if wrong.any():
                row = int(wrong.argmax())
                raise ValueError(f"row {row} of the counts has {name} = {values[row]}: it has to be from {low} to {high}.")
        if flows[:, 4].sum(dtype=float) > MOST:
            raise ValueError("the counts add up to more than 2^53, beyond which they would not be exact.")
        left = ~start & np.isin(flows[:, 1], setting.absorbing_states) & (flows[:, 3] != flows[:, 1])
        if left.any():
            raise ValueError(f"row {int(left.argmax())} of the counts leaves a state that the setting says is absorbing.")
        if setting.initial_state is not None and (flows[start, 3] != setting.initial_state).any():
            raise ValueError(f"an episode does not start in state {setting.initial_state}, the setting's initial_state.")
        evidence = np.asarray(columns.get("evidence", np.zeros(len(flows))), dtype=float)
        if not (np.isfinite(evidence) & (evidence <= 0)).all():
            row = int((~(np.isfinite(evidence) & (evidence <= 0))).argmax())
            raise ValueError(
                f"row {row} of the counts has evidence {evidence[row]}: a log probability is finite and not positive."
            )
        counts = cls(setting, transfer="evidence" in columns)
        if known is not None:
            counts.declare(known)
            counts._check_known(flows)
        counts._record(flows)
        if counts._pool is not None:
            counts._add_evidence(flows, evidence)
        return counts

    def reserve(self, records: int) -> None:
        """Makes room for that many more records, whatever they visit."""
        t = self._table
        most = t.node_of.size + 1
        nodes = min(most, int(t.used[0]) + 2 * records)
        edges = int(t.used[1]) + kernels.table.edges_needed(t.used, records)
        if nodes > len(t.state):
            size = min(most, max(nodes, 2 * len(t.state)))
            rows = {name: grown(getattr(t, name), size * self.setting.n_actions) for name in ("n", "first", "size", "room")}
            t = t._replace(state=grown(t.state, size), following=grown(t.following, size), **rows)
        if edges > len(t.target):
            size = max(edges, 2 * len(t.target))
            t = t._replace(**{name: grown(getattr(t, name), size) for name in ("target", "seen", "booked", "evidence")})
        self._table = t

    def add_episodes(self, states: np.ndarray, actions: np.ndarray) -> None:
        """Adds episodes that were checked already, (B, H+1) and (B, H) int64."""
        i = 0
        while i < len(states):
            step = min(256, self.until_booking)
            self.reserve(step * states.shape[1])
            part = states[i : i + step], actions[i : i + step]
            kernels.table.record_episodes(self._table, self.setting.n_actions, *part)
            self.book_if_due()
            i += step

    def _record(self, flows: np.ndarray, chunk: int = 1024) -> None:
        """Adds rows of (h, s, a, next, count)."""
        for i in range(0, len(flows), chunk):
            part = np.ascontiguousarray(flows[i : i + chunk].T)
            self.reserve(len(part[0]))
            kernels.table.record_flows(self._table, self.setting.n_actions, *part)

    @property
    def transfer(self) -> bool:
        """Whether transitions are scored by predictions from all steps."""
        return self._pool is not None

    @property
    def until_booking(self) -> int:
        """How many more episodes until predictions are due to be renewed."""
        if self._pool is None:
            return 2**62
        return max(1, ceil(1.03 * self._booked_at) - self.episodes)

    def book_if_due(self) -> None:
        """Scores what was seen since the last time, and lets the next predictions know of it, if it is time to."""
        if self._pool is not None and self.episodes >= max(self._booked_at + 1, ceil(1.03 * self._booked_at)):
            self._book(self._pool)

    def _book(self, pool: Counts) -> None:
        pool._record(kernels.table.book(self._table, pool._table, self.setting.n_actions, self.setting.n_states))
        self._booked_at = self.episodes

    def _add_evidence(self, flows: np.ndarray, evidence: np.ndarray) -> None:
        """Takes over the scores of transitions that were just recorded; all else has been booked."""
        assert self._pool is not None
        kernels.table.add_evidence(self._table, self.setting.n_actions, *np.ascontiguousarray(flows[:, :4].T), evidence)
        moves = flows[flows[:, 0] >= 0]
        self._pool._record(np.column_stack([np.zeros(len(moves), np.int64), moves[:, 1:]]))
        self._booked_at = self.episodes

    def scores(self) -> np.ndarray:
        """The evidence of each edge of the table so far, what is not booked yet included; empty without transfer."""
        if self._pool is None:
            return np.zeros(0)
        out = np.zeros(len(self._table.seen))
        kernels.table.scores(self._table, self._pool._table, self.setting.n_actions, self.setting.n_states, out)
        return out

    @property
    def episodes(self) -> int:
        """How many episodes were counted."""
        return int(self._table.used[2])

    @property
    def transitions(self) -> int:
        """How many transitions were counted."""
        return int(self._table.n[self.setting.n_actions :].sum())

    @property
    def visited_pairs(self) -> int:
        """How many (h, s, a), or (s, a) when stationary, were visited."""
        return int(np.count_nonzero(self._table.n[self.setting.n_actions :]))

    @property
    def widest(self) -> int:
        """The largest number of different outcomes seen of one law, the start included."""
        return int(self._table.size.max())

    @property
    def widest_pair(self) -> int:
        """The largest number of different successors seen from one pair."""
        return int(self._table.size[self.setting.n_actions :].max())

    def columns(self) -> dict[str, np.ndarray]:
        """The table of counts in a fixed order: arrays h, s, a, next, count and, with transfer, evidence, of equal length."""
        A = self.setting.n_actions
        flows = kernels.table.flows(self._table, A)
        columns = dict(zip(COLUMNS, np.ascontiguousarray(flows[np.lexsort(flows[:, 3::-1].T)].T), strict=True))
        if self._pool is not None:
            columns["evidence"] = np.zeros(len(flows))
            edges = [columns[name] for name in COLUMNS[:4]]
            kernels.table.flow_evidence(self._table, A, self.scores(), *edges, columns["evidence"])
        return columns

    def n(self) -> np.ndarray:
        """Visits of every pair, (H, S, A), or (S, A) when stationary. Dense: for looking, not for loops."""
        c = self.columns()
        steps = 1 if self.setting.stationary else self.setting.horizon
        n = np.zeros((steps, self.setting.n_states, self.setting.n_actions), np.int64)
        move = c["h"] >= 0
        np.add.at(n, (c["h"][move], c["s"][move], c["a"][move]), c["count"][move])
        return n[0] if self.setting.stationary else n

    def state_visits(self) -> np.ndarray:
        """How often each state was acted in, over all steps: (S,)."""
        return self.n().sum(axis=-1).reshape(-1, self.setting.n_states).sum(axis=0)

    def model(self) -> EmpiricalModel:
        """The empirical model: p_hat = n(h, s, a, s') / n(h, s, a), uniform where there is no data."""
        return EmpiricalModel(self)

    def digest(self) -> str:
        """A fingerprint of the setting, every count and, with transfer, its evidence."""
        sha = hashlib.sha256(json.dumps(asdict(self.setting), sort_keys=True).encode())
        for name, column in self.columns().items():
            sha.update(np.ascontiguousarray(column, dtype="<f8" if name == "evidence" else "<i8").tobytes())
        if len(self._table.known):
            sha.update(
                np.flatnonzero(self._table.known).astype("<i8").tobytes() + bytes(self._table.known[self._table.known > 0])
            )
        return sha.hexdigest()

    def state(self) -> dict[str, np.ndarray]:
        """Everything, down to the order of discovery, on which the last bit of a sum depends: for `from_state`."""
        nodes, edges, values = kernels.table.layout(self._table, self.setting.n_actions)
        known = np.flatnonzero(self._table.known)
        return {
            "nodes": nodes,
            "edges": edges,
            "values": values,
            "booked_at": np.array([self._booked_at]),
            "known": np.stack([known, self._table.known[known].astype(np.int64)], axis=1),
        }

    @classmethod
    def from_state(cls, setting: Setting, state: dict[str, np.ndarray], transfer: bool) -> Counts:
        """The counts that `state` was taken of. What is not such a state is refused."""
        counts = cls(setting, transfer)
        nodes, edges, values = (np.ascontiguousarray(state[name]) for name in ("nodes", "edges", "values"))
        shapes = ((len(nodes), 2), (len(edges), 2), (len(edges), 3))
        kinds = all(array.dtype == kind for array, kind in zip((nodes, edges, values), (np.int64, np.int64, float), strict=True))
        known = state["known"]
        kinds = kinds and known.dtype == np.int64
        if not kinds or (nodes.shape, edges.shape, values.shape) != shapes or known.ndim != 2 or known.shape[1] != 2:
            raise ValueError("its counts are damaged.")
        counts.declare(known)
        counts.reserve(len(nodes) + len(edges))
        if not kernels.table.rebuild(counts._table, setting.n_actions, nodes, edges, values):
            raise ValueError("its counts are damaged.")
        booked_at = state["booked_at"]
        if booked_at.shape != (1,) or booked_at.dtype != np.int64 or not 0 <= booked_at[0] <= counts.episodes:
            raise ValueError("its counts are damaged.")
        counts._booked_at = int(booked_at[0])
        if counts._pool is not None:
            move = edges[:, 0] >= setting.n_actions
            row, target, booked = edges[move, 0], edges[move, 1], values[move, 1].astype(np.int64)
            s, a = nodes[row // setting.n_actions - 1, 1], row % setting.n_actions
            flows = np.column_stack([np.zeros(len(row), np.int64), s, a, nodes[target - 1, 1], booked])
            counts._pool._record(flows[booked > 0])
        return counts

    def declare(self, known: np.ndarray) -> None:
        """Takes over what is known of pairs, rows of (s A + a, 1 if it stays where it is and 2 if it must not be played)."""
        if len(known):
            size = self.setting.n_states * self.setting.n_actions
            if ((known < [0, 1]) | (known > [size - 1, 2])).any():
                raise ValueError("what it says of known pairs is damaged.")
            self._marks().reshape(-1)[known[:, 0]] = known[:, 1]

    def copy(self) -> Counts:
        twin = Counts.__new__(Counts)
        twin.setting = self.setting
        twin._table = self._table._replace(**{k: v.copy() for k, v in self._table._asdict().items()})
        twin._pool = None if self._pool is None else self._pool.copy()
        twin._booked_at = self._booked_at
        return twin

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        if self.setting != other.setting:
            raise ValueError(f"counts of different settings cannot be added: {self.setting} and {other.setting}.")
        if float(self.transitions + other.transitions) > MOST or self.episodes + other.episodes > MOST:
            raise ValueError("the counts add up to more than 2^53, beyond which they would not be exact.")
        total, columns = self.copy(), other.columns()
        total._share_marks(other)
        if total._pool is not None:
            total._book(total._pool)
        flows = np.stack([columns[name] for name in COLUMNS], axis=1)
        total._record(flows)
        if total._pool is not None and other.transfer:
            total._add_evidence(flows, columns["evidence"])
        else:
            total._pool = None  # a part that was not scored leaves the whole without evidence
        return total

    def _share_marks(self, other: Counts) -> None:
        """Takes over what the other counts know of pairs, if the data of both agree with it."""
        if len(self._table.known) == len(other._table.known) == 0:
            return
        mine, theirs = self._marks(), other._marks()
        if ((mine != theirs) & (mine > 0) & (theirs > 0)).any():
            raise ValueError("these counts cannot be added: they disagree on what is known of their states.")
        mine[...] = np.maximum(mine, theirs)
        for counts in (self, other):
            self._check_known(np.stack([counts.columns()[name] for name in COLUMNS], axis=1))

    def _check_known(self, flows: np.ndarray) -> None:
        """Raises if transitions contradict what is known."""
        flows = flows[flows[:, 0] >= 0]
        of = self._marks()[flows[:, 1], flows[:, 2]]
        against = ((of == kernels.table.STAYS) & (flows[:, 3] != flows[:, 1])) | (of == kernels.table.ILLEGAL)
        if against.any():
            raise ValueError(f"a count leaves state {flows[against.argmax(), 1]} in a way that is known to be impossible.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.digest() == other.digest()

    __hash__ = None  # type: ignore[assignment]  # counts grow

    def __repr__(self) -> str:
        return f"Counts({self.episodes} episodes, {self.visited_pairs} pairs visited)"


class EmpiricalModel:
    """The model that counts estimate, for planning. Rows without data are uniform, as in the paper; so is an unseen start."""

    def __init__(self, counts: Counts) -> None:
        setting, c = counts.setting, counts.columns()
        self.n_states, self.n_actions = setting.n_states, setting.n_actions
        start = c["h"] == -1
        self.initial = total_by(c["next"][start], c["count"][start], self.n_states)
        self._stationary, self._horizon = setting.stationary, setting.horizon
        self._absorbing = counts.absorbing_states
        self.illegal = counts.illegal
        if self.initial.sum() == 0:
            self.initial[:] = 1.0
            if setting.initial_state is not None:
                self.initial = np.arange(self.n_states) == setting.initial_state
        self.initial = self.initial / self.initial.sum()
        pair = c["s"] * self.n_actions + c["a"]
        bounds = np.searchsorted(c["h"], np.arange(1 if setting.stationary else setting.horizon + 1))
        ends = np.append(bounds[1:], len(pair))
        self._layers = []
        for i, j in zip(bounds, ends, strict=True):
            count = c["count"][i:j].astype(float)
            n = total_by(pair[i:j], count, self.n_states * self.n_actions)
            self._layers.append((pair[i:j], c["next"][i:j], count / n[pair[i:j]], n == 0))

    def check_horizon(self, horizon: int) -> None:
        """Raises if the model does not know the transitions of that many steps."""
        if not self._stationary and horizon > self._horizon:
            raise ValueError(f"horizon is {horizon} but these counts are of {self._horizon} steps only.")

    def expect(self, h: int, V: np.ndarray) -> np.ndarray:
        """The expectation of V(s') over the successors of each pair at step h: (S,) to (S, A)."""
        pair, target, p, unvisited = self._layers[0 if self._stationary else h]
        out = total_by(pair, p * V[target], self.n_states * self.n_actions)
        out[unvisited] = V.mean()
        out = out.reshape(self.n_states, self.n_actions)
        out[self._absorbing] = V[self._absorbing, None]
        return out

    def expect_pay(self, h: int, reward: ArrivalReward) -> np.ndarray:
        """The expectation of a reward on arrival for each pair at step h: (S, A)."""
        pair, target, p, unvisited = self._layers[0 if self._stationary else h]
        out = total_by(pair, p * reward.at(h, pair, target), self.n_states * self.n_actions)
        out[unvisited] = reward.mean(h).reshape(-1)[unvisited]
        for s in self._absorbing:
            pairs = s * self.n_actions + np.arange(self.n_actions)
            out[pairs] = reward.at(h, pairs, np.full(self.n_actions, s))
        return out.reshape(self.n_states, self.n_actions)


def checked_episodes(states: ArrayLike, actions: ArrayLike, setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Episodes as (B, H+1) and (B, H) int64, every entry in range."""
    states, actions = np.asarray(states), np.asarray(actions)
    if states.ndim == 1 and actions.ndim == 1:
        states, actions = states[None], actions[None]
    H = setting.horizon
    if states.ndim != 2 or actions.ndim != 2 or states.shape != (len(actions), H + 1) or actions.shape[1] != H:
        raise ValueError(
            f"states have shape {states.shape} and actions {actions.shape}: "
            f"an episode of horizon {H} has {H + 1} states and {H} actions."
        )
    for name, values, bound in (("states", states, setting.n_states), ("actions", actions, setting.n_actions)):
        if not np.issubdtype(values.dtype, np.integer):
            raise ValueError(f"{name} are {values.dtype}: they have to be whole numbers.")
        wrong = np.argwhere((values < 0) | (values >= bound))
        if len(wrong):
            b, h = (int(i) for i in wrong[0])
            raise ValueError(f"{name}[{b}, {h}] is {values[b, h]}: {name} go from 0 to {bound - 1}.")
    left = np.argwhere(np.isin(states[:, :-1], setting.absorbing_states) & (states[:, 1:] != states[:, :-1]))
    if len(left):
        b, h = (int(i) for i in left[0])
        raise ValueError(f"episode {b} leaves state {states[b, h]} at step {h}, which the setting says is absorbing.")
    if setting.initial_state is not None and (states[:, 0] != setting.initial_state).any():
        b = int((states[:, 0] != setting.initial_state).argmax())
        raise ValueError(f"episode {b} starts in state {states[b, 0]}, not in the initial_state {setting.initial_state}.")
    return np.ascontiguousarray(states, dtype=np.int64), np.ascontiguousarray(actions, dtype=np.int64)


def total_by(index: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    """Sums of the values of each index, as floats even if there are none."""
    return np.bincount(index, values, size).astype(float)


def grown(array: np.ndarray, size: int) -> np.ndarray:
    """A copy of `array` with `size` entries along its last axis, the new ones 0."""
    # zeros come lazily from the system: room that is never used costs nothing
    bigger = np.zeros((*array.shape[:-1], size), array.dtype)
    bigger[..., : array.shape[-1]] = array
    return bigger
