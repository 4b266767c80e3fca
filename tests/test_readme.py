"""Every number that is said of episodes, certificates and intervals is one that a benchmark printed (`docs/evidence/`)."""

import re
from pathlib import Path

import pytest

import anyreward as ar
import anyreward.theory

ROOT = Path(__file__).parents[1]
EVIDENCE = {path.stem: path.read_text() for path in sorted((ROOT / "docs" / "evidence").glob("*.txt"))}
README = (ROOT / "README.md").read_text()
LINES = {  # lines of benchmarks/episodes.py, by the columns of the README
    "paper": "paper: RF-UCRL",
    "tight, as `explore` does it": "tight, the default of explore",
    "calibrated": "calibrated",
}
PROBLEMS = {
    "double chain, 31 states, step-dependent": "double chain, L = 31, step-dependent",
    "double chain, stationary": "double chain, L = 31, stationary",
    "grid world, 21 × 21, step-dependent": "grid world, 21 x 21, step-dependent",
    "grid world, 21 × 21, stationary": "grid world, 21 x 21, stationary",
}


def rows(text, marker="|"):
    """The rows of all tables in a text, as lists of cells."""
    return [
        [cell.strip() for cell in line.strip().strip(marker).split(marker)]
        for line in text.splitlines()
        if line.startswith(marker)
    ]


def printed():
    """What benchmarks/episodes.py printed at 0.1 H: by problem and line, the episodes and how many times fewer."""
    found, problem = {}, ""
    for line in EVIDENCE["episodes"].splitlines():
        if line.strip() in PROBLEMS.values():
            problem = line.strip()
        elif line.startswith("┃ certificate"):
            place = rows(line, "┃")[0].index("ε = 0.1 H")
        elif line.startswith("│"):
            cells = rows(line, "│")[0]
            found[problem, cells[0]] = cells[place], cells[-2].removesuffix(" x")
    return found


@pytest.mark.parametrize("name", EVIDENCE)
def test_a_stored_result_says_how_when_and_where_it_was_measured(name):
    command, place = EVIDENCE[name].splitlines()[:2]
    script = re.fullmatch(r"# python (benchmarks/\w+\.py)( --\w+( \w+)?)*", command)
    assert script
    assert (ROOT / script[1]).exists()
    assert re.match(r"# \d{4}-\d{2}-\d{2}, .*cores", place)


def test_the_numbers_of_episodes_are_those_of_the_benchmark():
    found = printed()
    table = rows(README[README.index("## How many episodes") : README.index("## What you get")])
    columns, body = table[0], table[2:]
    assert {row[0] for row in body} == set(PROBLEMS)
    for row in body:
        problem = PROBLEMS[row[0]]
        joint = (problem, "+ joint bound of a trajectory: tight")  # tight, where that bound applies
        tight = found[joint if joint in found else (problem, "+ support-adaptive radius")]
        cells = dict(zip(columns, row, strict=True))
        assert (cells["tight"], cells["ratio"].removesuffix(" ×")) == tight
        for column, line in LINES.items():
            assert cells[column].replace("–", "") == found.get((problem, line), ("", ""))[0]


def test_the_numbers_of_five_minutes_are_those_of_the_benchmark():
    five = README[README.index("## What you get") : README.index("## What is certain")]
    measured = rows(EVIDENCE["five-minutes"])
    assert rows(five)[: len(measured)] == measured
    named = {(cells[0], cells[4]): cells for cells in rows(EVIDENCE["declared"])}
    declared = rows(five)[len(measured) + 2 :]
    assert len(declared) == 4
    for name, states, laws, *numbers in declared:
        cells = named[name, "300,000"]
        assert [states, laws, *numbers] == [cells[1], cells[3], *cells[5:9]]


def test_what_a_structure_is_worth_is_what_the_benchmark_printed():
    text = (ROOT / "docs" / "structure.md").read_text()
    table = rows(text[text.index("## What it is worth") :])
    measured = rows(EVIDENCE["declared"])
    assert table[: len(measured)] == measured


def test_how_many_times_fewer():
    """ "One to five thousand times", and "130 times" with what the double chain declares, which takes a moment to explore."""
    ratios = [int(ratio.replace(",", "")) for (_, line), (_, ratio) in printed().items() if "tight" in line or "support" in line]
    assert "needs\none to five thousand times fewer episodes" in README
    table = [int(row[3].removesuffix(" ×").replace(",", "")) for row in rows(README) if row[3:] and row[3].endswith(" ×")]
    assert len(table) == len(PROBLEMS)
    assert set(table) <= set(ratios)
    assert 1_000 <= min(table) <= max(table) <= 5_000
    declared = ar.explore(ar.envs.double_chain(), 20, epsilon=2.0, structure="own").episodes
    flat = int(printed()["double chain, L = 31, step-dependent", LINES["tight, as `explore` does it"]][0].replace(",", ""))
    assert 'structure="own")              # 130 times fewer' in README
    assert flat // declared // 10 * 10 == 130
    assert f"{declared:,} episodes in place of" in (ROOT / "docs" / "structure.md").read_text()


