"""The tables of docs/ are those that benchmarks printed, which are kept in docs/evidence/. (The README's: test_readme.py.)"""

import random
import re
from math import ceil, floor

import pandas
import pytest

import anyreward as ar
from anyreward import theory

from .test_docs import DOCS, cells
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


def sampled(name):
    """What `benchmarks/samplers.py` printed: mean, standard error and verdict by problem and sampler."""
    found, problem = {}, ""
    for line in EVIDENCE[name].splitlines():
        if line and not line.startswith((" ", "#")):
            problem = line.split(",")[0]
        elif line.startswith(" "):
            sampler, mean, _, error, _, _, *verdict = line.split()
            sign = {"better": " **+**", "worse": " −"}[verdict[0]] if verdict else ""
            found[problem, f"`{sampler}`"] = float(mean), f"{float(mean):.2f} ± {float(error):.2f}{sign}"
    return found


def test_samplers():
    """Each number and its standard error, and which are significantly worse than the default. None is better."""
    heads, *_ = rows(re.search(r"^\| sampler .*$", ALGORITHMS, re.M)[0])
    found = {key: cell for key, (_, cell) in sampled("samplers").items()}
    body = table(ALGORITHMS, "| sampler | double-chain |")
    assert {problem for problem, _ in found} == set(heads[1:])
    assert len(body) == len({sampler for _, sampler in found})
    for sampler, *shown in body:
        assert shown == [found.get((problem, sampler), "–") for problem in heads[1:]]
    assert not any("+" in cell for cell in found.values())
    assert all("−" in cell for (_, name), cell in found.items() if name == "`ent-game`")


def test_samplers_with_more_episodes():
    found = sampled("samplers-long")
    means = [f"{mean:.2f}" for (_, name), (mean, _) in found.items() if name == "`rf-trajectory`"]
    order = ["double-chain", "grid-world", "garnet", "river-swim", "deep-sea", "n-room"]
    assert list(dict.fromkeys(problem for problem, _ in found)) == order
    assert f"the default has {', '.join(means[:-1])} and {means[-1]} on the first six problems" in ALGORITHMS
    assert not any("+" in cell for _, cell in found.values())


def test_measured_numbers_of_episodes_beside_the_lower_bounds():
    """The table is what the benchmark printed, and its bounds are the formulas."""
    measured = rows(EVIDENCE["lower-bounds"])
    assert rows(ALGORITHMS[ALGORITHMS.index("## A measured number of episodes") :])[: len(measured)] == measured
    setting = ar.Setting(n_states=31, n_actions=2, horizon=20, initial_state=15)
    assert f"{theory.tau_bound(setting, 2.0, 0.1):.1e}" == "3.1e+12"
    assert "3.1·10¹² episodes" in ALGORITHMS
    for problem, share, what, tau, free, single, stepwise, ratio in measured[2:]:
        if problem.startswith("double chain"):
            bounds = {"small epsilon": free, "small delta": single, "small delta, by step": stepwise}
            for regime, cell in bounds.items():
                kind = "reward-free" if what == "every reward" else "best policy"
                value, _ = theory.rate(kind, regime, "lower", 31, 2, 20, 20 * float(share), 0.1)
                assert cell in ("–", f"{value:,.0f}")
        most = max(float(cell.replace(",", "")) for cell in (free, single, stepwise) if cell != "–")
        assert float(ratio) == pytest.approx(float(tau.replace(",", "")) / most, rel=0.1)


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


def test_how_much_a_log_proves(tmp_path):
    """The log is that of the tutorial, with fewer tickets."""
    page = (DOCS / "off-policy.md").read_text()
    program = {}
    exec(cells(DOCS / "tutorials" / "logs.md")[0].split("folder = ")[0], program)
    columns = {"episode": "ticket", "step": "step", "state": "status", "action": "action", "next": "then", "reward": "score"}
    models = []
    for tickets, least, most in table(page, "| tickets | better by at least |"):
        program["TICKETS"] = int(tickets.replace(",", ""))
        program["write_log"](tmp_path / "log.csv", random.Random(1))
        counts = ar.Counts.from_dataframe(
            pandas.read_csv(tmp_path / "log.csv"), horizon=6, terminated="closed", terminal="end", initial_state="new",
            stationary=True, **columns,
        )  # fmt: skip
        atlas = ar.Atlas(counts, ar.certify(counts, delta=0.05))
        plan = atlas.plan("own", reward_range=(-0.6, 1.0), rewards="deterministic", stationary_rewards=True)
        better = atlas.improvement(plan)
        assert float(least.replace("−", "-")) == floor(100 * better.lower) / 100
        assert float(most) == ceil(100 * better.upper) / 100
        models.append(better.value)
    assert "by 0.33 to 0.35 in the model of each log" in " ".join(page.split())
    assert 0.325 <= min(models) <= max(models) <= 0.355


def test_laws_that_are_shared():
    found, page = printed("laws"), (DOCS / "structure.md").read_text()
    body, name = [], ""
    for row in table(page, "| | laws | ε/H | tight | calibrated |"):
        name = row[0] or name
        body.append([name, *row[2:]])
    assert body == found["Fixed amounts of draws"]
    body = []
    for row in table(page, "| machines | joint states | episodes |"):
        name = row[0] or name
        body.append([name, *row[2:]])
    assert body == found["ε/H of many machines"]
    fewer = [float(row[-1]) for row in found["Fixed amounts of draws"]]
    assert "says the same with a half to a quarter of the episodes" in page
    assert 1.8 <= min(fewer) <= max(fewer) <= 4.2


