"""The examples run as they are, anywhere, and print what they promise."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .helpers.waiting import PATIENCE

pytestmark = pytest.mark.slow

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))

NUMBER = r"-?\d+(?:\.\d+)?"  # for which patterns write N
# What an example has to print: patterns, whose groups are numbers in increasing order.
PROMISES = {
    "asking": [
        r"earns .*certainly (N) to (N)", r"With at most 1 service: certainly (N) to (N), by 2 policies",
        r"and certainly (N) to 1\.00 services", r"the smallest state == 'broken' that can be certified is 0\.0\d",
        r"at least (0\.[1-9]\d*) services", r"Never broken: certainly with probability (N) to (N)",
        r"new again: certainly with probability (N) to (N)", r"in May: no evidence", r"in June: the environment has changed",
    ],
    "call_centre": [r"Explored 20,000 days", r"wage 0\.3: .*certainly (N) to (N)", r"Five days .* cost \d+"],
    "given_rewards": [
        r"For three goals: \d+ episodes, epsilon 0\.9", r"For all their mixtures: \d+ episodes, epsilon 0\.[1-8]",
        r"between (N) and .*; the optimum is really (N)", r"the law 0, seen", r"After \d+ episodes: between (N) and (N)",
    ],
    "logs": [
        r"Read [\d,]+ actions on 6,000 tickets",
        r"there are no other states than the 3 that appear in the data",
        r"old habits score .*certainly between (N) and (N)",
        r"certainly by at least (0\.[1-9]\d) a ticket",
        r"  understood +fix",
        r"by the plan: certainly between (N) and (N) times",
    ],
    "maintenance": [
        r"normal +earns .*certainly (N) to (N)", r"its value lies between (N) and (N)",
        r"Better .* by (N) to (N)", r"day 9: wear \d",
    ],
    "many_machines": [
        r"30 parts move independently, by 8 laws, as declared",
        r"service none: certainly worth (N) to (1[0-3]\.\d+) of 20; played, it earns 1[0-3]\.\d+",
        r"service the worst: certainly worth (1[3-4]\.\d+) to (N) of 20; played, it earns 1[45]\.\d+",
    ],
    "shared_laws": [
        r"declaring nothing: the certificate says nothing; this plan certainly earns (N) to (N) of 20",
        r"declaring eight laws: .* lose at most \d\.\d\d; this plan certainly earns (1[78]\.\d+) to (N) of 20",
        r"with a broken press: service the press",
        r"declaring one law of demand, storage is dear: the plan certainly earns (N) to (N) of 14",
        r"66 states and actions share one law \('demand'\), as declared",
    ],
    "studio": [r"Exploring a grid", r"The page would be at http://127\.0\.0\.1:\d+/"],
    "taxi": [
        r"the plan earns at least 7\.930", r"the optimum is 7\.930", r"certainly between (N) and (N)", r"earned \+\d+",
    ],
}  # fmt: skip


def search(pattern, output):
    return re.search(pattern.replace("(N)", f"({NUMBER})"), output)


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What an example prints in an empty folder, to which it adds nothing."""
    found = {}

    def run(path):
        if path not in found:
            folder = tmp_path_factory.mktemp(path.stem)
            done = subprocess.run([sys.executable, path], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, done.stderr
            assert os.listdir(folder) == []
            found[path] = done.stdout
        return found[path]

    return run


def test_every_example_promises_something():
    assert {path.stem for path in EXAMPLES} == set(PROMISES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_promises(printed, path):
    output = printed(path)
    for pattern in PROMISES[path.stem]:
        match = search(pattern, output)
        assert match, f"{pattern} is not in:\n{output}"
        numbers = [float(number) for number in match.groups()]
        assert numbers == sorted(numbers)
    assert max(map(len, output.splitlines())) <= 130 or path.stem == "taxi"  # which prints all that it assumes in one line


def test_what_the_documentation_says_of_many_machines(printed):
    """The last table of docs/structure.md."""
    page = (Path(__file__).parents[1] / "docs" / "structure.md").read_text()
    output = printed(next(path for path in EXAMPLES if path.stem == "many_machines"))
    for said, policy in (("service the most worn machine", "service the worst"), ("service none", "service none")):
        row = re.search(rf"^\| {said} \| (\S+) to (\S+) \| (\S+) \|$", page, re.M)
        assert row.groups() == search(rf"{policy}: certainly worth (N) to (N) of 20; played, it earns (N) ", output).groups()


def test_what_the_log_of_the_help_desk_proves_is_true(printed):
    """By the chances that its simulator draws from, which the library does not know."""
    path = next(path for path in EXAMPLES if path.stem == "logs")
    assigned = {
        target.id: node.value
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    habits, world, cost = (ast.literal_eval(assigned[name]) for name in ("HABITS", "WORLD", "COST"))

    def value(choose, status="new", step=0):
        """The expected score of a ticket from here on, where `choose` makes one number of those of the actions."""
        if status == "closed" or step == 6:
            return 0.0
        scores = {
            action: sum(p * ((then == "closed") - cost[action] + value(choose, then, step + 1)) for then, p in law.items())
            for action, law in world[status].items()
        }
        return choose(status, scores)

    done = value(lambda status, scores: sum(p * scores[action] for action, p in habits[status].items()))
    best = value(lambda status, scores: max(scores.values()))
    output = printed(path)
    lower, upper = map(float, search(r"habits score .*between (N) and (N)", output).groups())
    assert lower <= done <= upper
    guaranteed, gained = (float(search(f"certainly {by} (N)", output)[1]) for by in ("at least", "by at least"))
    assert guaranteed <= best
    assert gained <= best - done
    assert gained > 0.5 * (best - done) - 0.05  # and it is not much less than the truth
