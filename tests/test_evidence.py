"""The tables of docs/ are those that benchmarks printed, which are kept in docs/evidence/. (The README's: test_readme.py.)"""

import re

from .test_readme import EVIDENCE, ROOT, rows

ALGORITHMS, WORKERS = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("algorithms", "workers"))


def table(text, heading):
    """The rows of the first table after a text, without its first line and the rule."""
    after = text[text.index(heading) :]
    found = re.search(r"(?:^\|.*\n)+", after, re.M)[0]
    return rows(found)[2:]


def printed(name):
    """The lines of Rich tables in a stored output, by the title above them."""
    found, title = {}, ""
    for line in EVIDENCE[name].splitlines():
        if line.startswith("│"):
            found.setdefault(title, []).append(rows(line, "│")[0])
        elif line and not line.startswith(("#", "┏", "┃", "┡", "└")):
            title = line.strip()
    return found


def numbers(text):
    return [float(x.replace(",", "")) for x in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def test_how_near_to_the_limit():
    names = {"double chain": "double chain, 31 states", "FrozenLake": "FrozenLake, 16 states"}
    names["garnet, 20 states"] = "garnet, 20 states, 3 actions, 3 successors"
    found, body = printed("limits"), table(ALGORITHMS, "| ε = 0.1 H |")
    assert len(body) == len(found) == 6
    for row in body:
        name, when = row[0].rsplit(", ", 1)
        line = next(line for line in found[f"{names[name]}, {when.replace('by step', 'step-dependent')}"] if line[0] == "0.1 H")
        assert [cell.replace("–", "-") for cell in row[1:]] == line[1:]
    ends = {
        level: [float(line[-1]) for lines in found.values() for line in lines if line[0] == level]
        for level in ("0.05 H", "0.5 H")
    }
    said = re.search(r"At 0\.05 H the ratios are ([\d.]+) to ([\d.]+), at 0\.5 H ([\d.]+) to ([\d.]+)", ALGORITHMS)
    assert [float(x) for x in said.groups()] == [f(ends[level]) for level in ends for f in (min, max)]


def test_side_by_side():
    found = {}
    for line in EVIDENCE["compare"].splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) in (5, 6) and cells[0] != "algorithm":
            found.setdefault(cells[0], []).extend(cells[1:])
    body = table(ALGORITHMS, "| algorithm | error, own reward |")
    assert len(body) >= 25
    for row in body:
        cells = found[row[0].strip("`")]
        assert row[1:5] == cells[:4]
        assert row[5:] == [cell.split(" [")[0] for cell in cells[-2:]]
    said = r"((?:`[\w-]+`(?:, | and ))+`[\w-]+`) explore like `random` here: an error of (\S+) and a certificate of (\S+)\. "
    like = re.search(said, ALGORITHMS)
    listed = re.findall(r"`([\w-]+)`", like[1])
    assert {*listed, *(row[0].strip("`") for row in body)} == set(found)
    for name in [*listed, "random"]:
        assert f"{float(found[name][0].split(' [')[0]):.2f}" == like[2]
        assert found[name][-1].split(" [")[0] == like[3]


def test_workers():
    lines = printed("workers")["Throughput, B = 8"]
    slow = [line for line in lines if line[0] == "sleeps for 1 ms"]
    body = table(WORKERS, "| | steps a second |")
    assert [row[1:] for row in body] == [line[2:] for line in slow]
    ratios = [line[3].removesuffix(" ×") for line in lines if line[0] != "sleeps for 1 ms" and line[1] != "in this process"]
    assert f"at {min(ratios)} to {max(ratios)} times the speed of one process" in WORKERS


def test_batches_and_overhead():
    for row, line in zip(table(WORKERS, "| | B = 1 |"), printed("batches")["Episodes to certify"], strict=True):
        more = [f"{episodes} ({share})" for episodes, share in zip(line[2:4], line[4:], strict=True)]
        assert [cell.replace("−", "-") for cell in row[1:]] == [line[1], *more]
    lines = printed("overhead")["µs a step, one process"]
    for row, line in zip(table(WORKERS, "| | environment | exploration |"), lines, strict=True):
        assert row[1:] == line[1:]