def test_few_bad_episodes():
    text = EVIDENCE["mistakes"]
    lines = text[text.index("regret                         bad") :].splitlines()[2:]
    found = {cells[0]: cells[1:] for cells in (re.split(r"\s{2,}", line.strip()) for line in lines) if len(cells) == 3}
    body = table(ALGORITHMS, "| algorithm | regret | bad episodes |")
    named = set()
    for name, *both in body[:-1]:
        named.add(name.strip("`"))
        for cell, said in zip(both, found[name.strip("`")], strict=True):
            assert numbers(cell) == [float(x) for x in re.findall(r"[\d.]+(?:e\+\d+)?", said)]
    rest = set(found) - named
    assert {name.split(":")[0] for name in rest} == set(re.findall(r"`([\w-]+)`", body[-1][0]))
    sums = [numbers(found[name][0])[0] for name in rest]
    assert numbers(body[-1][1]) == [min(sums), max(sums)]
    assert {found[name][1] for name in rest} == {"5e+03"}


def test_what_is_proved_of_bad_episodes():
    """F(ε) for ε = 2 on the double chain."""
    chain = ar.envs.double_chain()
    setting, said = chain.setting(20), " ".join(ALGORITHMS.split())
    powers = {"¹¹": 1e11, "¹⁵": 1e15}
    for name, options in {"r-max": {"target": 2.0}, "mbie-eb": {}, "mbie": {"target": 2.0}, "delayed-q": {"target": 2.0}}.items():
        bound = ar.ALGORITHMS[name](setting, chain.reward, **options, **({"budget": 2_042_774} if name == "mbie-eb" else {}))
        found = re.search(rf"([\d.]+)·10(¹¹|¹⁵) (?:episodes )?of `{name}`", said)
        assert bound.mistake_bound(2.0) == pytest.approx(float(found[1]) * powers[found[2]], rel=0.05)


def test_rewards_that_are_given():
    measured = rows(EVIDENCE["given-rewards"])
    second = next(i for i, row in enumerate(measured) if row[1] == "data")
    assert table(ALGORITHMS, "| | ε | for the five |") == measured[2:second]
    assert table(ALGORITHMS, "| | data | episodes |") == measured[second + 2 :]
    chain, plant, taxi = ([numbers(cell)[0] if numbers(cell) else None for cell in row[2:]] for row in measured[2:second])
    five, free, mixed, added, longest, every = range(6)
    said = " ".join(ALGORITHMS.split())
    assert "the hardest of them alone on the plant and on Taxi, 30% more on the chain" in said
    assert [round(row[five] / row[longest], 1) for row in (chain, plant, taxi)] == [1.3, 1.0, 1.0]
    assert "50 to 70% of five separate runs on the chain and the plant, a quarter on Taxi" in said
    assert [round(100 * row[five] / row[added]) for row in (chain, plant, taxi)] == [51, 70, 25]
    assert "takes 22 to 29% more on the chain and the plant" in said
    assert [round(100 * (row[free] / row[five] - 1)) for row in (plant, chain)] == [22, 29]
    assert "On Taxi it takes twenty times as many" in said
    assert round(taxi[free] / taxi[five]) == 20
    assert "takes thirteen to twenty-five times as many" in said
    assert 13 <= min(row[every] / row[five] for row in (chain, plant, taxi)) <= 14
    assert round(max(row[every] / row[five] for row in (chain, plant, taxi))) == 25
    assert "All mixtures of the five cost 3% more" in said
    assert round(100 * (chain[mixed] / chain[five] - 1)) == 3
    thin = {row[1]: [numbers(cell)[0] for cell in row[3:]] for row in measured[second + 2 :] if row[:3:2] == ["plant", "3"]}
    plain, cautious, more = zip(*thin.values(), strict=True)
    ends = f"{min(cautious):.1f} to {max(cautious):.1f} where the plain plan loses {min(plain):.1f} to {max(plain):.1f}"
    assert f"after 3 episodes it loses {ends}" in said
    lost = thin["for the five"][1] - thin["for the five"][0]
    assert f"guarantee {max(more):.2f} more and really earn {lost:.2f} less" in said


def test_the_page_of_the_comparison_has_the_tables_that_the_benchmark_printed():
    page, output = (ROOT / "docs" / "evidence" / "side-by-side.md").read_text(), EVIDENCE["side-by-side"]
    *blocks, speed = re.split(r"\n(?=[\w-]+(?:, H = |: transitions))", output)[1:]
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
        lines = rows(block)
        assert rows(section) == lines
        name, H, best = re.match(r"([\w-]+), H = (\d+), 1000 episodes, 6 runs, V\* = (\S+)", block).groups()
        played = {cells[0]: cells for cells in lines[2:] if cells[0] != "`generative`"}
        own, worst = (min(played, key=lambda one: float(played[one][k])) for k in (1, 3))
        for sentence in (
            f"H = {H}, V* = {best}.",
            f"The smallest error for its own reward is that of {own} ({played[own][1]})",
            f"the smallest worst one that of {worst} ({played[worst][3]})",
            f"error than {played['`rf-trajectory`'][4]} of the other {len(lines) - 3}.",
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


def test_how_long_a_stroke_takes():
    text = " ".join((ROOT / "docs" / "studio.md").read_text().split())
    said = re.search(
        r"the median is (\d+) ms for 21 × 21 cells \(the goal: (\d+) ms\) and (\d+) ms for 10,000 states \(the goal: (\d+) ms\)",
        text,
    )
    assert [f"{x} ms" for x in said.groups()] == [line[i] for line in printed("studio")[""] for i in (1, 3)]
