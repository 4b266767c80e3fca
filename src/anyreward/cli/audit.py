"""The command audit."""

from __future__ import annotations

from typing import Annotated

import typer

from ..words import worded
from .app import (
    AsJson,
    Bins,
    Env,
    EnvArgs,
    MaxStates,
    Seed,
    Terminal,
    app,
    examples,
    literal,
    report_errors,
    say,
    say_json,
)
from .environment import environment


@app.command(
    epilog=examples(
        "anyreward audit FrozenLake-v1 --horizon 20 --stationary --epsilon 2",
        "anyreward audit CartPole-v1 --horizon 20 --bins '[4, [-0.5, 0.5], 4, [-1, 1]]'",
    )
)
@report_errors
def audit(
    env: Env,
    horizon: Annotated[
        int | None,
        typer.Option(help="Number of steps of an episode. By default the environment's time limit, or 100 without one."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Also forecast the number of episodes until this epsilon is certified.")
    ] = None,
    stationary: Annotated[
        bool, typer.Option("--stationary", help="It is to be explored as stationary: warn if the transitions depend on the step.")
    ] = False,
    env_arg: EnvArgs = None,
    bins: Bins = None,
    max_states: MaxStates = None,
    terminal: Terminal = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Look at an environment before exploring it.

    Plays 5,000 random steps and reports the number of states and actions, initial and terminal states, the time limit, the range
    of the rewards, and tests of the assumptions that it is Markov and that it does not depend on the step. With --epsilon, also
    how many episodes it is likely to take, and how many under assumptions that you may know to hold.
    """
    from ..exploring.audit import audit as look

    chosen, env_args = environment(env, env_arg)
    report = look(
        chosen, horizon, stationary=stationary, seed=seed, bins=literal(bins, "--bins"), max_states=max_states, terminal=terminal,
        env_args=env_args,
    )  # fmt: skip
    if as_json:
        facts = {key: value for key, value in vars(report).items() if not key.startswith("_")}
        needed = None if epsilon is None else report.forecast(epsilon)
        seconds = None if needed is None or report._rate is None else needed / report._rate
        say_json({**facts, "forecast": needed, "forecast_seconds": seconds, "forecast_is_low": report._model is None})
        return
    say(*map(worded, report.lines()))
    if epsilon is not None:
        say(*report.forecast_lines(epsilon))
