"""Sweeps: every combination of algorithms, environments, parameters and seeds, run on any executor and resumed when interrupted.

A sweep is described by a TOML file:

    name = "chain"                        # letters, digits, spaces and _ . -
    seeds = 10                            # runs of every combination
    seed = 0                              # the seeds of the runs are derived from it
    algorithms = ["rf-trajectory", "rf-ucrl:replan='every'", "ucbvi:scale=0.0001"]
    environments = ["double-chain", { name = "grid-world", rows = 11, cols = 11, start = [5, 5], goal = [8, 8] }]
    # or the id of a Gymnasium environment: { name = "FrozenLake-v1", is_slippery = false, initial_state = 0 }

    [parameters]                          # arguments of `explore`; a list stands for each of its values in turn
    horizon = 20
    epsilon = [10.0, 5.0]
    max_episodes = 100000
    stationary = [false, true]
    structure = "none"                    # or "own": the structure that the environment itself declares
    gaps = false                          # true: keep V* - V^pi of the policy of every episode, on models with a reward

The whole file is validated before anything runs. A cell is one algorithm on one environment with one choice of parameters and
one seed; its result is written as soon as it is done, so an interrupted sweep resumes with the cells that are missing. A cell
that fails is reported at the end and does not stop the others. Seeds come from `SeedSequence.spawn`, and a cell's row depends on
the cell alone: the table is the same, to the byte, whatever the number of workers and the order in which they finish.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, replace
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np

from .. import envs
from .._files import check_folder, file_lock, read_file, replace_file
from ..algorithms.registry import ALGORITHMS, make_explorer, option_names
from ..certificates.certificate import OBSERVED
from ..data.tabular import TabularMDP
from ..environments.gymnasium import GymnasiumEnvironment
from ..executors import version
from ..exploring.explore import check_episodes, declared, explore
from ..planning import backward_induction
from ..playing.opening import ADAPTER, Gymnasium
from ..setting import Setting, nearest, positive, probability, real_number, shown
from .compare import parse_algorithm
from .jobs import Failure, run_jobs
from .mistakes import Gaps, packed, unpacked

MAX_BYTES, MAX_CELLS = 2**18, 10**6  # the largest sweep file, and the largest number of cells
MAX_TRIED = 10_000  # how many explorers are made at most while a sweep is validated
MAX_ENTRIES = 2**27  # the largest number of triples (step, state, action) of an environment in a sweep
BOUNDS = ("tight", "paper")
STRUCTURES = (NOTHING, OWN) = ("none", "own")  # nothing is declared, or what the environment itself declares
PARAMETERS: dict[str, Callable[[Any, str], Any]] = {
    "horizon": lambda value, name: _whole(value, name, 1),
    "epsilon": lambda value, name: positive(_real(value, name), name),
    "delta": lambda value, name: probability(_real(value, name), name),
    "bounds": lambda value, name: _one_of(value, name, BOUNDS),
    "stationary": lambda value, name: _truth(value, name),
    "deterministic": lambda value, name: _truth(value, name),
    "discount": lambda value, name: positive(_real(value, name), name),
    "max_episodes": lambda value, name: _whole(value, name, 0),
    "arrival_rewards": lambda value, name: _truth(value, name),
    "structure": lambda value, name: _one_of(value, name, STRUCTURES),
    "stop": lambda value, name: _one_of(value, name, ("certificate", "own")),
    "gaps": lambda value, name: _truth(value, name),
}
REQUIRED = ("name", "algorithms", "environments", "parameters")
KEYS = (*REQUIRED, "seeds", "seed")


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    algorithm: str  # a name with options, see `compare.parse_algorithm`
    environment: str  # JSON of its name and arguments
    parameters: str  # JSON of the arguments of `explore`
    replicate: int  # which of the runs of this combination, from 0
    seed: int


@dataclass(frozen=True)
class Sweep:
    """The content of a sweep file, with every entry of the right type."""

    name: str
    algorithms: tuple[str, ...]
    environments: tuple[dict[str, Any], ...]  # name, and arguments of `envs.make` or of a Gymnasium environment
    parameters: dict[str, tuple[Any, ...]]  # arguments of `explore`, each with the values that it takes in turn
    seeds: int = 1
    seed: int = 0

    @classmethod
    def from_config(cls, config: Any) -> Sweep:
        """The sweep of a TOML document that was parsed to a dictionary; raises a ValueError if an entry is missing or wrong."""
        if not isinstance(config, dict):
            raise ValueError(f"the sweep is {shown(config)}: it has to be a table of {', '.join(KEYS)}.")
        unknown = next((key for key in config if key not in KEYS), None)
        if unknown is not None:
            raise ValueError(f"the sweep has the unknown key {shown(unknown)}: it may have {', '.join(KEYS)}.")
        for key in REQUIRED:
            if key not in config or config[key] in ("", [], {}):
                raise ValueError(f"the sweep has no {key}: it needs {', '.join(REQUIRED)}.")
        name, parameters = config["name"], config["parameters"]
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_ .-]{0,99}", name):
            raise ValueError(f"the name of the sweep is {shown(name)}: it may have letters, digits, spaces and _ . - only.")
        if not isinstance(parameters, dict):
            raise ValueError(f"the parameters of the sweep are {shown(parameters)}: they have to be a table, [parameters].")
        unknown = next((key for key in parameters if key not in PARAMETERS), None)
        if unknown is not None:
            raise ValueError(f"the sweep has the unknown parameter {shown(unknown)}: it may have {', '.join(PARAMETERS)}.")
        if "horizon" not in parameters or not {"epsilon", "max_episodes"} & set(parameters):
            raise ValueError("the parameters need a horizon, and epsilon or max_episodes.")
        values = {key: tuple(value) if isinstance(value, list) else (value,) for key, value in parameters.items()}
        for key, several in values.items():
            if not several:
                raise ValueError(f"the parameter {shown(key)} is an empty list.")
            for value in several:
                PARAMETERS[key](value, key)
        environments = tuple(
            entry if isinstance(entry, dict) else {"name": entry} for entry in _several(config, "environments", (str, dict))
        )
        self = cls(
            name=name,
            algorithms=tuple(_several(config, "algorithms", (str,))),
            environments=environments,
            parameters=values,
            seeds=_whole(config.get("seeds", 1), "seeds", 1),
            seed=_whole(config.get("seed", 0), "seed", 0),
        )
        if self.size > MAX_CELLS:
            raise ValueError(f"the sweep has {self.size:,} cells: at most {MAX_CELLS:,} are possible.")
        return self

    @property
    def size(self) -> int:
        """The number of cells."""
        return prod([len(self.algorithms), len(self.environments), self.seeds, *map(len, self.parameters.values())])

    def choices(self) -> Iterator[dict[str, Any]]:
        """All combinations of parameter values."""
        for choice in itertools.product(*self.parameters.values()):
            yield dict(zip(self.parameters, choice, strict=True))


def load_config(path: Path) -> dict[str, Any]:
    """Read and validate a sweep file; raises a ValueError that says what is wrong with it."""
    content = read_file(path, MAX_BYTES, "a sweep file is needed")
    try:
        config = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as problem:  # TOML's own errors and those of UTF-8 are ValueErrors
        raise ValueError(f"{path} is not a readable TOML file: {' '.join(str(problem).split())[:200]}.") from None
    cells(config)
    return config


def cells(config: dict[str, Any]) -> list[Cell]:
    """All cells of a sweep, in order. Raises a ValueError if any of them could not be run, as far as that can be known before."""
    sweep = Sweep.from_config(config)
    children = np.random.SeedSequence(sweep.seed).spawn(sweep.seeds)
    numbers = [int(child.generate_state(1, np.uint64)[0] >> np.uint64(1)) for child in children]
    found: list[Cell] = []
    tried: set[str] = set()
    for environment in sweep.environments:
        env = _environment(environment)
        where = json.dumps(environment, sort_keys=True)
        for algorithm in sweep.algorithms:
            kind, options = _algorithm(algorithm)
            for choice in sweep.choices():
                how = json.dumps(choice, sort_keys=True)
                free = {key for key in ("epsilon", "stop", "max_episodes") if key != "max_episodes" or not kind.needs_budget}
                check_episodes(choice.get("max_episodes"), choice["horizon"])
                part = json.dumps([where, algorithm, {key: choice[key] for key in choice if key not in free}], sort_keys=True)
                if part not in tried:
                    if len(tried) == MAX_TRIED:
                        raise ValueError(
                            f"the sweep has more than {MAX_TRIED:,} combinations, not counting epsilon and max_episodes."
                        )
                    _check_explorer(kind, options, env, choice, algorithm)
                    tried.add(part)
                found += [Cell(algorithm, where, how, replicate, number) for replicate, number in enumerate(numbers)]
    if len(set(found)) < len(found):
        raise ValueError("the sweep has the same cell twice: an algorithm, environment or parameter is repeated.")
    return found


def _several(config: dict[str, Any], key: str, kinds: tuple[type, ...]) -> list[Any]:
    entries = config[key]
    if not isinstance(entries, list) or not all(isinstance(entry, kinds) for entry in entries):
        raise ValueError(f"{key} is {shown(entries)}: it has to be a list of names.")
    return entries


def _whole(value: Any, name: str, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**63:
        raise ValueError(f"{name} is {shown(value)}: it has to be a whole number of at least {least}.")
    return value


def _real(value: Any, name: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(real_number(value, name)):
        raise ValueError(f"{name} is {shown(value)}: it has to be a number.")
    return float(value)


def _truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {shown(value)}: it has to be true or false.")
    return value


def _one_of(value: Any, name: str, words: tuple[str, ...]) -> str:
    if value not in words:
        raise ValueError(f"{name} is {shown(value)}: it has to be one of {', '.join(words)}.")
    return str(value)


def _algorithm(entry: str) -> tuple[Any, dict[str, Any]]:
    name, options = parse_algorithm(entry)
    kind = ALGORITHMS[name]
    known = option_names(kind) - {"seed", *PARAMETERS}
    wrong = sorted(set(options) - known)
    if wrong:
        raise ValueError(f"{entry} has the option {shown(wrong[0])}, which {name} does not have{nearest(wrong[0], known)}.")
    return kind, options


def _check_explorer(kind: Any, options: dict[str, Any], env: TabularMDP | Gymnasium, choice: dict[str, Any], entry: str) -> None:
    """Make an explorer as a cell will, so that parameters that it refuses are reported before anything runs."""
    given = {key: choice[key] for key in ("delta", "bounds", "deterministic") if key in choice} | options
    stops: dict[str, Any] = {key: choice.get(key) for key in ("max_episodes", "epsilon")}
    if choice.get("gaps") and (not isinstance(env, TabularMDP) or env.reward is None):
        raise ValueError("gaps is true, but an environment is not a model with a reward, whose optimum is known: leave it out.")
    try:
        conventions = choice.get("discount", 1.0), choice.get("stationary", False), choice.get("arrival_rewards", False)
        setting, own_reward = env_setting(env, choice["horizon"], *conventions)
        if choice.get("structure", NOTHING) != NOTHING:
            structure = declared(OWN, env, setting.stationary, choice.get("bounds", "tight"))
            setting = replace(setting, structure=structure)  # type: ignore[arg-type]
        entries = setting.layers * setting.n_outcomes * setting.n_actions
        if max(entries, setting.horizon) > MAX_ENTRIES:
            raise ValueError(f"a horizon of {setting.horizon} with {setting.n_states} states is too large for a sweep.")
        make_explorer(kind, setting, given, own_reward=own_reward, **stops)
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, MemoryError) as problem:
        raise ValueError(f"{entry[:100]} cannot be run with {json.dumps(choice, sort_keys=True)}: {problem}") from None


def env_setting(
    env: TabularMDP | Gymnasium, horizon: int, discount: float, stationary: bool, arrival_rewards: bool
) -> tuple[Setting, Any]:
    """The setting in which an environment is explored, and its own reward, `OBSERVED` if only playing shows it."""
    if isinstance(env, TabularMDP):
        return env.setting(horizon, discount, stationary, arrival_rewards), env.reward
    return GymnasiumEnvironment(env, horizon, discount, stationary, arrival_rewards).setting, OBSERVED


def _environment(entry: dict[str, Any]) -> TabularMDP | Gymnasium:
    """The environment of an entry: one of ours, or one that is registered with Gymnasium.

    What says how a Gymnasium environment is numbered (`Gymnasium`) is taken from the entry; the rest are arguments of the
    environment. An id that makes Gymnasium import a module is refused: a sweep file runs no code but that of installed
    environments.
    """
    name, arguments = entry.get("name"), {key: value for key, value in entry.items() if key != "name"}
    if isinstance(name, str) and name in envs.ENVIRONMENTS:
        return envs.make(name, **arguments)
    if not isinstance(name, str) or not is_registered(name):
        known = f"{', '.join(envs.ENVIRONMENTS)}, or the id of an environment that is registered with Gymnasium"
        raise ValueError(f"there is no environment {shown(name)}: it has to be one of {known}.")
    try:
        json.dumps(arguments, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(f"an argument of {name} is neither a number nor a text, true, false or a list of them.") from None
    adapter = {key: arguments.pop(key) for key in ADAPTER if key in arguments and key != "env_args"}
    return Gymnasium(name, env_args=arguments, **adapter)


def is_registered(name: str) -> bool:
    """Whether Gymnasium knows an environment of that id without importing anything."""
    import gymnasium

    return name in gymnasium.registry


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run a cell and return its row of the table. Nothing in the row depends on where, when or how fast it ran."""
    environment, parameters = json.loads(cell.environment), json.loads(cell.parameters)
    env = _environment(environment)
    name, options = parse_algorithm(cell.algorithm)
    horizon = parameters.pop("horizon")
    if parameters.get("structure") == NOTHING:
        del parameters["structure"]
    kept = None
    if parameters.pop("gaps", False):
        assert isinstance(env, TabularMDP)
        kept = Gaps(env, np.asarray(env.reward), horizon, parameters.get("discount", 1.0))
        env.played_by = kept.play_of
    atlas = explore(env, horizon, algorithm=name, seed=cell.seed, progress=False, on_interrupt="raise", **parameters, **options)
    error = None
    if isinstance(env, TabularMDP) and env.reward is not None:
        discount, model = parameters.get("discount", 1.0), atlas.counts.model()
        known = backward_induction(model, env.reward, horizon, discount).V[0]
        truth = backward_induction(env, env.reward, horizon, discount).V[0]
        error = abs(float(model.initial @ known) - float(env.initial @ truth))
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
        "gaps": None if kept is None else packed(kept.all),
    }


