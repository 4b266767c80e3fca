"""How much of an exploration goes into looking at its certificate, in CPU time: before and after.

    python benchmarks/looks.py                     # the share of looks in this checkout
    python benchmarks/looks.py --against PATH      # and in another one, with the package in PATH/src: before, after, ratio

Each line is one call of `anyreward.explore` from the first episode to the atlas, best of some rounds. Looks are the calls of
`Run.look` and of `Explorer.is_far_from`, which decides whether to look; everything else is playing and learning. Each checkout
runs in a process of its own, and the rounds alternate. Where episodes or epsilon differ, both are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
LINES = [  # model, horizon, stationary, epsilon / H, max_episodes
    ("chain", 20, False, 0.1, 10**6),
    ("chain", 20, True, 0.1, 10**6),
    ("chain", 50, False, 0.2, 3 * 10**5),
    ("chain", 50, True, 0.1, 10**6),
    ("chain", 100, False, 0.3, 10**5),
    ("chain", 100, True, 0.1, 10**6),
    ("grid 21", 20, False, 0.5, 10**6),
    ("grid 21", 20, True, 0.1, 10**6),
    ("grid 21", 50, False, 0.5, 10**5),
    ("grid 21", 50, True, 0.3, 3 * 10**5),
    ("grid 21", 100, True, 0.3, 3 * 10**5),
    ("grid 300", 20, False, 0.5, 2 * 10**5),
    ("grid 300", 20, True, 0.3, 2 * 10**5),
    ("grid 300", 50, False, 0.5, 2 * 10**4),
    ("grid 300", 50, True, 0.3, 3 * 10**4),
    ("grid 300", 100, False, 0.5, 5_000),
    ("grid 300", 100, True, 0.5, 5_000),
]


def serve() -> None:
    """Answers each line of standard input, the number of a line, with (episodes, epsilon, CPU seconds, of which in looks)."""
    import anyreward as ar
    from anyreward.algorithms import Explorer
    from anyreward.exploring.run import Run

    spent, depth = [0.0], [0]

    def timed(owner: Any, name: str) -> None:
        plain = getattr(owner, name, None)
        if plain is None:  # an earlier version
            return

        def call(*args: Any, **named: Any) -> Any:
            begin, depth[0] = time.process_time(), depth[0] + 1
            try:
                return plain(*args, **named)
            finally:
                depth[0] -= 1
                spent[0] += (time.process_time() - begin) * (depth[0] == 0)

        setattr(owner, name, call)

    timed(Run, "look")
    timed(Explorer, "is_far_from")
    models = {
        "chain": ar.envs.double_chain(),
        "grid 21": ar.envs.grid_world(),
        "grid 300": ar.envs.grid_world(300, 300, start=(150, 150)),
    }
    for question in sys.stdin:
        model, horizon, stationary, share, most = LINES[int(question)]
        spent[0], begin = 0.0, time.process_time()
        atlas = ar.explore(models[model], horizon, share * horizon, stationary=stationary, max_episodes=most, progress=False)
        took = time.process_time() - begin
        print(json.dumps((atlas.episodes, atlas.certificate.epsilon, took, spent[0])), flush=True)


def start(checkout: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["NUMBA_CACHE_DIR"] = str(HERE.parent / "__pycache__" / "numba")
    command = [sys.executable, str(HERE), "--serve"]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def measure(process: subprocess.Popen[str], line: int) -> list[float]:
    assert process.stdin is not None
    assert process.stdout is not None
    print(line, file=process.stdin, flush=True)
    return json.loads(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="PATH", help="another checkout, with the package in PATH/src")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts; one more comes first, to compile")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    checkouts = [HERE.parents[1]] if arguments.against is None else [arguments.against.resolve(), HERE.parents[1]]
    processes = [start(checkout) for checkout in checkouts]
    for process in processes:
        for line in (0, 1):  # to compile
            measure(process, line)
    for line, (model, horizon, stationary, share, _) in enumerate(LINES):
        rounds = [[measure(process, line) for process in processes] for _ in range(arguments.rounds)]
        best = [min(of, key=lambda answer: answer[2]) for of in zip(*rounds, strict=True)]
        kind = "stationary" if stationary else "by step"
        said = [f"{model:9}H = {horizon:3}, {kind:11}{share:4.1f} H:"]
        said += [f"{took:7.3f} s, {looks / took:5.1%} looks" for *_, took, looks in best]
        if len(best) == 2:
            (t, epsilon, before, _), (t_now, epsilon_now, after, _) = best
            said.append(f"{before / after:5.1f} times as fast")
            said.append("same" if (t, epsilon) == (t_now, epsilon_now) else f"{t}, {epsilon:.6g} -> {t_now}, {epsilon_now:.6g}")
        print("   ".join(said), flush=True)
    for process in processes:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait()


if __name__ == "__main__":
    main()
