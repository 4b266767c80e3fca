"""What could be assumed of an environment if it is known, and how much it would help: suggestions for a person who knows.

Nothing here is chosen, and nothing is certified. Three assumptions make certificates much smaller: that transitions do not depend
on the step (`stationary=True`), that every episode starts in the same state (`initial_state=s`), and that the environment is
deterministic (`deterministic=True`). Data can speak against an assumption, but never prove it. So whether one is made is up to
the user, and for a reason that is not these data; one that the data speak against is not suggested. What an assumption would save
is seen by computing the bound for the same counts once more, as if it had been made. That is an estimate of what another
exploration would reach: no certificate, and no statement with a probability.

Evidence against stationarity is that of `data.likelihood`; the suggestion is withheld if that test or the audit's own would warn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..atlas.atlas import Atlas
from ..certificates.certificate import Certificate, certify
from ..data.counts import COLUMNS, Counts
from ..data.likelihood import ALARM, log_evidence_by_step, p_value
from .forecast import episodes_for, in_words, is_low

WORTH = 0.98  # the share of epsilon that has to be left at most for an assumption to be worth mentioning


@dataclass(frozen=True)
class Suggestion:
    """An assumption that would make a certificate smaller, if it is known to be true. `str` says so in a sentence."""

    arguments: dict[str, Any]  # of `explore`, or of the importer of a log
    known: str  # what has to be known
    instead: float  # the epsilon without it
    epsilon: float | None = None  # of the same counts, had it been assumed; None if they would say nothing, or do not tell

    @property
    def argument(self) -> str:
        """The arguments as they are written in a call."""
        return ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())

    def __str__(self) -> str:
        told = f"If you know that {self.known}, pass {self.argument}"
        if self.epsilon is None:
            return f"{told}: fewer episodes would be needed."
        return f"{told}: as many episodes would give about epsilon {self.epsilon:.3g} instead of {self.instead:.3g}."


def suggestions(atlas: Atlas, stationary: float = 1.0) -> list[Suggestion]:
    """What could be assumed in addition, if it is known; if there are several such assumptions, all of them together as well.

    Parameters
    ----------
    atlas
        What was explored.
    stationary
        The p-value of the audit's test that transitions do not depend on the step, or 0 if it is known that they do.
    """
    counts, certificate = atlas.counts, atlas.certificate
    setting, columns, now = counts.setting, counts.columns(), certificate.epsilon
    start, tried = np.unique(columns["next"][columns["h"] < 0]), repeated_pairs(counts)
    alike = setting.stationary or min(stationary, p_stationary(counts)) > ALARM  # the steps, as far as the data say
    found = []
    if not setting.stationary and setting.horizon > 1 and tried and alike:
        known = "the transitions do not depend on the step"
        found.append(Suggestion({"stationary": True}, known, now))
    if setting.estimates_start and len(start) == 1:
        s = int(start[0])
        known = f"every episode starts in {atlas.called(s)}, as all {atlas.episodes:,} did"
        found.append(Suggestion({"initial_state": s}, known, now))
    if certificate.options.get("max_successors", 0) is None and tried and most_successors(counts, alike) == 1:
        seen = f"it has looked so: {tried:,} pairs were visited more than once, and always went the same way"
        known = f"it is deterministic ({seen})"
        found.append(Suggestion({"deterministic": True}, known, now))
    found = [it for one in found if (it := assessed(one, counts, certificate)) is not None]
    if len(found) > 1:
        arguments = {name: value for it in found for name, value in it.arguments.items()}
        together = Suggestion(arguments, "all of this is so", now)
        found += [it for it in [assessed(together, counts, certificate)] if it is not None]
    if "rows" not in atlas.source.get("log", ()):
        return found
    # The importer of a table takes a state as the table has it.
    named = [{k: atlas.numbering.observation(v) if k == "initial_state" else v for k, v in it.arguments.items()} for it in found]
    return [replace(it, arguments=arguments) for it, arguments in zip(found, named, strict=True)]


def assessed(suggestion: Suggestion, counts: Counts, certificate: Certificate) -> Suggestion | None:
    """A suggestion with the epsilon that the bounds of a certificate give for its counts under it; None if it is not worth it."""
    if not certificate.every_reward:  # the counts alone do not tell
        return suggestion
    given = dict(suggestion.arguments)
    options = certificate.options | ({"max_successors": 1} if given.pop("deterministic", False) else {})
    setting, columns = replace(counts.setting, **given), counts.columns()
    if setting.stationary:
        columns["h"] = np.minimum(columns["h"], 0)
        columns.pop("evidence", None)
    again = Counts.from_columns(setting, columns, counts.declarations(), counts.runs)
    epsilon = certify(again, certificate.delta, certificate.bounds, None, certificate.reward_range, **options).epsilon
    if certificate.says_nothing and epsilon >= certificate.largest:
        return suggestion
    return replace(suggestion, epsilon=epsilon) if epsilon < WORTH * certificate.epsilon else None


def outlook(atlas: Atlas, rate: float | None, stationary: float = 1.0) -> list[str]:
    """What to say at the end of an exploration that has not reached its target, or says nothing: a forecast, and suggestions.

    Parameters
    ----------
    atlas, stationary
        As for `suggestions`.
    rate
        Episodes a second; None if it is not known.
    """
    certificate = atlas.certificate
    aim = certificate.largest if certificate.target is None else certificate.target
    needed, lines = episodes_for(atlas.history, aim), []
    if needed is None:
        lines.append(f"Forecast: none is possible yet for epsilon {aim:g}.")
    elif needed > atlas.episodes:
        more = in_words(needed - atlas.episodes, rate, is_low(atlas.history), "more")
        lines.append(f"Forecast: {more} for epsilon {aim:g}.")
    return [*lines, *map(str, suggestions(atlas, stationary))]


def repeated_pairs(counts: Counts) -> int:
    """How many state-action pairs, of which something is to be learnt, were visited more than once."""
    A = counts.setting.n_actions
    return int(((counts.table.n >= 2) & ~counts.known_rows())[A:].sum())


def most_successors(counts: Counts, pooled: bool) -> int:
    """The largest number of different successors of a pair that were observed, at one step or, with `pooled`, at all steps."""
    columns = counts.columns()
    moves = np.stack([columns[name][columns["h"] >= 0] for name in ("h", "s", "a", "next")])[1 if pooled else 0 :]
    edges = np.unique(moves, axis=1)
    return int(np.unique(edges[:-1], axis=1, return_counts=True)[1].max(initial=0))


def p_stationary(counts: Counts) -> float:
    """The p-value of the test that the transitions do not depend on the step, from step-dependent counts."""
    setting, columns = counts.setting, counts.columns()
    live = (columns["h"] >= 0) & ~np.isin(columns["s"], counts.stays())
    h, s, a, y, n = (columns[name][live] for name in COLUMNS)
    S, A = setting.n_outcomes, setting.n_actions
    return p_value(log_evidence_by_step(h, s, a, y, n, S, A, setting.n_states * A))