def gaps_of(row: dict[str, Any]) -> np.ndarray:
    """V* - V^pi of every episode, from a row of the table of a sweep with `gaps = true`; nan where no policy was played.

    The sum is the regret, `mistakes.mistakes(gaps, epsilon)` the number of bad episodes, for any number of epsilons at once.
    """
    return np.repeat(np.array(row["gap"], float), row["gap_episodes"])


def run(
    config: dict[str, Any],
    out: Path,
    executor: Executor | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Path, list[Failure]]:
    """Run the cells that are not done yet, and write the table of all cells.

    Parameters
    ----------
    config
        The sweep, as a dictionary of the form of a sweep file (`load_config`).
    out
        A folder. `out/cells/` has a file for each cell that is done; `out/table.parquet` has all rows in the order of the cells,
        with the configuration, the version and a digest of the code in its metadata.
    executor
        Where to run, like the executors of `concurrent.futures`. None: a pool of processes on this machine.
    workers
        Number of processes, if no executor is given. None: one for each core.
    progress
        Called with the number of cells done and the number of all cells.

    Returns
    -------
    table, failures
        The path of the table, and the cells that failed.
    """
    todo = cells(config)
    check_folder(out)
    out.mkdir(parents=True, exist_ok=True)
    table = out / "table.parquet"
    with file_lock(out):
        rows, failures = run_jobs(run_cell, todo, out / "cells", executor, workers, progress, is_row)
        replace_file(table, _table([row for row in rows if row is not None], config))
    return table, failures


