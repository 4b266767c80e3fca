"""Which parts of an observation look as if they moved independently: candidates for `Structure.factored`, never a choice.

An observation of several parts (Dict, Tuple, MultiDiscrete, bins of several dimensions) may consist of parts that move on their
own: the levels of two machines, the lengths of two queues. For each part, the random transitions of an audit are searched for a
small set of parts on which its next value seems to depend, itself always among them. A set is a candidate if the likelihood-ratio
test of `data.likelihood` finds no evidence that the other parts matter, nor that the next values of two parts depend on each
other. With little data nothing is found against anything, and then it is said that there are too few samples to tell. This is a
hint for people who know their environment. To declare what the data suggest, without knowing it, would void the certificate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import log, prod

import numpy as np

from ..data.likelihood import ALARM, log_likelihood_ratio, p_value
from ..data.spaces import Binned, Codec, Ravelled

Transition = tuple[int, int, int, int]  # step, state, action, next state
MOST_PARENTS = 3  # parts on which another one may seem to depend
SHIFT = 0.2  # in probability: a test that would not notice so large a dependence cannot tell


def parts_of(observations: Codec) -> tuple[list[str], tuple[int, ...]]:
    """The names and sizes of the parts of an observation that can vary; nothing if there are not at least two."""
    if isinstance(observations, Binned):
        sizes = tuple(observations.counts)
        names = [f"part {i}" for i in range(len(sizes))]
    elif isinstance(observations, Ravelled):
        sizes = tuple(part.size for part in observations.parts)
        names = [f"part {i}" for i in range(len(sizes))] if observations.keys is None else [repr(k) for k in observations.keys]
    else:
        return [], ()
    return (names, sizes) if sum(size > 1 for size in sizes) > 1 else ([], ())


def parents_of(transitions: Sequence[Transition], sizes: tuple[int, ...], n_actions: int) -> list[tuple[int, ...]] | None:
    """For each part a small set of parts on which its next value may depend; None if nothing is smaller than all of them."""
    if not transitions:
        return None
    _, s, a, then = np.array(transitions).T
    now, after = (np.stack(np.unravel_index(x, sizes), axis=1) for x in (s, then))

    def p(row: Sequence[int], context: np.ndarray, i: int, rows: int) -> float:
        """The p-value of the test that the next value of part i does not depend on `context`, given the parts `row` and a."""
        rows_of, contexts = (map(tuple, x.tolist()) for x in (np.column_stack([now[:, list(row)], a]), context))
        return p_value(
            log_likelihood_ratio(zip(rows_of, contexts, after[:, i].tolist(), strict=True), rows * n_actions, sizes[i])
        )

    every, found = range(len(sizes)), []
    for i in every:
        others = [j for j in every if j != i]
        sets = ((i, *more) for many in range(min(MOST_PARENTS, len(sizes))) for more in combinations(others, many))
        fitting = (tuple(sorted(q)) for q in sets if p(q, now, i, prod(sizes[j] for j in q)) > ALARM)
        found.append(next(fitting, tuple(every)))
    if all(len(q) == len(sizes) for q in found):
        return None
    for i in every:
        for j in range(i):
            row = sorted({*found[i], *found[j]})
            if p(row, after[:, [j]], i, prod(sizes[k] for k in row)) <= ALARM:
                return None
    return found


def can_tell(
    transitions: Sequence[Transition], sizes: tuple[int, ...], n_actions: int, parents: Sequence[tuple[int, ...]]
) -> bool:
    """Whether there are samples enough for each of the tests that found nothing to notice a dependence that moves `SHIFT`.

    If the laws of two halves of a row's samples are so far apart in total variation, log e grows by at least SHIFT^2/2 for each
    sample (Pinsker), and (K-1)/2 log n is the price of each context that is predicted on its own. A rule of thumb, not a bound.
    """
    _, s, a, then = np.array(transitions).T
    now, after = (np.stack(np.unravel_index(x, sizes), axis=1) for x in (s, then))

    def enough(row: Sequence[int], context: np.ndarray, i: int) -> bool:
        rows, gains = prod(sizes[j] for j in row) * n_actions, []
        seen: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
        for key, *sample in zip(
            np.column_stack([now[:, list(row)], a]).tolist(), context.tolist(), after[:, i].tolist(), strict=True
        ):
            seen.setdefault(tuple(key), []).append((tuple(sample[0]), sample[1]))
        for samples in seen.values():
            n, contexts = len(samples), Counter(c for c, _ in samples)
            share, K = max(contexts.values()) / n, len({y for _, y in samples})
            gains.append(2 * share * (1 - share) * n * SHIFT**2 - 0.5 * (len(contexts) - 1) * max(1, K - 1) * log(n + 1))
        return max(sum(gains), max(gains) - log(rows)) - log(2) > -log(ALARM)

    every = range(len(sizes))
    pairs = [(sorted({*parents[i], *parents[j]}), after[:, [j]], i) for i in every for j in range(i)]
    return all(enough(*test) for test in [*((q, now, i) for i, q in enumerate(parents) if len(q) < len(sizes)), *pairs])


def part_lines(observations: Codec, transitions: Sequence[Transition], n_actions: int) -> list[str]:
    """What to say about the parts of an observation, as lines of the report of an audit; nothing if nothing is suggested."""
    names, sizes = parts_of(observations)
    parents = parents_of(transitions, sizes, n_actions) if names else None
    if parents is None:
        return []
    named = isinstance(observations, Ravelled) and observations.keys is not None
    laws, pairs = sum(prod(sizes[j] for j in q) for q in parents) * n_actions, prod(sizes) * n_actions
    if laws > pairs:  # nothing is gained
        return []
    if all(q == (i,) for i, q in enumerate(parents)):
        says, written = "the next value of each depends on the values of the others", ""
    else:
        on = (f"that of {names[i]} on more than {' and '.join(names[j] for j in q)}" for i, q in enumerate(parents))
        says = f"the next value of a part depends on more than this: {'; '.join(on)}"
        more = (f"{names[i]}: [{', '.join(names[j] for j in q)}]" for i, q in enumerate(parents) if q != (i,))
        written = f", parents={{{', '.join(more)}}}" if named else f", parents={parents}"
    declared = f"{{{', '.join(f'{name}: {size}' for name, size in zip(names, sizes, strict=True))}}}" if named else str(sizes)
    tells = can_tell(transitions, sizes, n_actions, parents)
    found = "no evidence that" if tells else "too few samples to tell, and no evidence, whether"
    return [
        f"Parts: {found} {says} (given the action; likelihood-ratio tests, which warn at p <= {ALARM:g}).",
        f"  If you know that they move independently, declare it: the structure ar.Structure.factored({declared}{written}) needs "
        f"far fewer episodes, with {laws:,} laws in place of {pairs:,}.",
    ]
