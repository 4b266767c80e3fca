"""An independent reader of DRN files, and step-bounded values of the interval model that they hold."""

import re

import numpy as np


def read_drn(text: str) -> tuple[int, list[set[str]], list[dict[str, list[tuple[int, float, float]]]]]:
    """The initial state, the labels of each state, and for each state its actions with (target, lower, upper)."""
    head, _, body = text.partition("@model\n")
    lines = [line for line in head.splitlines() if line and not line.startswith("//")]
    sizes = {lines[i]: int(lines[i + 1]) for i in range(len(lines)) if lines[i] in ("@nr_states", "@nr_choices")}
    interval = "@value_type: double-interval" in lines
    labels: list[set[str]] = []
    rows: list[dict[str, list[tuple[int, float, float]]]] = []
    initial = []
    for line in body.splitlines():
        words = line.split()
        if words[0] == "state":
            assert int(words[1]) == len(rows)
            labels.append(set(words[2:]))
            rows.append({})
            if "init" in words[2:]:
                initial.append(len(rows) - 1)
        elif words[0] == "action":
            assert words[1] not in rows[-1]
            rows[-1][words[1]] = []
        else:
            found = re.fullmatch(r"\t\t(\d+) : (?:\[([^,]+), ([^\]]+)\]|(\S+))", line)
            assert found is not None, line
            assert (found[2] is not None) == interval
            low, high = (found[2], found[3]) if interval else (found[4], found[4])
            assert 0.0 <= float(low) <= float(high) <= 1.0
            list(rows[-1].values())[-1].append((int(found[1]), float(low), float(high)))
    assert len(rows) == sizes["@nr_states"]
    assert sum(map(len, rows)) == sizes["@nr_choices"]
    assert all(max(target for target, *_ in edges) < len(rows) for row in rows for edges in row.values())
    (start,) = initial
    return start, labels, rows


def extreme(edges: list[tuple[int, float, float]], V: np.ndarray, sign: float) -> float:
    """The largest (sign 1) or smallest (-1) expectation of V: the mass that is free goes to the best successors first."""
    left = 1.0 - sum(low for _, low, _ in edges)
    total = sum(low * V[target] for target, low, _ in edges)
    for target, low, high in sorted(edges, key=lambda edge: -sign * V[edge[0]]):
        more = min(left, high - low)
        total += more * V[target]
        left -= more
    assert abs(left) < 1e-9
    return float(total)


def arriving(text: str, label: str, steps: int) -> tuple[float, float]:
    """The smallest and the largest, over the models, of the largest probability of reaching a label within some steps."""
    start, labels, rows = read_drn(text)
    goal = np.array([label in each for each in labels])
    ends = []
    for sign in (-1.0, 1.0):
        V = goal.astype(float)
        for _ in range(steps):
            V = np.array(
                [1.0 if goal[s] else max(extreme(edges, V, sign) for edges in row.values()) for s, row in enumerate(rows)]
            )
        ends.append(float(V[start]))
    return ends[0], ends[1]