KINDS: dict[str, tuple[type, ...]] = {
    "algorithm": (str,), "environment": (str,), "parameters": (str,), "replicate": (int,), "seed": (int,), "episodes": (int,),
    "epsilon": (float, int), "met": (bool,), "own_epsilon": (float, int, type(None)), "own_met": (bool,),
    "value_error": (float, int, type(None)), "states_visited": (int,), "pairs_visited": (int,), "digest": (str,),
    "gaps": (str, type(None)),
}  # fmt: skip


def is_row(result: Any) -> bool:
    """Whether a result that was read from a file has the form of a cell's row."""
    right = isinstance(result, dict) and set(result) == set(KINDS)
    return right and all(isinstance(result[name], kinds) for name, kinds in KINDS.items())


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
    if any(row["gaps"] is not None for row in rows):
        kinds |= {"gap": pa.list_(number), "gap_episodes": pa.list_(whole)}
        runs = [(None, None) if row["gaps"] is None else unpacked(row["gaps"]) for row in rows]
        rows = [{**row, "gap": gap, "gap_episodes": times} for row, (gap, times) in zip(rows, runs, strict=True)]
    about = {
        "anyreward.sweep": json.dumps(config, sort_keys=True),
        "anyreward.version": __version__,
        "anyreward.code": version(),  # that of every worker: `run_jobs` takes results of no other
    }
    schema = pa.schema(kinds.items(), metadata=about)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), sink, compression="zstd")
    return sink.getvalue()
