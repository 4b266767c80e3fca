"""Logs of a help desk: what the old habits are worth, what would be better, and by how much for certain.

The log is a CSV file with a row for each action on a ticket. Here it is written by a small simulator; with your own log, only the
names of the columns are different. Run it with `python examples/logs.py`.
"""

import csv
import math
import random
import tempfile
from pathlib import Path

import pyarrow.csv

import anyreward as ar

TICKETS, HORIZON = 6_000, 6
COST = {"ask": 0.1, "fix": 0.2, "escalate": 0.6}
HABITS = {  # what the staff does, by the status of a ticket
    "new": {"ask": 0.3, "fix": 0.6, "escalate": 0.1},
    "understood": {"ask": 0.3, "fix": 0.3, "escalate": 0.4},
    "annoyed": {"ask": 0.4, "fix": 0.4, "escalate": 0.2},
}
WORLD = {  # what follows, which nobody knows: by status and action, the chances of each status and of a closed ticket
    "new": {
        "ask": {"understood": 0.85, "annoyed": 0.15},
        "fix": {"closed": 0.3, "new": 0.2, "annoyed": 0.5},
        "escalate": {"closed": 0.6, "understood": 0.4},
    },
    "understood": {
        "ask": {"understood": 0.6, "annoyed": 0.4},
        "fix": {"closed": 0.85, "annoyed": 0.15},
        "escalate": {"closed": 0.9, "understood": 0.1},
    },
    "annoyed": {
        "ask": {"understood": 0.4, "annoyed": 0.6},
        "fix": {"closed": 0.25, "annoyed": 0.75},
        "escalate": {"closed": 0.7, "annoyed": 0.3},
    },
}


def drawn(chances, rng):
    return rng.choices(list(chances), list(chances.values()))[0]


def write_log(path, rng):
    """Writes the log. A closed ticket scores 1, and every action costs something. Some tickets were still open at the export."""
    with open(path, "w", newline="") as file:
        log = csv.writer(file)
        log.writerow(["ticket", "step", "status", "action", "then", "score", "closed"])
        for number in range(TICKETS):
            status, steps = "new", rng.randrange(1, HORIZON) if rng.random() < 0.05 else HORIZON
            for step in range(steps):
                action = drawn(HABITS[status], rng)
                then = drawn(WORLD[status][action], rng)
                closed = then == "closed"
                log.writerow([f"T{number}", step, status, action, then, round(closed - COST[action], 2), closed])
                if closed:
                    break
                status = then


def at_least(x):
    """A lower bound in two digits, rounded down, so that it promises no more than was proved."""
    return f"{math.floor(100 * x) / 100:.2f}"


def at_most(x):
    return f"{math.ceil(100 * x) / 100:.2f}"


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "tickets.csv"
    write_log(path, random.Random(1))
    table = pyarrow.csv.read_csv(path)  # or pandas.read_csv, or polars.read_csv

counts = ar.Counts.from_dataframe(
    table, horizon=HORIZON, episode="ticket", step="step", state="status", action="action", next="then", reward="score",
    terminated="closed", terminal="end", initial_state="new", stationary=True,
)  # fmt: skip
atlas = ar.Atlas(counts, ar.certify(counts, delta=0.05))
found = counts.source["log"]
print(f"Read {found['rows']:,} actions on {found['episodes']:,} tickets.")
print(f"{found['terminated']:,} tickets were closed, and {found['cut_off']:,} were still open before action {HORIZON}.")

known = {"reward_range": (-0.6, 1.0), "rewards": "deterministic", "stationary_rewards": True}  # what we know of scores
done = atlas.evaluate(atlas.behaviour, "own", **known)  # the habits of the staff, as the log shows them
plan = atlas.plan("own", **known)
better = atlas.improvement(plan)
print("\nWhat follows is certain with probability 0.95, if")
for assumption in plan.assumptions:
    print(f"  - {assumption}")
print(f"\nThe old habits score {done.value:.2f} a ticket: certainly between {at_least(done.lower)} and {at_most(done.upper)}.")
print(f"The plan scores {plan.value:.2f} in the model of the log: certainly at least {at_least(plan.lower)}.")
print(f"It is better by {better.value:.2f}: certainly by at least {at_least(better.lower)} a ticket.")

print("\nWhat the plan does with a ticket, as its first and as its last action:")
for status in HABITS:
    print(f"  {status:<11} {plan.act(status, 0):<9} {plan.act(status, HORIZON - 1)}")

print("\nAnother question to the same log: how often is a ticket escalated?")
for name, policy in {"by the old habits": atlas.behaviour, "by the plan": plan.policy}.items():
    often = atlas.evaluate(policy, "action == 'escalate' and state != 3")  # state 3 is a closed ticket, where nothing is done
    print(f"  {name}: certainly between {at_least(often.lower)} and {at_most(often.upper)} times")