def test_the_speeds_are_those_of_the_benchmark():
    speed = README[README.index("## How fast") :]
    lines = {cells[0]: cells[1] for cells in rows(EVIDENCE["speed"], "│") if cells[0] and cells[1]}
    measured = {name: int(number.replace(",", "")) for name, number in lines.items()}
    for phrase, line in {
        r'plays (\d+) million transitions a\nsecond with `replan="path"`': "rf-ucrl",
        r"and (\d+) million with a full backward pass": "rf-ucrl, a pass after every episode",
        r"simulation makes (\d+) million": "pure simulation, chain",
    }.items():
        assert int(re.search(phrase, speed)[1]) == measured[line] // 10**6
    assert int(re.search(r"plain NumPy version (\d+) thousand", speed)[1]) == measured["plain NumPy rf-ucrl, chain"] // 1_000
    assert 20 * 10**9 / measured["rf-ucrl, geometric passes"] < 0.5
    assert "make a million transitions a second or more" in speed
    assert min(measured[name] for name in ar.ALGORITHMS if name in measured) >= 10**6
    costs = [float(cells[-1]) for cells in rows(EVIDENCE["overhead"], "│")]
    assert "costs about 3 µs a step" in speed
    assert {round(cost) for cost in costs} == {3}


def test_samplers_have_the_epsilon_that_the_benchmark_printed():
    text = (ROOT / "docs" / "algorithms.md").read_text()
    heads, _, *body = rows(text[text.index("## Samplers") : text.index("## Rewards that are given")])
    found, problem = {}, ""
    for line in EVIDENCE["samplers"].splitlines():
        if line and not line.startswith((" ", "#")):
            problem = line.split(",")[0]
        elif line.startswith(" "):
            sampler, mean, _, error, _, _, *verdict = line.split()
            sign = {"better": " **+**", "worse": " −"}[verdict[0]] if verdict else ""
            found[problem, f"`{sampler}`"] = f"{float(mean):.2f} ± {float(error):.2f}{sign}"
    assert {problem for problem, _ in found} == set(heads[1:])
    assert len(body) == len({sampler for _, sampler in found})
    for sampler, *cells in body:
        assert cells == [found.get((problem, sampler), "–") for problem in heads[1:]]
    better = {problem for (problem, _), cell in found.items() if "+" in cell}
    assert better == {"deep-sea"}, "the text says that nothing is better than the default elsewhere"


def test_measured_numbers_of_episodes_beside_the_lower_bounds():
    """The table is what the benchmark printed, and its bounds are the formulas."""
    text, measured = (ROOT / "docs" / "algorithms.md").read_text(), rows(EVIDENCE["lower-bounds"])
    assert rows(text[text.index("## A measured number of episodes") :])[: len(measured)] == measured
    setting = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)
    assert f"{ar.theory.tau_bound(setting, 2.0, 0.1):.1e}" == "3.1e+12"
    assert "3.1·10¹² episodes" in text
    for problem, share, what, tau, free, single, stepwise, ratio in measured[2:]:
        if problem.startswith("double chain"):
            bounds = {"small epsilon": free, "small delta": single, "small delta, by step": stepwise}
            for regime, cell in bounds.items():
                kind = "reward-free" if what == "every reward" else "best policy"
                value, _ = ar.theory.rate(kind, regime, "lower", 31, 2, 20, 20 * float(share), 0.1)
                assert cell in ("–", f"{value:,.0f}")
        most = max(float(cell.replace(",", "")) for cell in (free, single, stepwise) if cell != "–")
        assert float(ratio) == pytest.approx(float(tau.replace(",", "")) / most, rel=0.1)


def test_the_page_of_the_comparison_has_the_tables_that_the_benchmark_printed():
    page, printed = (ROOT / "docs" / "evidence" / "side-by-side.md").read_text(), EVIDENCE["side-by-side"]
    *blocks, speed = re.split(r"\n(?=[\w-]+(?:, H = |: transitions))", printed)[1:]
    *sections, fast = page.split("\n## ")[1:]
    measured = rows(speed)
    assert rows(fast)[2:] == measured
    slow = {name: float(cell.split()[0]) for name, cell in measured if float(cell.split()[0]) < 1}
    said = re.search(r"Below a million are (.*)\.\n", fast)[1].split(", ")
    assert set(said) == {f"{name} ({number:.3g})" for name, number in slow.items()}
    assert all(name in fast.split("Why: ")[1].split("\n\n")[0] for name in slow)
    assert len(sections) == len(blocks) >= 1
    smallest = iter(re.search(r"The smallest certified ε of those that play episodes is that of (.*)\.", page)[1].split(", "))
    for block, section in zip(blocks, sections, strict=True):
        table = rows(block)
        assert rows(section) == table
        name, H, best = re.match(r"([\w-]+), H = (\d+), 1000 episodes, 6 runs, V\* = (\S+)", block).groups()
        played = {cells[0]: cells for cells in table[2:] if cells[0] != "`generative`"}
        own, worst = (min(played, key=lambda one: float(played[one][k])) for k in (1, 3))
        for sentence in (
            f"H = {H}, V* = {best}.",
            f"The smallest error for its own reward is that of {own} ({played[own][1]})",
            f"the smallest worst one that of {worst} ({played[worst][3]})",
            f"error than {played['`rf-trajectory`'][4]} of the other {len(table) - 3}.",
        ):
            assert sentence in section
        picture = re.search(r"\((\S+\.png)\)", section)[1]
        assert picture == f"../side-by-side-{name}.png"
        assert (ROOT / "docs" / "evidence" / picture).resolve().exists()
        least = min(played, key=lambda one: float(played[one][-1]))
        trivial = name in ("n-room", "taxi")  # as the text says
        assert (len({cells[-1] for cells in played.values()}) == 1) == trivial
        if not trivial:
            assert re.fullmatch(rf"{re.escape(least)} on [\w ]+ \({re.escape(played[least][-1])}\)", next(smallest))
        missing = {f"`{one}`" for one in ("rf-trajectory", "count", "ucbvi", "r-max", "bpi-ucrl", "random")} - set(played)
        assert not missing
    assert next(smallest, None) is None
