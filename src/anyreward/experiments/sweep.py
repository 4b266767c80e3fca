"""Sweeps: algorithms x environments x parameters x seeds, durable and on any executor.

A sweep is a TOML file:

    name = "chain"                        # a word
    seeds = 10                            # runs of every combination
    seed = 0                              # from which theirs are made
    algorithms = ["rf-trajectory", "rf-ucrl:replan='every'", "ucbvi:scale=0.0001"]
    environments = ["double-chain", { name = "grid-world", rows = 11, cols = 11, start = [5, 5], goal = [8, 8] }]

    [parameters]                          # of `explore`; a list means: each of them
    horizon = 20
    epsilon = [10.0, 5.0]
    max_episodes = 100000
    stationary = [false, true]

Everything is validated before anything runs. A cell is one algorithm on one environment with one choice of parameters and one
seed; its result is written as soon as it is there, so an interrupted sweep goes on where it was. A cell that fails is reported
at the end and does not stop the others. Seeds come from `SeedSequence.spawn`, and a cell's row depends on the cell alone: the
table is the same, to the byte, whatever the number of workers and the order in which they finish.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import envs
from ..algorithms import ALGORITHMS
from ..explore import explore, option_names
from ..files import check_writable, replace_file
from ..planning import backward_induction
from ..setting import nearest, positive, whole_number
from .compare import parsed
from .jobs import Failure, run_jobs

REQUIRED = ("name", "algorithms", "environments")
KEYS = {*REQUIRED, "seeds", "seed", "parameters"}
PARAMETERS = {"horizon", "epsilon", "delta", "bounds", "stationary", "discount", "max_episodes", "arrival_rewards", "stop"}


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    algorithm: str
    environment: str  # JSON of its name and arguments
    parameters: str  # JSON
    replicate: int
    seed: int


def load_config(path: Path) -> dict[str, Any]:
    """The sweep that a file describes, validated."""
    try:
        with open(path, "rb") as file:
            config = tomllib.load(file)
    except FileNotFoundError:
        raise ValueError(f"{path} is not there: a sweep file is needed.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise ValueError(f"{path} is not a readable TOML file: {problem}.") from None
    cells(config)
    return config


def cells(config: dict[str, Any]) -> list[Cell]:
    """All cells, in order. Raises if anything about them is wrong, as far as that can be known without running them."""
    unknown = sorted(set(config) - KEYS)
    if unknown:
        raise ValueError(f"the sweep has the key {unknown[0]!r}: it may have {', '.join(sorted(KEYS))}.")
    for key in REQUIRED:
        if not config.get(key):
            raise ValueError(f"the sweep has no {key}: it needs {', '.join(REQUIRED)}.")
    if not isinstance(config["name"], str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_ .-]{0,99}", config["name"]):
        raise ValueError(f"the name of the sweep is {str(config['name'])[:60]!r}: it has to be a plain word.")
    if not isinstance(config.get("parameters", {}), dict):
        raise ValueError("the parameters of the sweep have to be a table, [parameters].")
    seeds, seed = config.get("seeds", 1), config.get("seed", 0)
    for name, value, least in (("seeds", seeds, 1), ("seed", seed, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} is {value!r}: it has to be a whole number from {least} on.")
    parameters = config.get("parameters", {})
    unknown = sorted(set(parameters) - PARAMETERS)
    if unknown:
        raise ValueError(f"the sweep has the parameter {unknown[0]!r}: it may have {', '.join(sorted(PARAMETERS))}.")
    if "horizon" not in parameters or not {"epsilon", "max_episodes"} & set(parameters):
        raise ValueError("the parameters need a horizon, and epsilon or max_episodes.")
    choices = list(_choices(parameters))
    environments = [entry if isinstance(entry, dict) else {"name": entry} for entry in _listed(config, "environments")]
    numbers = [int(child.generate_state(1, np.uint64)[0] >> np.uint64(1)) for child in np.random.SeedSequence(seed).spawn(seeds)]
    found = []
    for environment in environments:
        mdp = _environment(environment)
        for choice in choices:
            mdp.setting(choice["horizon"], choice.get("discount", 1.0), choice.get("stationary", False))
        for algorithm in _listed(config, "algorithms"):
            kind, options = _algorithm(algorithm)
            if kind.needs_reward and mdp.reward is None:
                raise ValueError(f"{algorithm} needs a reward, but {environment['name']} has none of its own.")
            for choice in choices:
                if kind.needs_budget and "max_episodes" not in choice and "budget" not in options:
                    raise ValueError(f"{algorithm} has to know the number of episodes beforehand: give max_episodes.")
                _try(kind, options, mdp, choice, algorithm)
                for replicate, number in enumerate(numbers):
                    where, how = json.dumps(environment, sort_keys=True), json.dumps(choice, sort_keys=True)
                    found.append(Cell(algorithm, where, how, replicate, number))
    if len(set(found)) < len(found):
        raise ValueError("the sweep has the same cell twice: an algorithm, environment or parameter is repeated.")
    return found


def _listed(config: dict[str, Any], key: str) -> list[Any]:
    entries = config[key]
    kinds = (str, dict) if key == "environments" else (str,)
    if not isinstance(entries, list) or not all(isinstance(entry, kinds) for entry in entries):
        raise ValueError(f"{key} has to be a list of names.")
    return entries


def _algorithm(entry: str) -> tuple[Any, dict[str, Any]]:
    name, options = parsed(entry)
    kind = ALGORITHMS[name]
    known = option_names(kind) - {"seed", *PARAMETERS}
    wrong = sorted(set(options) - known)
    if wrong:
        raise ValueError(f"{entry} has the option {wrong[0]!r}, which {name} does not have{nearest(wrong[0], known)}.")
    return kind, options


def _try(kind: Any, options: dict[str, Any], mdp: Any, choice: dict[str, Any], entry: str) -> None:
    """Makes an explorer as a cell will, so that what it has against its parameters is known before anything runs."""
    given = {key: choice[key] for key in ("delta", "bounds") if key in choice} | options
    given |= {"reward": mdp.reward} if kind.needs_reward else {}
    given |= {"budget": max(1, choice["max_episodes"])} if kind.needs_budget and "budget" not in options else {}
    if "epsilon" in choice:
        positive(choice["epsilon"], "epsilon")
    if "max_episodes" in choice and whole_number(choice["max_episodes"], "max_episodes") < 0:
        raise ValueError(f"max_episodes is {choice['max_episodes']}: it cannot be negative.")
    if choice.get("stop", "certificate") not in ("certificate", "own"):
        raise ValueError(f"stop is {choice['stop']!r}: it has to be 'certificate' or 'own'.")
    setting = mdp.setting(
        choice["horizon"], choice.get("discount", 1.0), choice.get("stationary", False), choice.get("arrival_rewards", False)
    )
    try:
        kind(setting, **given)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{entry} cannot be run with {json.dumps(choice, sort_keys=True)}: {problem}") from None


def _environment(entry: dict[str, Any]) -> Any:
    name = entry.get("name")
    if name not in envs.ENVIRONMENTS:
        raise ValueError(f"there is no environment {name!r}: it has to be one of {', '.join(envs.ENVIRONMENTS)}.")
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items() if key != "name"}
    return envs.make(name, **given)


def _choices(parameters: dict[str, Any]) -> Iterator[dict[str, Any]]:
    names = list(parameters)
    lists = [value if isinstance(value, list) else [value] for value in parameters.values()]
    for name, values in zip(names, lists, strict=True):
        if not values:
            raise ValueError(f"the parameter {name!r} is an empty list.")
    for choice in itertools.product(*lists):
        yield dict(zip(names, choice, strict=True))


def run_cell(cell: Cell) -> dict[str, Any]:
    """The row of a cell. Nothing in it depends on where, when or how fast it ran."""
    environment, parameters = json.loads(cell.environment), json.loads(cell.parameters)
    mdp = _environment(environment)
    name, options = parsed(cell.algorithm)
    horizon = parameters.pop("horizon")
    if ALGORITHMS[name].needs_reward:
        options = {"reward": mdp.reward, **options}
    atlas = explore(mdp, horizon, algorithm=name, seed=cell.seed, progress=False, **parameters, **options)
    error = None
    if mdp.reward is not None:
        discount, model = parameters.get("discount", 1.0), atlas.counts.model()
        known = backward_induction(model, mdp.reward, horizon, discount).V[0]
        truth = backward_induction(mdp, mdp.reward, horizon, discount).V[0]
        error = abs(float(model.initial @ known) - float(mdp.initial @ truth))
    own = atlas.source["own"]
    return {
        **asdict(cell),
        "episodes": atlas.episodes,
        "epsilon": float(atlas.certificate.epsilon),
        "met": bool(atlas.certificate.met),
        "own_epsilon": own["epsilon"],
        "own_met": bool(own["met"]),
        "value_error": error,
        "states_visited": int((atlas.counts.state_visits() > 0).sum()),
        "pairs_visited": int(atlas.counts.visited_pairs),
        "digest": atlas.certificate.digest,
    }


def run(
    config: dict[str, Any],
    out: Path,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Path, list[Failure]]:
    """Runs what is not there yet and writes the table; returns where that is, and the cells that failed.

    `out` is a folder: `cells/` has a file for each cell that is done, `table.parquet` all rows in the order of the cells, with
    the configuration and the version in its metadata. `executor` is anything like those of `concurrent.futures`; without one, a
    pool of processes on this machine.
    """
    todo = cells(config)
    check_writable(out / "x") if out.is_dir() else check_writable(out)
    rows, failures = run_jobs(run_cell, todo, out / "cells", executor, workers, progress)
    table = out / "table.parquet"
    replace_file(table, _table([row for row in rows if row is not None], config))
    return table, failures


def _table(rows: list[dict[str, Any]], config: dict[str, Any]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from .. import __version__

    text, number, whole, truth = pa.string(), pa.float64(), pa.int64(), pa.bool_()
    kinds = {
        "algorithm": text, "environment": text, "parameters": text, "replicate": whole, "seed": whole, "episodes": whole,
        "epsilon": number, "met": truth, "own_epsilon": number, "own_met": truth, "value_error": number,
        "states_visited": whole, "pairs_visited": whole, "digest": text,
    }  # fmt: skip
    about = {"anyreward.sweep": json.dumps(config, sort_keys=True), "anyreward.version": __version__}
    schema = pa.schema(kinds.items(), metadata=about)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, compression="zstd")
    return sink.getvalue()
