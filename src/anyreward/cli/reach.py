"""The command reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..words import confidence_level, down, up
from .app import AsJson, AtlasFile, Quiet, app, assumed_lines, examples, report_errors, say, say_json


@app.command(
    epilog=examples(
        'anyreward reach chain.atlas --goal "state == 30" --out policy.csv',
        'anyreward reach chain.atlas --goal "state == 20" --goal "state == 5" --avoid "state == 0"',
        'anyreward reach chain.atlas --never "state == 0"',
        "anyreward reach chain.atlas --automaton my_package.goals:twice",
    )
)
@report_errors
def reach(
    atlas: AtlasFile,
    goal: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="Where to arrive, such as 'state == 30'. Repeat it for goals in this order."),
    ] = None,
    avoid: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Which states must not be visited before.", show_default=False)
    ] = None,
    never: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Instead of --goal: which states are never to be visited.")
    ] = None,
    automaton: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="Instead of --goal: an anyreward.Automaton of yours as package.module:Name. The module is imported.",
        ),
    ] = None,
    cautious: Annotated[
        bool, typer.Option("--cautious", help="Choose the policy whose guaranteed probability is largest.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the policy to this CSV file, with the columns h, s, a.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the policy that is most likely to arrive at a goal, with a certified probability and number of steps."""
    from .. import load
    from .._files import check_writable
    from ..atlas.automata import Automaton
    from ..atlas.policies import write_policy
    from .environment import thing

    if bool(goal) + (never is not None) + (automaton is not None) != 1:
        raise ValueError("give where to arrive by --goal, or what never to visit by --never, or an --automaton.")
    if not goal and avoid is not None:
        raise ValueError("--avoid goes with --goal: leave it out.")
    if out is not None:
        check_writable(out)
    wanted = None if automaton is None else thing(automaton, "--automaton", "an automaton of your own", Automaton)
    it = load(atlas)
    plan = it.avoid(never, cautious) if never is not None else it.reach(wanted or tuple(goal or ()), avoid, cautious)
    if out is not None:
        write_policy(out, it, plan.policy)
    if as_json:
        facts = {**plan.value._asdict(), "best": plan.best, "steps": plan.steps, "delta": plan.delta}
        say_json({**facts, "assumptions": plan.assumptions, "policies": plan.policies.tolist()})
        return
    low, value, high = plan.value
    what = "probability" if plan.automaton.pays is None else "value"
    say(f"{what} {value:.6g} in the empirical model")
    sure = f"with probability {confidence_level(plan.delta)}"
    say(f"{sure}: {down(low, 6)} <= its true {what} <= {up(high, 6)}, and that of any policy <= {up(plan.best, 6)}")
    if plan.steps is not None:
        certain = "none can be certified" if plan.steps == float("inf") else f"at most {up(plan.steps, 6)}"
        say(f"at once with that: the expected number of steps until arrival, if restarts are free: {certain}")
    say(*assumed_lines(plan.assumptions))
    if out is not None and not quiet:
        say(f"written: {out}")
