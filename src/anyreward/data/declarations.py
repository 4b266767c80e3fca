"""What is known of states and actions beside the counts: which states are absorbing, and which actions are illegal.

Each state-action pair has a mark in the table of counts (`kernels.table`). The setting gives the first marks; others are declared
later, on the way of an exploration for example. Observations that contradict a mark are refused, and so are marks that contradict
observations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import kernels
from ..setting import Setting, as_list, listed, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..kernels.table import Table
    from ..shared_laws import SharedLaws
    from .numbering import Numbering


def marks_of(setting: Setting) -> np.ndarray:
    """The marks that a setting gives to state-action pairs, (n_outcomes, A); of shape (0, A) if it says nothing of any."""
    if not (setting.hidden_masks or setting.terminal == "outcome" or setting.absorbing_states or setting.illegal_actions):
        return np.zeros((0, setting.n_actions), np.uint8)
    marks = np.zeros((setting.n_outcomes, setting.n_actions), np.uint8)
    if setting.hidden_masks:
        marks[: setting.n_states] = kernels.table.UNSURE
    if setting.terminal == "outcome":
        marks[setting.n_states :] = kernels.table.STAYS
    if setting.absorbing_states:
        marks[list(setting.absorbing_states)] = kernels.table.STAYS
    if setting.illegal_actions:
        marks[*np.array(setting.illegal_actions).T] = kernels.table.ILLEGAL
        if setting.hidden_masks:  # a state that the setting gives illegal actions for is thereby fully declared
            for s in {s for s, _ in setting.illegal_actions}:
                marks[s] &= kernels.table.ILLEGAL
    return marks


class Declarations:
    """The part of `Counts` that knows which states are absorbing and which actions are illegal."""

    setting: Setting
    table: Table
    numbering: Numbering | None
    outdating_declarations: int
    _changes: int
    columns: Callable[[], dict[str, np.ndarray]]

    def named(self, text: str) -> str:
        """A sentence with the names of the states and actions that it mentions by their numbers, as far as they have any."""
        return text if self.numbering is None else self.numbering.names_in(text)

    def declare_absorbing(self, states: Iterable[int]) -> None:
        """Declares states to be absorbing that the setting does not list: their transitions need not be estimated any more.

            counts = Counts(setting)
            counts.declare_absorbing([30])                  # the last state is never left

        It is meant for what an environment reveals during exploration, such as the observations in which its episodes terminate.
        It is an assumption, which certificates print. A state that was already observed to be left is refused, and so are later
        episodes that leave it.

        Parameters
        ----------
        states : iterable of int
        """
        chosen = [self._checked_state(s) for s in as_list(states, "the states of declare_absorbing")]
        if not chosen:
            return
        rows = []
        for s in chosen:
            # Actions that the setting lists as illegal stay illegal: no policy uses them, even if the state is terminal.
            given = {a for x, a in self.setting.illegal_actions if x == s}
            if set(np.flatnonzero(self._marks()[s] == kernels.table.ILLEGAL).tolist()) - given:
                raise ValueError(self.named(f"state {s} has declared illegal actions, so it cannot be declared absorbing."))
            rows.append([kernels.table.ILLEGAL if a in given else kernels.table.STAYS for a in range(self.setting.n_actions)])
            self._check_state(s, np.array(rows[-1], np.uint8))
            if self.setting.structure is not None and s not in self.setting.absorbing_states:
                self._check_end(s, self.setting.structure)
        self._note(chosen, np.array(rows, np.uint8))

    def _check_end(self, s: int, laws: SharedLaws) -> None:
        """Raises if episodes terminate in a state that can be left by the declared structure."""
        first, target, A = laws.tables.edge_first, laws.tables.edge_target, self.setting.n_actions
        for pair in range(s * A, len(laws.law_of), self.setting.n_states * A):
            if (target[first[pair] : first[pair + A]] != s).any():
                raise ValueError(
                    self.named(
                        f"episodes terminate in state {s}, which can be left by the structure: let its only successor be itself, "
                        "whatever the action."
                    )
                )

    def declare_illegal(self, state: int, actions: Iterable[int]) -> None:
        """Declares which actions are illegal in a state; all others are legal. Certificates and plans do not use illegal actions.

            counts = Counts(setting)
            counts.declare_illegal(0, [0])                  # nobody can move left at the left end

        If the setting has `hidden_masks`, every state has to be declared before its first visit, with an empty list if all
        actions are legal. A declaration that contradicts an earlier one, or observed transitions, is refused.

        Parameters
        ----------
        state : int
        actions : iterable of int
            The illegal actions. At least one action has to remain legal.
        """
        state = self._checked_state(state)
        forbidden = sorted({whole_number(a, "an action") for a in as_list(actions, "the actions of declare_illegal")})
        A = self.setting.n_actions
        if forbidden and not 0 <= forbidden[0] <= forbidden[-1] < A:
            raise ValueError(self.named(f"the illegal actions of state {state} are {forbidden}: actions go from 0 to {A - 1}."))
        if len(forbidden) == A:
            raise ValueError(self.named(f"every action would be illegal in state {state}: at least one has to be legal."))
        row = np.zeros(A, np.uint8)
        row[forbidden] = kernels.table.ILLEGAL
        before = self._marks()[state]
        if (before == kernels.table.STAYS).any():
            if forbidden:
                raise ValueError(self.named(f"state {state} is absorbing: no action can be declared illegal there."))
            return
        settled = self.setting.hidden_masks and not (before == kernels.table.UNSURE).any()
        if (settled and (before != row).any()) or ((before == kernels.table.ILLEGAL) & (row == 0)).any():
            raise ValueError(
                self.named(f"the illegal actions of state {state} were declared differently before: they cannot change.")
            )
        self._check_state(state, row)
        self._note([state], row)

    def declare(self, known: np.ndarray) -> None:
        """Applies marks of state-action pairs, as `declarations` gives them.

        Parameters
        ----------
        known : ndarray of int, (M, 2)
            Rows (s A + a, mark). Mark 1: the pair is absorbing; 2: it is illegal; 0: it is legal, which is for settings with
            `hidden_masks` only, where a pair is unknown otherwise.
        """
        if not len(known):
            return
        A, hidden = self.setting.n_actions, self.setting.hidden_masks
        size = self.setting.n_outcomes * A
        if ((known < [0, 0 if hidden else 1]) | (known > [size - 1, 2])).any():
            raise ValueError("its declarations about state-action pairs are damaged.")
        before, marks = self._marks().reshape(-1), self._marks().reshape(-1).copy()
        marks[known[:, 0]] = known[:, 1]
        taken_back = (before != marks) & (before != self._fresh_marks().reshape(-1))
        rows = marks.reshape(-1, A)
        part = (rows == kernels.table.UNSURE).any(axis=1) & (rows != kernels.table.UNSURE).any(axis=1)
        stays = rows == kernels.table.STAYS
        part |= stays.any(axis=1) & ~(stays | (rows == kernels.table.ILLEGAL)).all(axis=1)
        if taken_back.any() or part.any() or (rows == kernels.table.ILLEGAL).all(axis=1).any():
            raise ValueError("its declarations about state-action pairs are damaged.")
        before[:] = marks
        self._changes += 1

    def _checked_state(self, state: Any) -> int:
        """A state number as an int. Raises if there is no such state."""
        number = whole_number(state, "a state")
        if not 0 <= number < self.setting.n_states:
            raise ValueError(f"a declaration names state {number}: states go from 0 to {self.setting.n_states - 1}.")
        return number

    def _note(self, states: list[int], row: np.ndarray) -> None:
        """Writes marks (len(states), A) or (A,) into the table, and notes whether indices that exist already are now out of date.

        With `hidden_masks`, an index allows for every possible mask of an unvisited state, so a declaration about one does not
        outdate it.
        """
        met = self.table.node_of[:, states].any() or not self.setting.hidden_masks
        self.outdating_declarations += bool(met and (self._marks()[states] != row).any())
        self._marks()[states] = row
        self._changes += 1

    def _check_state(self, s: int, row: np.ndarray) -> None:
        """Raises if an observed transition from state s contradicts the marks (A,) of its state-action pairs."""
        if self.table.node_of[:, s].any():
            flows = kernels.table.flows(self.table, self.setting.n_actions)
            flows = flows[(flows[:, 0] >= 0) & (flows[:, 1] == s)]
            self._check_marks(flows[:, 1], flows[:, 2], flows[:, 3], row[flows[:, 2]])

    def _marks(self) -> np.ndarray:
        """A writable view of the marks of all state-action pairs, (n_outcomes, A); see `kernels.table` for their meaning."""
        S, A = self.setting.n_outcomes, self.setting.n_actions
        if len(self.table.known) == 0:
            self.table = self.table._replace(known=np.zeros(S * A, np.uint8))
        return self.table.known.reshape(S, A)

    @property
    def absorbing_states(self) -> np.ndarray:
        """The states that are known to be absorbing. The terminations of `terminal="outcome"` are not among them (`stays`)."""
        stays = self.stays()
        return stays[stays < self.setting.n_states]

    def stays(self) -> np.ndarray:
        """The outcomes that are known to be absorbing, including terminations."""
        known = self.table.known.reshape(-1, self.setting.n_actions)
        return np.flatnonzero((known == kernels.table.STAYS).any(axis=1))

    @property
    def illegal(self) -> np.ndarray:
        """Which state-action pairs are illegal, (S, A) booleans; of shape (0, A) if there are none."""
        illegal = self.table.known.reshape(-1, self.setting.n_actions)[: self.setting.n_states] == kernels.table.ILLEGAL
        return illegal if illegal.any() else illegal[:0]

    def is_unsure(self, state: int) -> bool:
        """Whether it is still unknown which actions are legal in a state."""
        return bool(len(self.table.known) and self._marks()[state, 0] == kernels.table.UNSURE)

    def known_rows(self) -> np.ndarray:
        """For each row of the table, whether it needs no estimate: its pair is absorbing or illegal, or the start is known."""
        t, A = self.table, self.setting.n_actions
        known = np.zeros(len(t.n), bool)
        if len(t.known):
            known = t.known.reshape(-1, A)[t.state].reshape(-1) & (kernels.table.STAYS | kernels.table.ILLEGAL) != 0
        known[:A] = not self.setting.estimates_start  # node 0 is not a state: its row holds the initial states
        return known

    def _fresh_marks(self) -> np.ndarray:
        """The marks that the setting alone gives, (n_outcomes, A)."""
        marks = marks_of(self.setting)
        return marks if len(marks) else np.zeros((self.setting.n_outcomes, self.setting.n_actions), np.uint8)

    @property
    def _blank(self) -> int:
        """The mark of a pair about which nothing is known."""
        return kernels.table.UNSURE if self.setting.hidden_masks else 0

    def declarations(self) -> np.ndarray:
        """All declared or given marks of state-action pairs, as rows (s A + a, mark) for `declare`: (M, 2)."""
        marked = np.flatnonzero(self.table.known != self._blank)
        return np.stack([marked, self.table.known[marked].astype(np.int64)], axis=1)

    def _declared_marks(self) -> list[str]:
        """The declarations beyond the setting, as phrases."""
        setting, said = self.setting, []
        stays = np.setdiff1d(self.absorbing_states, setting.absorbing_states)
        # What the environment itself reveals in a visited state is covered by an assumption of the setting: not printed again.
        if setting.terminal == "state" and len(stays):
            stays = np.setdiff1d(stays, self._met())
        if len(stays):
            said.append(f"never left, as declared: {listed('state', stays.tolist())}")
        given = {s * setting.n_actions + a for s, a in setting.illegal_actions}
        illegal = np.unique([pair // setting.n_actions for pair in np.flatnonzero(self.illegal) if int(pair) not in given])
        if setting.hidden_masks and len(illegal):
            illegal = np.setdiff1d(illegal, self._met())
        if len(illegal):
            said.append(f"illegal actions as declared: in {listed('state', illegal.tolist())}")
        return said

    def _met(self) -> np.ndarray:
        """The states that some episode visited, including its last one."""
        columns = self.columns()
        return np.unique(np.concatenate([columns["s"][columns["h"] >= 0], columns["next"]]))

    def _check_marks(self, s: np.ndarray, a: np.ndarray, s_next: np.ndarray, marks: np.ndarray) -> None:
        """Raises if transitions contradict the marks of their state-action pairs. All four arrays have the same length."""
        against = ((marks == kernels.table.STAYS) & (s_next != s)) | (marks == kernels.table.ILLEGAL)
        if against.any():
            i = int(against.argmax())
            what = "is illegal" if marks[i] == kernels.table.ILLEGAL else "never leaves that state"
            raise ValueError(
                self.named(
                    f"a transition leads from state {s[i]} with action {a[i]} to state {s_next[i]}, which is known to be "
                    f"impossible: the action {what}."
                )
            )

    def _check_met(self, states: np.ndarray) -> None:
        """Raises if the legal actions of one of these visited states were never declared."""
        unsure = self._marks()[states, 0] == kernels.table.UNSURE
        if unsure.any():
            s = int(states.reshape(-1)[unsure.argmax()])
            raise ValueError(
                self.named(
                    f"state {s} was visited, but its illegal actions were never declared: "
                    f"call declare_illegal({s}, [...]) first, with an empty list if all actions are legal."
                )
            )

    def _check_known(self, flows: np.ndarray) -> None:
        """Raises if transitions (M, 5) contradict the marks."""
        if not len(self.table.known):
            return
        marks, moves = self._marks(), flows[flows[:, 0] >= 0]
        self._check_marks(moves[:, 1], moves[:, 2], moves[:, 3], marks[moves[:, 1], moves[:, 2]])
        self._check_met(flows[:, 3])
