"""`Counts`: how often each transition was observed. Algorithms, certificates and plans need no other data."""

from __future__ import annotations

import hashlib
import json
from copy import copy
from dataclasses import replace
from inspect import signature
from math import ceil, fsum, log
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from .._checks import checked_array
from ..setting import Setting, nearest, shown, whole_number
from ..shared_laws import draws_before
from .declarations import Declarations, marks_of
from .episodes import checked_episodes, whole_numbers
from .evidence import check_evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping

    from numpy.typing import ArrayLike

    from ..kernels.table import Table
    from ..rewards.observed import ObservedRewards
    from ..structure import Structure
    from .empirical import EmpiricalModel
    from .shared import Shared

COLUMNS = ("h", "s", "a", "next", "count")  # of the table of counts, see `Counts.columns`
DAMAGED = "its counts are"  # the beginning of error messages about a damaged file
FALSE_ALARM = 1e-6  # the probability of refusing a known distribution of the initial state that is true
LARGEST_COUNT = 2**53  # the largest count that is exact as a float


class Counts(Declarations):
    """How often each transition n(h, s, a, s') was observed in a setting.

    Counts are all the data that certificates and plans use. Make them from whole episodes, from a data frame or from a Minari
    dataset, then certify them:

        counts = Counts.from_episodes(states, actions, setting)    # (B, H+1) and (B, H) integers
        anyreward.certify(counts, delta=0.1)

    Counts of the same setting can be added, ``a + b``. Only transitions that were observed are stored.

    `columns` gives the table, one row for each observed transition. Rows with h = -1 are initial states: their `next` is the
    state in which episodes started. In a stationary setting the steps are pooled and h is 0.

    Parameters
    ----------
    setting : Setting
        The sizes and conventions of the problem.
    transfer : bool, default False
        For step-dependent settings: whether to score each transition by how well the counts of *all* steps, as they were before
        it, predicted it. The column `evidence` holds the sum of log(predicted probability) over the observations of each
        transition. The tight certificate uses it to learn from other steps; it remains valid whether or not the steps are alike
        (`docs/theory.md`, 3c). Predictions are renewed whenever the number of episodes has grown by 3%. `from_episodes` turns
        this on.

    Attributes
    ----------
    setting : Setting
    runs : int
        How many separate explorations these counts were added up from. Each was scored by its own predictions.
    numbering : Numbering or None
        How states and actions were numbered and what they are called, if it is known: errors name them by it, and an `Atlas`
        takes it over.
    paid : ObservedRewards or None
        The rewards that were observed with these counts, if any; an `Atlas` takes them over.
    taken : ndarray of int64, (M, 4)
        Actions that were taken although it is not known where they led, as rows h, s, a, times (h = 0 if stationary), from a log.
        They are part of what was done (`Atlas.behaviour`), and of nothing else.
    drawn : ndarray or None, (outcomes of all laws,)
        With a structure: how often each outcome counts for its law, if not all draws count. Calibrated certificates count the
        first draws of every law, as many as were fixed beforehand. It is set once, by those who know the order of the draws;
        further episodes do not change it, and sums and other structures do not have it.
    source : dict
        Where these counts come from, if it is known; an `Atlas` takes it over.
    table : kernels.table.Table
        The arrays that compiled code works on. They change as episodes are added and are replaced when they have to grow.
    """

    _pool: Counts | None

    def __init__(self, setting: Setting, transfer: bool = False) -> None:
        self._begin(setting, marks_of(setting).reshape(-1))
        if transfer and not setting.stationary:
            pool = self._pool = Counts.__new__(Counts)
            pool._begin(replace(setting, stationary=True, structure=None), self.table.known.copy())

    def _begin(self, setting: Setting, known: np.ndarray) -> None:
        """Begins without data, with these marks of state-action pairs."""
        self.setting = setting
        self._pool = None
        self._booked_at = 0  # the number of episodes when the predictions were last renewed
        self.runs = 1
        self.numbering = None
        self.paid: ObservedRewards | None = None
        self.taken = np.zeros((0, 4), np.int64)
        self.drawn: np.ndarray | None = None
        self.selected = False  # samples were left out for what they showed: only a certificate that allows for that is valid
        self.source: dict[str, Any] = {}
        self.outdating_declarations = 0  # increases with each declaration that makes previously computed indices out of date
        self._changes = 0  # increases with each declaration, and with counts that are added as a table
        self._remembered: tuple[Hashable, Any] = (None, None)
        self._shared: tuple[Any, Shared] | None = None  # what the laws of a structure are, with the revision that it is of
        self._model: tuple[Any, EmpiricalModel] | None = None  # likewise
        layers, M, A = setting.layers, 64, setting.n_actions
        N = min(layers * setting.n_outcomes + 1, setting.horizon + 3)
        self.table = kernels.table.Table(
            node_of=np.zeros((layers, setting.n_outcomes), np.uint32),
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
            used=np.array([1, 0, 0, 0], np.int64),  # node 0 is s_0, the extra state before a random initial state
            known=known,
            starts=setting.starts[0].astype(np.uint32),
            start_p=setting.starts[1].copy(),
        )

    def check_start(self) -> None:
        """Raises if the initial states contradict the distribution that the setting gives.

        If it is true, the likelihood of the data under a Dirichlet(1/2) mixture over all distributions on the same states,
        divided by their likelihood under it, ever reaches 1 / `FALSE_ALARM` with probability at most `FALSE_ALARM`
        (`docs/theory.md`, 1.3).
        """
        if not self.setting.initial or self.episodes == 0:
            return
        t, law = self.table, dict(self.setting.initial)
        edges = slice(int(t.first[0]), int(t.first[0]) + int(t.size[0]))
        seen = t.seen[edges]
        n, p = float(seen.sum()), np.array([law[int(s)] for s in t.state[t.target[edges]]])
        divergence = fsum(seen * np.log(seen / n / p))
        psi = float(kernels.radii.psi_size(t.seen, edges.start, int(t.size[0]), n, len(law)))
        if divergence - psi >= -log(FALSE_ALARM):
            raise ValueError(
                f"the initial states of {self.episodes:,} episodes contradict initial, the distribution that was given for them "
                "(false-alarm probability 1 in a million): correct it, or leave it out."
            )

    @classmethod
    def from_episodes(
        cls, states: ArrayLike, actions: ArrayLike, setting: Setting, quotas: Mapping[Hashable, int] | None = None
    ) -> Counts:
        """Counts of whole episodes.

            states, actions = env.rollout(policy, episodes=50)      # (50, 21) and (50, 20) integers
            counts = Counts.from_episodes(states, actions, setting)

        Parameters
        ----------
        states : array_like of int, (B, H+1) or (H+1,)
            The states of each episode, in the order in which the episodes were played.
        actions : array_like of int, (B, H) or (H,)
            The actions of each episode.
        setting : Setting
        quotas : mapping from laws to int, optional
            For calibrated certificates over the laws of a structure: how many draws of each law count, its first ones. They have
            to be fixed before these episodes.

        Returns
        -------
        Counts
            With transfer evidence if the setting depends on the step.

        Notes
        -----
        `anyreward.data.importers` says which data keep a certificate valid.
        """
        from .likelihood import check_stationary

        counts = cls(setting, transfer=True)
        states, actions = counts.checked(states, actions)
        if setting.stationary:
            h = np.broadcast_to(np.arange(actions.shape[1]), actions.shape)
            columns = h, states[:, :-1], actions, states[:, 1:], np.ones_like(actions)
            check_stationary(np.stack([column.reshape(-1) for column in columns], axis=1), setting)
        counts.add_episodes(states, actions)
        if quotas is not None:
            if setting.structure is None:
                raise ValueError("quotas are of laws of a structure, but none is declared: leave them out.")
            quota = np.array(setting.structure.by_law(quotas))
            _, code = counts.shared.revealed(states, actions)
            law = np.searchsorted(counts.shared.tables.offset, code, side="right") - 1
            kept = draws_before(law) < quota[law]
            counts.drawn = np.bincount(code[kept], minlength=len(counts.shared.told))
        return counts

    @classmethod
    def from_dataframe(cls, frame: Any, setting: Setting | None = None, **how: Any) -> Counts:
        """Counts from a log: a table with a row for each step of an episode; or from a table of transitions with numbers.

            counts = Counts.from_dataframe(df, horizon=5, episode="id", step="t", state="where", action="what", next="then",
                                           reward="paid", stationary=True)
            atlas = Atlas(counts, certify(counts))          # with the names of states and actions, and with the rewards

        Parameters
        ----------
        frame : data frame or mapping
            Anything that gives a column for a name: a data frame of pandas or Polars, a pyarrow table, a dictionary of lists.
        setting : Setting, optional
            For a table of transitions between numbered states: columns `h`, `s`, `a`, `next` and, optionally, `count` (1 if there
            is none). Steps h are 0, ..., H-1, in a stationary setting too. Rows with h = -1 give initial states in `next`, as in
            `columns`; if there are none, the states at step 0 are taken. The number of episodes is the number of initial states.
            All other arguments are for logs.
        horizon : int
            The number of steps H of the process. Episodes may be shorter or longer (`data.logs`). Rows after step H - 1 are not
            counted unless the setting is stationary, and a warning says how many they are.
        episode : str
            The column that tells which rows belong together.
        state, action : str or list of str
            The columns of the state and the action of each row. States and actions can be any hashable values: texts, numbers,
            tuples. A list names several columns that are one state, or one action, together. A last row without an action only
            says where the row before it led.
        next : str or list of str, optional
            The columns of the next state. By default it is the state of the next row of the episode; the transition of a last
            row is then not counted. Unless all episodes end with step H, the certificate assumes, and prints, that where the log
            does not tell what an action led to, that had nothing to do with what it led to.
        step : str, optional
            The column with the number of the step, consecutive whole numbers in each episode, in any order of rows. A step that
            is missing or occurs twice is refused.
        time : str, optional
            Instead of `step`: a column that only orders the rows of an episode, such as a date. Without either, the rows of an
            episode are in order.
        reward : str, optional
            The column with the reward of each row, for `Atlas.plan("own")`.
        terminated : str, optional
            The column that says, true or false, whether the action of a row terminated the episode. An episode that ends
            otherwise was cut off: nothing is assumed about what would have followed.
        terminal : {"outcome", "end", "state"}, optional
            How terminations are represented, see `Setting`. By default "outcome" if `next` is given and "end" if not; neither
            assumes anything.
        legal : str or mapping, optional
            The column with the legal actions of each row: a list of actions, a text with actions between bars such as
            `"wait|serve"`, or a list of booleans in the order of `actions`. Or a dictionary from states to lists of legal
            actions, where states that it does not name have no illegal ones.
        states, actions : list, optional
            All states and all actions that there are. **By default they are those that appear in the data, and the certificate
            assumes, and prints, that there are no others** (`docs/theory.md`, 9.4). What that means: with probability at least
            1 - delta, either there is another one or everything that is certified is true.
        max_states : int, optional
            Instead of `states`: the largest number of states that there can be. A generous number costs little.
        initial_state : optional
            The state in which every episode starts, if you know it.
        initial : mapping, optional
            The distribution of the initial state, if you know it: a dictionary from states to probabilities.
        stationary, discount, arrival_rewards
            See `Setting`.
        order : bool, default False
            Whether you know that episodes were played one after the other, in the order of their first rows (or by `time`). In
            step-dependent settings the certificate then uses transfer evidence, and prints this assumption.

        Returns
        -------
        Counts
            With `numbering`, `paid` and `source`, if they are of a log. Without transfer evidence, unless `order` is given.

        Notes
        -----
        `anyreward.data.importers` says which data keep a certificate valid.
        """
        from .importers import counts_from_dataframe
        from .logs import counts_from_log

        if isinstance(setting, Setting) and not how:
            return counts_from_dataframe(frame, setting)
        known = signature(counts_from_log).parameters
        wrong = next((name for name in how if name not in known), None)
        if wrong is not None:
            raise ValueError(f"there is no argument {shown(wrong)}{nearest(wrong, known)}.")
        if setting is not None:
            raise ValueError(f"setting is {shown(setting)}: give either a Setting, or the arguments of a log, such as horizon=5.")
        needed = next((name for name in ("horizon", "episode", "state", "action") if name not in how), None)
        if needed is not None:
            raise ValueError(
                f"{needed} is missing: a log needs horizon, episode, state and action; a table of numbers a setting."
            )
        return counts_from_log(frame, **how)

    @classmethod
    def from_minari(cls, dataset: Any, horizon: int, **options: Any) -> Counts:
        """Counts of the first `horizon` steps of every episode of a Minari dataset; of all steps, if they are stationary.

            dataset = anyreward.explore(env, horizon=20, max_episodes=100, record=True).to_minari("chain/explored-v1")
            counts = Counts.from_minari(dataset, horizon=20)

        An episode that terminates goes to an extra absorbing state, the last one. One that was truncated before the horizon was
        cut off: its transitions are counted, and nothing is assumed about what would have followed.

        Parameters
        ----------
        dataset : minari.MinariDataset or str
            The dataset or its id. Its episodes have to be in the order in which they were played.
        horizon : int
            The number of steps H of the process.
        **options
            discount, stationary, initial_state, initial, arrival_rewards, bins, max_states, state_names and action_names, as in
            `explore`; terminal, "end" or "outcome", see `Setting`.

        Returns
        -------
        Counts
            With `numbering`, `paid` and `source`.

        Notes
        -----
        `anyreward.data.importers` says which data keep a certificate valid.
        """
        from .importers import counts_from_minari

        return counts_from_minari(dataset, horizon, **options)

    @classmethod
    def from_columns(
        cls, setting: Setting, columns: Mapping[str, ArrayLike], known: np.ndarray | None = None, runs: int = 1
    ) -> Counts:
        """Counts from the columns that `columns` returns.

            Counts.from_columns(counts.setting, counts.columns()).digest() == counts.digest()

        Parameters
        ----------
        setting : Setting
        columns : mapping of str to array_like
            h, s, a, next, count and, if the transitions were scored, evidence. Evidence that no order of the transitions could
            have produced is refused (`docs/theory.md`, 9.8).
        known : ndarray of int, (M, 2), optional
            Declarations beyond the setting, in the form that `declare` takes.
        runs : int, default 1
            How many explorations were added up.
        """
        missing = [name for name in COLUMNS if name not in columns]
        if missing:
            raise ValueError(f"the column {shown(missing[0])} is missing: counts need {', '.join(COLUMNS)}.")
        parts = [whole_numbers(columns[name], name) for name in COLUMNS]
        if len({len(part) for part in parts}) > 1:
            raise ValueError(f"the columns {', '.join(COLUMNS)} of the counts have to be of equal length.")
        if whole_number(runs, "runs") < 1:
            raise ValueError(f"runs is {runs}: it has to be at least 1.")
        flows = np.stack(parts, axis=1)
        h, start = flows[:, 0], flows[:, 0] == -1
        steps = 1 if setting.stationary else setting.horizon
        for name, values, low, high in (
            ("h", h, -1, steps - 1),
            ("s", flows[:, 1], 0, setting.n_outcomes - 1),
            ("a", flows[:, 2], 0, setting.n_actions - 1),
            ("next", flows[:, 3], 0, setting.n_outcomes - 1),
            ("count", flows[:, 4], 1, LARGEST_COUNT),
        ):
            wrong = (values < low) | (values > high)
            if name in ("s", "a"):
                wrong &= ~start
            if wrong.any():
                row = int(wrong.argmax())
                raise ValueError(f"row {row} of the counts has {name} = {values[row]}: it has to be from {low} to {high}.")
        if flows[:, 4].sum(dtype=float) > LARGEST_COUNT:
            raise ValueError("the counts add up to more than 2^53, beyond which they would not be exact.")
        left = ~start & setting.stays(flows[:, 1]) & (flows[:, 3] != flows[:, 1])
        if left.any():
            raise ValueError(f"row {int(left.argmax())} of the counts leaves a state that the setting says is absorbing.")
        if (flows[start, 3] >= setting.n_states).any():
            raise ValueError(f"an initial state of the counts is out of range: it has to be from 0 to {setting.n_states - 1}.")
        setting.check_starts(flows[start, 3], "an episode")
        evidence = np.ascontiguousarray(columns.get("evidence", np.zeros(len(flows))), dtype=float)
        if evidence.shape != (len(flows),):
            raise ValueError(
                f"the column 'evidence' has shape {evidence.shape}: it needs a number for each of {len(flows)} rows."
            )
        if not (np.isfinite(evidence) & (evidence <= 0)).all():
            row = int((~(np.isfinite(evidence) & (evidence <= 0))).argmax())
            raise ValueError(
                f"row {row} of the counts has evidence {evidence[row]}: a log probability is finite and not positive."
            )
        counts = cls(setting, transfer="evidence" in columns)
        if known is not None:
            counts.declare(known)
        counts._check_known(flows)
        counts.add_flows(flows)
        if counts._pool is not None:
            counts.runs = runs
            check_evidence(flows, evidence, setting, merged=counts.runs > 1)
            counts._add_evidence(flows, evidence)
        return counts

    def reserve(self, records: int) -> None:
        """Makes room for that many more records, whichever states they visit."""
        t = self.table
        most = t.node_of.size + 1
        nodes = min(most, int(t.used[0]) + 2 * records)
        edges = int(t.used[1]) + kernels.table.edges_needed(t.used, records)
        if nodes > len(t.state):
            size = min(most, max(nodes, 2 * len(t.state)))
            rows = {name: enlarged(getattr(t, name), size * self.setting.n_actions) for name in ("n", "first", "size", "room")}
            t = t._replace(state=enlarged(t.state, size), following=enlarged(t.following, size), **rows)
        if edges > len(t.target):
            size = max(edges, 2 * len(t.target))
            t = t._replace(**{name: enlarged(getattr(t, name), size) for name in ("target", "seen", "booked", "evidence")})
        self.table = t

    def make_room(self, episodes: int, until: int) -> int:
        """Makes room for so many more episodes; returns how many there may be until the predictions have to be renewed, or until
        there are `until` in all; one at least.
        """
        self.reserve(episodes * (self.setting.horizon + 1))
        return min(self.until_booking, max(1, until - self.episodes))

    def add_episodes(self, states: np.ndarray, actions: np.ndarray) -> None:
        """Adds episodes that `checked` has returned: states (B, H+1) and actions (B, H), int64.

        Example:

            counts.add_episodes(*counts.checked(states, actions))
        """
        i = 0
        while i < len(states):
            step = min(256, self.until_booking)
            self.reserve(step * states.shape[1])
            part = states[i : i + step], actions[i : i + step]
            kernels.table.record_episodes(self.table, self.setting.n_actions, *part)
            self.book_if_due()
            i += step

    def add_flows(self, flows: np.ndarray, chunk: int = 1024) -> None:
        """Adds rows of (h, s, a, next, count), (M, 5)."""
        self._changes += 1
        for i in range(0, len(flows), chunk):
            part = np.ascontiguousarray(flows[i : i + chunk].T)
            self.reserve(len(part[0]))
            kernels.table.record_flows(self.table, self.setting.n_actions, *part)

    @property
    def transfer(self) -> bool:
        """Whether transitions are scored by predictions from the counts of all steps."""
        return self._pool is not None

    @property
    def until_booking(self) -> int:
        """The number of episodes until the predictions have to be renewed."""
        if self._pool is None:
            return 2**62
        return max(1, ceil(1.03 * self._booked_at) - self.episodes)

    def book_if_due(self) -> None:
        """If predictions are due to be renewed: scores the transitions since the last renewal and pools them."""
        if self._pool is not None and self.episodes >= max(self._booked_at + 1, ceil(1.03 * self._booked_at)):
            self._book(self._pool)

    def _book(self, pool: Counts) -> None:
        """Scores the transitions since the last renewal by the pooled counts, then adds them to the pooled counts."""
        pool.add_flows(kernels.table.book(self.table, self.setting.n_actions, self.scores()))
        self._booked_at = self.episodes

    def _add_evidence(self, flows: np.ndarray, evidence: np.ndarray) -> None:
        """Adds the given scores of transitions that were just recorded. All other transitions must have been scored already."""
        assert self._pool is not None
        kernels.table.add_evidence(self.table, self.setting.n_actions, *np.ascontiguousarray(flows[:, :4].T), evidence)
        moves = flows[flows[:, 0] >= 0]
        self._pool.add_flows(np.column_stack([np.zeros(len(moves), np.int64), moves[:, 1:]]))
        self._booked_at, self._remembered = self.episodes, (None, None)

    def scores(self) -> np.ndarray:
        """The evidence of each edge of the table, unscored transitions scored by the present predictions; empty
        without transfer.
        """
        if self._pool is None:
            return np.zeros(0)
        out = np.zeros(len(self.table.seen))
        kernels.table.scores(self.table, self._pool.table, self.setting.n_actions, self.setting.n_outcomes, out)
        return out

    def remembered(self, key: Hashable, new: Any) -> Any:
        """The named tuple of arrays with an entry for each row that was kept here under `key`, fitted to the table, or `new`.

        It is for what can be computed from these counts alone, and row by row, so that only rows with new observations have to be
        computed again. What was kept under another key is forgotten.
        """
        old, kept = self._remembered
        if old == key:
            new = kept if len(kept[0]) == len(self.table.n) else self.fitted(kept, rows=kept._fields)
        self._remembered = key, new
        return new

    @property
    def capacity(self) -> int:
        """How many nodes the table has room for."""
        return len(self.table.state)

    def fitted(self, arrays: Any, rows: Collection[str], nodes: Collection[str] = ()) -> Any:
        """A named tuple of arrays with as much room as the table; new entries are 0.

        Parameters
        ----------
        arrays : NamedTuple of ndarray
        rows : collection of str
            The fields whose last axis has an entry for each row of the table, a node with an action.
        nodes : collection of str
            The fields whose last axis has an entry for each node. Other fields stay as they are.
        """
        N, A = self.capacity, self.setting.n_actions
        sizes = {**dict.fromkeys(rows, N * A), **dict.fromkeys(nodes, N)}
        return arrays._replace(**{name: enlarged(getattr(arrays, name), size) for name, size in sizes.items()})

    def fitted_each(self, *parts: tuple[Any, Collection[str], Collection[str]]) -> tuple[Any, ...]:
        """`fitted` for several named tuples of arrays, each with its fields of rows and of nodes."""
        return tuple(self.fitted(*part) for part in parts)

    @property
    def n_nodes(self) -> int:
        """The number of nodes in the table: s_0, and one for each visited (step, state), or state if the steps are pooled."""
        return int(self.table.used[kernels.table.NODES])

    @property
    def episodes(self) -> int:
        """The number of episodes."""
        return int(self.table.used[2])

    @property
    def revision(self) -> tuple[int, int]:
        """A value that changes whenever these counts do, by episodes or by declarations: a key for results computed from them."""
        return self.episodes, self._changes

    @property
    def transitions(self) -> int:
        """The number of transitions, without the draws of initial states."""
        return int(self.table.n[self.setting.n_actions :].sum())

    @property
    def visited_pairs(self) -> int:
        """The number of visited (h, s, a), or (s, a) if stationary, without absorbing states, where no action is taken."""
        table, A = self.table, self.setting.n_actions
        played = table.n[A:] > 0
        if len(table.known):
            played &= (self._marks()[table.state] != kernels.table.STAYS).reshape(-1)[A:]
        return int(np.count_nonzero(played))

    @property
    def widest_pair(self) -> tuple[int, int, int]:
        """A state and an action with the largest number of different successors that were observed, and that number."""
        A = self.setting.n_actions
        row = A + int(self.table.size[A:].argmax())
        return int(self.table.state[row // A]), row % A, int(self.table.size[row])

    def columns(self) -> dict[str, np.ndarray]:
        """The table of counts in a fixed order.

            table = pandas.DataFrame(counts.columns())      # one row for each transition that was seen

        Returns
        -------
        dict of str to ndarray
            Columns h, s, a, next, count and, with transfer, evidence, all of the same length. Rows with h = -1 are initial
            states.
        """
        A = self.setting.n_actions
        flows = kernels.table.flows(self.table, A)
        columns = dict(zip(COLUMNS, np.ascontiguousarray(flows[np.lexsort(flows[:, 3::-1].T)].T), strict=True))
        if self._pool is not None:
            columns["evidence"] = np.zeros(len(flows))
            edges = [columns[name] for name in COLUMNS[:4]]
            kernels.table.flow_evidence(self.table, A, self.scores(), *edges, columns["evidence"])
        return columns

    @property
    def shared(self) -> Shared:
        """The counts of the laws of a declared structure. Raises if a transition is impossible under it."""
        from .shared import Shared

        now = (*self.revision, self.transitions, None if self.drawn is None else self.drawn.tobytes())
        if self._shared is None or self._shared[0] != now:
            self._shared = now, Shared(self)
        return self._shared[1]

    @property
    def model_table(self) -> Table:
        """The table that estimates are read from: that of the counts or, with a structure, that of its laws (`data.shared`)."""
        return self.table if self.setting.structure is None else self.shared.table

    def with_structure(self, structure: Structure | None) -> Counts:
        """The same data under a declared structure, or, with None, without one.

            anyreward.certify(counts.with_structure(env.structure)).epsilon

        A structure whose laws do not depend on the step pools the steps. Raises if a transition is impossible under it.

        Parameters
        ----------
        structure : Structure or None
        """
        setting = replace(self.setting, structure=None)
        if structure is not None:
            if not hasattr(structure, "step_dependent"):
                raise ValueError(f"structure is {shown(structure)}: it has to be a Structure.")
            stationary = setting.stationary and not structure.step_dependent
            setting = replace(setting, structure=structure, stationary=stationary)  # type: ignore[arg-type]
        columns, pooled = self.columns(), setting.stationary and not self.setting.stationary
        if self.setting.stationary and not setting.stationary:
            raise ValueError("structure has laws that depend on the step, but these counts are pooled over the steps.")
        if pooled:
            keys = np.stack([np.minimum(columns["h"], 0), *(columns[name] for name in COLUMNS[1:4])])
            keys, place = np.unique(keys, axis=1, return_inverse=True)
            many = np.bincount(place.reshape(-1), columns["count"], keys.shape[1]).astype(np.int64)
            columns = dict(zip(COLUMNS, (*keys, many), strict=True))
        twin = Counts.from_columns(setting, columns, self.declarations(), self.runs)
        twin.numbering, twin.source, twin.selected = self.numbering, self.source, self.selected
        twin.paid, twin.taken = (None if pooled else self.paid), self.taken * ([0, 1, 1, 1] if pooled else 1)
        if structure is not None:
            twin.shared  # noqa: B018  # raises if it is impossible
        return twin

    def n(self) -> np.ndarray:
        """Visits of every state-action pair as a dense array, (H, S, A), or (S, A) if stationary: for inspection.

        Example:

            counts.n()[0, 15]                               # how often each action was taken at step 0 in state 15
        """
        c = self.columns()
        steps = 1 if self.setting.stationary else self.setting.horizon
        n = np.zeros((steps, self.setting.n_states, self.setting.n_actions), np.int64)
        move = (c["h"] >= 0) & (c["s"] < self.setting.n_states)
        np.add.at(n, (c["h"][move], c["s"][move], c["a"][move]), c["count"][move])
        return n[0] if self.setting.stationary else n

    def visits_of(self, h: np.ndarray, s: np.ndarray, a: np.ndarray) -> np.ndarray:
        """How often each of these actions was taken at each of these steps and states; at any step if stationary."""
        S, A, columns = self.setting.n_outcomes, self.setting.n_actions, self.columns()
        moves = columns["h"] >= 0
        keys = ((columns["h"] * S + columns["s"]) * A + columns["a"])[moves]  # in order
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        if not len(first):
            return np.zeros(np.broadcast_shapes(np.shape(h), np.shape(s), np.shape(a)), np.int64)
        keys, many = keys[first], np.add.reduceat(columns["count"][moves], first)
        wanted = ((0 if self.setting.stationary else h * S) + s) * A + a
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, many[place], 0)

    def state_visits(self) -> np.ndarray:
        """How many transitions started in each state, over all steps, (S,).

            (counts.state_visits() > 0).sum()               # how many states were seen

        The steps that an episode spends in a state after terminating there count too.
        """
        c = self.columns()
        move = c["h"] >= 0
        return np.bincount(c["s"][move] % self.setting.n_states, c["count"][move], self.setting.n_states).astype(np.int64)

    def model(self) -> EmpiricalModel:
        """The empirical model: p_hat = n(h, s, a, s') / n(h, s, a), uniform where there are no data."""
        from .empirical import EmpiricalModel

        now = (*self.revision, self.transitions)
        if self._model is None or self._model[0] != now:
            self._model = now, EmpiricalModel(self)
        return self._model[1]

    def digest(self) -> str:
        """A SHA-256 fingerprint of the setting, all counts, their evidence and the declarations.

        Example:

            counts.digest() == counts.copy().digest()
        """
        sha = hashlib.sha256(json.dumps(self.setting.identity(), sort_keys=True).encode())
        for name, column in self.columns().items():
            sha.update(np.ascontiguousarray(column, dtype="<f8" if name == "evidence" else "<i8").tobytes())
        if len(self.table.known):
            marked = np.flatnonzero(self.table.known != self._blank)
            sha.update(marked.astype("<i8").tobytes() + bytes(self.table.known[marked]))
        if self.drawn is not None:
            sha.update(b"drawn" + self.drawn.astype("<i8").tobytes())
        return sha.hexdigest()

    def state(self) -> dict[str, np.ndarray]:
        """The complete state as arrays, for `from_state`.

        It includes the order in which nodes were discovered, because the last bit of a floating-point sum depends on that order.
        """
        nodes, edges, values = kernels.table.layout(self.table, self.setting.n_actions)
        return {
            "nodes": nodes,
            "edges": edges,
            "values": values,
            "booked_at": np.array([self._booked_at]),
            "known": self.declarations(),
        }

    @classmethod
    def from_state(cls, setting: Setting, state: dict[str, np.ndarray], transfer: bool) -> Counts:
        """The counts that `state` was taken from. Arrays that are not such a state are refused."""
        counts = cls(setting, transfer)
        nodes, edges = (checked_array(state[name], np.int64, (None, 2), DAMAGED, 0) for name in ("nodes", "edges"))
        values = checked_array(state["values"], float, (len(edges), 3), DAMAGED)
        counts.declare(checked_array(state["known"], np.int64, (None, 2), DAMAGED, 0))
        counts.reserve(len(nodes) + len(edges))
        if not kernels.table.rebuild(counts.table, setting.n_actions, nodes, edges, values):
            raise ValueError(f"{DAMAGED} damaged.")
        counts._booked_at = int(checked_array(state["booked_at"], np.int64, (1,), DAMAGED, 0, counts.episodes)[0])
        if counts._pool is not None:
            move = edges[:, 0] >= setting.n_actions
            row, target, booked = edges[move, 0], edges[move, 1], values[move, 1].astype(np.int64)
            s, a = nodes[row // setting.n_actions - 1, 1], row % setting.n_actions
            flows = np.column_stack([np.zeros(len(row), np.int64), s, a, nodes[target - 1, 1], booked])
            counts._pool.add_flows(flows[booked > 0])
        return counts

    @property
    def declared(self) -> tuple[str, ...]:
        """The declarations beyond the setting, as phrases: assumptions that certificates print."""
        said = self._declared_marks() if len(self.table.known) else []
        if self.setting.structure is not None and self.shared.refuted:
            said.append(
                "THE DATA CONTRADICT THE STRUCTURE, so that nothing is certified (if it were true, this would happen with "
                f"probability at most 1e-6; the e-value is 10^{self.shared.log_evidence / log(10):.1f})"
            )
        return tuple(said)

    def described(self, *assumed: str) -> dict[str, Any]:
        """What a certificate says of its counts: its fields `setting`, `episodes`, `digest` and `assumed`.

        The latter are what was declared, and further assumptions if there are any.

        Example:

            counts.described()["episodes"] == counts.episodes
        """
        said = (*self.declared, *assumed)
        return {"setting": self.setting, "episodes": self.episodes, "digest": self.digest(), "assumed": said}

    def copy(self) -> Counts:
        """An independent copy.

        Example:

            before = counts.copy()
        """
        twin = Counts.__new__(Counts)
        twin.setting = self.setting
        twin.table = self.table._replace(**{k: v.copy() for k, v in self.table._asdict().items()})
        twin._pool = None if self._pool is None else self._pool.copy()
        twin._booked_at = self._booked_at
        twin.runs, twin.outdating_declarations, twin._changes = (
            self.runs,
            self.outdating_declarations,
            self._changes,
        )
        twin.numbering, twin.paid, twin.taken, twin.source = self.numbering, self.paid, self.taken, self.source
        twin.drawn, twin.selected = self.drawn, self.selected
        twin._shared, twin._model, twin._remembered = None, None, (None, None)
        return twin

    def in_order(self) -> Counts:
        """These counts with the successors of each pair in order: what is computed then does not depend on which came first.

        It is for reading: everything else is shared with these.
        """
        twin, table = copy(self), self.table
        twin.table = table._replace(
            target=table.target.copy(), seen=table.seen.copy(), booked=table.booked.copy(), evidence=table.evidence.copy()
        )
        kernels.table.put_in_order(twin.table, self.setting.n_actions)
        twin._remembered = None, None
        if self.setting.estimates_start:  # the first row of the tables that are kept
            twin._shared = twin._model = None
        return twin

    def __add__(self, other: Counts) -> Counts:
        """The counts of both, which must have the same setting. If one of them has no transfer evidence, neither has the sum."""
        if not isinstance(other, Counts):
            return NotImplemented
        if self.setting != other.setting:
            raise ValueError(f"counts of different settings cannot be added: {self.setting} and {other.setting}.")
        if float(self.transitions + other.transitions) > LARGEST_COUNT or self.episodes + other.episodes > LARGEST_COUNT:
            raise ValueError("the counts add up to more than 2^53, beyond which they would not be exact.")
        if None not in (self.numbering, other.numbering) and self.numbering != other.numbering:
            raise ValueError(
                "these counts cannot be added: their states or actions were numbered differently. For logs, list all states in "
                "states= and all actions in actions=."
            )
        total, columns = self.copy(), other.columns()
        total.paid, total.source = None if self.paid is None or other.paid is None else self.paid + other.paid, {}
        total.taken = np.concatenate([self.taken, other.taken])
        total.numbering = self.numbering or other.numbering
        total.drawn, total.selected = None, self.selected or other.selected
        total._share_marks(other)
        total.runs += other.runs
        if total._pool is not None:
            total._book(total._pool)
        flows = np.stack([columns[name] for name in COLUMNS], axis=1)
        total.add_flows(flows)
        if total._pool is not None and other.transfer:
            total._add_evidence(flows, columns["evidence"])
        else:
            total._pool = None  # if a part was not scored, the whole has no evidence
        return total

    def _share_marks(self, other: Counts) -> None:
        """Takes over the marks of other counts. Raises if the marks or the data of the two contradict each other."""
        if len(self.table.known) == len(other.table.known) == 0:
            return
        mine, theirs, blank = self._marks(), other._marks(), self._fresh_marks()
        if ((mine != theirs) & (mine != blank) & (theirs != blank)).any():
            raise ValueError("these counts cannot be added: their declarations about states contradict each other.")
        pairs = ((self, other), (other, self)) if self.setting.terminal == "state" else ()
        for one, two in pairs:  # a state that one of them takes for terminal must not have been visited by the other
            ended = np.setdiff1d(one.absorbing_states, two.absorbing_states)
            if two.table.node_of[:, ended].any():
                s = ended[two.table.node_of[:, ended].any(axis=0).argmax()]
                raise ValueError(
                    self.named(f"these counts cannot be added: in one of them state {s} is terminal, in the other it is not.")
                )
        mine[...] = np.where(mine == blank, theirs, mine)
        for counts in (self, other):
            self._check_known(np.stack([counts.columns()[name] for name in COLUMNS], axis=1))

    def checked(self, states: ArrayLike, actions: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Episodes as (B, H+1) and (B, H) int64. Raises if they do not fit the setting or contradict a declaration."""
        states, actions = checked_episodes(states, actions, self.setting, self.named)
        if len(self.table.known) and len(states):
            s, s_next = states[:, :-1].reshape(-1), states[:, 1:].reshape(-1)
            self._check_marks(s, actions.reshape(-1), s_next, self._marks()[s, actions.reshape(-1)])
            self._check_met(states)
        if self.setting.structure is not None:
            self._check_structure(states, actions)
        return states, actions

    def _check_structure(self, states: np.ndarray, actions: np.ndarray) -> None:
        """Raises if a transition of episodes is impossible under the declared structure."""
        from .shared import impossible_transition

        laws = self.setting.structure
        assert laws is not None
        S, A = laws.n_states, laws.n_actions
        s, a, then = states[:, :-1], actions, states[:, 1:]
        h = np.arange(a.shape[1]) if laws.step_dependent else 0
        key = ((h * S + s) * A + a) * S + then
        known = np.append(laws.edge_keys, -1)  # there may be none at all
        impossible = known[np.searchsorted(laws.edge_keys, key)] != key
        if len(self.table.known):
            impossible &= self._marks()[s, a] & (kernels.table.STAYS | kernels.table.ILLEGAL) == 0
        if impossible.any():
            b, i = np.argwhere(impossible)[0]
            raise ValueError(self.named(impossible_transition(s[b, i], a[b, i], then[b, i])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.digest() == other.digest()

    __hash__ = None  # type: ignore[assignment]  # counts are mutable

    def __repr__(self) -> str:
        return f"Counts({self.episodes} episodes, {self.visited_pairs} pairs visited)"


def enlarged(array: np.ndarray, size: int) -> np.ndarray:
    """A copy of `array` with `size` entries along its last axis; the new ones are 0."""
    # The operating system provides zeroed pages only when they are first used, so unused room costs no memory.
    bigger = np.zeros((*array.shape[:-1], size), array.dtype)
    bigger[..., : array.shape[-1]] = array
    return bigger
