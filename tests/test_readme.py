"""Every number that is said of episodes, certificates and intervals is one that a benchmark printed (`docs/evidence/`)."""

import re
from pathlib import Path

import pytest
import typer

import anyreward as ar
from anyreward.cli import app

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
    script = re.fullmatch(r"""# (?:python (benchmarks/\w+\.py)|anyreward \w+)(?: [\w.,:=@/'"-]+)*""", command)
    assert script
    assert script[1] is None or (ROOT / script[1]).exists()
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
    assert rows(five) == rows(EVIDENCE["five-minutes"])


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
    costs = [float(cells[-1]) for cells in rows(EVIDENCE["overhead"], "│")]
    assert "costs about 3 µs a step" in speed
    assert {round(cost) for cost in costs} == {3}


SMALLER = {
    "epsilon=2.0": "epsilon=8.0", "20, 2.0": "20, 8.0", "max_seconds=60": "max_seconds=0.1", "episodes=2000": "episodes=100",
    "epsilon=4": "epsilon=12", "range(1000)": "range(20)",
}  # fmt: skip


@pytest.mark.slow
def test_its_programs_run(tmp_path, monkeypatch):
    """One after the other, with smaller budgets."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for code in re.findall(r"^```python\n(.*?)^```", README, re.M | re.S):
        for said, meant in SMALLER.items():
            code = code.replace(said, meant)
        exec(compile(code, "README.md", "exec"), names)
    assert (tmp_path / "chain.atlas").exists()
    assert names["explorer"].episodes == 20


def test_its_commands_are_there():
    """Each is a command, with options that it has, or a target of the Makefile."""
    shell = "\n".join(re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S))
    commands = typer.main.get_command(app).commands
    for name, rest in re.findall(r"^anyreward (\w+)(.*)$", shell, re.M):
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert set(re.findall(r" (--[\w-]+)", rest.split("#")[0])) <= known, name
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    assert set(re.findall(r"^make (\w+)", shell, re.M)) <= set(targets)


def test_half_of_it_is_pictures_and_commands():
    """A picture is as high as some thirty lines of text. Tables are measured by lines, too."""
    code = sum(len(block.splitlines()) for block in re.findall(r"^```\w+\n(.*?)^```", README, re.M | re.S))
    pictures = len(re.findall(r"^!\[", README, re.M))
    everything = sum(bool(line.strip()) and not line.startswith("```") for line in README.splitlines()) + 29 * pictures
    assert pictures >= 2
    assert code + 30 * pictures >= everything / 2