def test_samplers():
    """Each number and its standard error, and which are significantly better or worse than the default."""
    found, problem = {}, ""
    for line in (EVIDENCE["samplers"] + EVIDENCE["samplers-others"]).splitlines():
        if run := re.match(r"    (\S+) +(\S+) \+- (\S+) .* us(?:  (\w+))?$", line):
            found[run[1], problem] = float(run[2]), float(run[3]), {"better": "**+**", "worse": "−", None: ""}[run[4]]
        elif line and line[0] != "#":
            problem = line.split(",")[0]
    body = table(ALGORITHMS, "| sampler | double-chain |")
    problems = rows(re.search(r"^\| sampler .*$", ALGORITHMS, re.M)[0])[0][1:]
    assert {(row[0].strip("`"), problem) for row in body for problem in problems} == set(found)
    for row in body:
        for problem, cell in zip(problems, row[1:], strict=True):
            mean, error, verdict = found[row[0].strip("`"), problem]
            value, _, spread, *mark = cell.split(" ")
            assert abs(float(value) - mean) < 0.0051
            assert abs(float(spread) - error) < 0.0051
            assert "".join(mark) == verdict
    default = "rf-trajectory"
    assert "its ε is 6% larger" in ALGORITHMS
    assert round(100 * (found["ucb-zero:scale=0.001", "n-room"][0] / found[default, "n-room"][0] - 1)) == 6
    assert "plain counts are 7% better than the default" in ALGORITHMS
    assert round(100 * (1 - found["count", "deep-sea"][0] / found[default, "deep-sea"][0])) == 7
    assert "worse than uniform actions on five of the six problems" in ALGORITHMS
    assert sum(found["maxent", problem][0] > found["random", problem][0] for problem in problems) == 5


def test_how_fast_slow_samplers_are():
    speeds = dict(re.findall(r"^(\S+) +(?:\S+ )+ +\S+(?: \[.*?\])? +([\d,]+)  ", EVIDENCE["compare"], re.M))
    million = [float(speeds[name].replace(",", "")) / 1e6 for name in ("info-gain", "coverage", "maxent")]
    assert "play 3 to 4 million transitions a second" in ALGORITHMS
    assert 3.0 <= min(million) <= max(million) <= 4.0
    assert f"plays {speeds['psrl']}: it is for small problems" in ALGORITHMS


def test_ten_thousand_runs():
    """2 algorithms, 2 environments, 2 horizons and 1,250 seeds, as the tutorial says."""
    lines = [line.split() for line in EVIDENCE["ten-thousand"].splitlines() if "  1250 " in line]
    assert len(lines) == 8
    assert sum(int(line[3]) for line in lines) == 10_000
    assert "× 1,250 seeds = 10,000 cells" in (ROOT / "docs" / "tutorials" / "cluster.md").read_text()


def test_what_the_numbers_were_before():
    """Each number is in a stored output or in the changelog."""
    page = (ROOT / "docs" / "evidence" / "index.md").read_text()
    limits = {(title, line[0]): line[1:] for title, lines in printed("limits").items() for line in lines}
    by_step, stationary = (limits[f"double chain, 31 states, {when}", "0.1 H"] for when in ("step-dependent", "stationary"))
    body = table(page, "| | before | now |")
    assert [numbers(" ".join(row[1:]))[0] for row in body[:3]] == [
        *numbers(f"{by_step[0]} {by_step[1]}"),
        *numbers(stationary[0]),
    ]
    assert [numbers(row[2])[0] for row in body[:3]] == numbers(f"{by_step[2]} {by_step[3]} {stationary[2]}")
    assert numbers(body[2][2])[1] == numbers(stationary[3])[0]
    changes = " ".join((ROOT / "CHANGELOG.md").read_text().split())
    assert "costs 3 µs on top of the environment's own time, in place of 6 to 7" in changes
    assert re.search(r"10⁶ states, H = 100, takes [^;]* up to 1\.5 GB; before, it took more than 15 GB", changes)


def test_what_assumptions_about_ends_and_rewards_are_worth():
    page = (ROOT / "docs" / "environments.md").read_text()
    found, assumed = {}, ""
    for line in printed("ends")[""]:
        assumed = line[0] or assumed
        found.setdefault(assumed, []).append(line)
    names = {"outcome": "nothing (default)", "end": "nothing, all alike", "state": "always where once"}
    for said, episodes, *intervals in table(page, "| assumed of terminations | episodes |"):
        lines = found[names[re.search(r'`"(\w+)"`', said)[1]]]
        assert [episodes, *intervals] == [lines[0][1], *(line[4] for line in lines)]
    values = {float(line[5]) for lines in found.values() for line in lines}
    assert {line[6] for lines in found.values() for line in lines} == {"0.1991"}
    assert "The optimum is 0.1991 and every plan\nis worth 0.195 or more" in page
    assert min(values) >= 0.195
