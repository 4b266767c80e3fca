"""The command plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..setting import shown
from ..words import confidence_level, down, up
from .app import (
    AsJson,
    AtlasFile,
    Grid,
    OwnRewards,
    PaidOnce,
    Quiet,
    RewardRange,
    StationaryRewards,
    app,
    assumed_lines,
    examples,
    grid_shape,
    report_errors,
    say,
    say_json,
    two_numbers,
)


@app.command(
    epilog=examples(
        'anyreward plan chain.atlas --reward "state == 30" --out policy.csv --html report.html',
        "anyreward plan lake.atlas --reward own --rewards deterministic",
        'anyreward plan chain.atlas --term "goal=2 * (state == 30)" --term "wear=-0.1 * (action == 1)"',
        'anyreward plan chain.atlas --reward "state == 30" --subject-to "action == 1 <= 12"',
    )
)
@report_errors
def plan(
    atlas: AtlasFile,
    reward: Annotated[
        str | None,
        typer.Option(
            help="A file (.csv, .json or .npy), an expression, or own for what the environment paid while it was explored."
        ),
    ] = None,
    term: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=REWARD",
            help="Instead of --reward: a named term of a sum, such as 'wear=-0.1 * (action == 1)', by which the value is split. "
            "Repeat it for each term.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the policy to this CSV file, with the columns h, s, a.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with the plan, its interval and figures to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the plan to this file (.png, .pdf or .svg).")] = None,
    reward_range: RewardRange = None,
    rewards: OwnRewards = None,
    stationary_rewards: StationaryRewards = False,
    paid_once: PaidOnce = False,
    cautious: Annotated[bool, typer.Option("--cautious", help="Choose the policy whose guaranteed value is largest.")] = False,
    allow_unseen: Annotated[
        bool,
        typer.Option(
            "--allow-unseen",
            help="Let the plan choose actions that were never seen in a state where others were. By default it does so only "
            "for a reward that depends on the action: at the last step, where it is all that counts, and where it alone makes "
            "that action the better one and epsilon or --cautious asks for it.",
        ),
    ] = False,
    only_seen: Annotated[
        bool,
        typer.Option(
            "--only-seen",
            help="Never choose an action that was never seen in a state where others were, whatever it costs: the plan need "
            "not be epsilon-optimal then, and what it loses at most is printed.",
        ),
    ] = False,
    improvement: Annotated[
        bool,
        typer.Option(
            "--improvement",
            help="Also certify by how much the plan is better than what was done: the frequencies of the actions.",
        ),
    ] = False,
    subject_to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COST<=LIMIT",
            help="A constraint, such as 'action > 0 <= 3' or 'costs.csv <= 3'; >= for at least. The expected sum of the cost in "
            "an episode is then certain to be within the limit. May be repeated.",
        ),
    ] = None,
    grid: Grid = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the best policy for a reward, with a certified interval.

    The true value of the policy and the optimum lie in the interval with probability 1 - delta, the confidence level
    of the atlas.

    An expression may use the names state, action, step, next, horizon, states and actions, numbers, + - * / // % **,
    comparisons, and, or, not, "x if c else y", and the functions min, max, abs, floor, sqrt, exp and log.
    """
    from .. import load, plots
    from .._files import check_writable, replace_file
    from ..atlas.policies import write_policy
    from ..pages import plan_page

    it, shape = load(atlas), grid_shape(grid)
    for path in (out, html, plot):
        if path is not None:
            check_writable(path)
    wanted = reward_from(reward, term)
    if subject_to:
        if html is not None or plot is not None or improvement:
            raise ValueError("--html, --plot and --improvement are for plans without --subject-to: leave them out.")
        limits = list(map(constraint, subject_to))
        if cautious or allow_unseen or only_seen or rewards is not None or stationary_rewards or paid_once:
            raise ValueError("--subject-to goes with --reward, --reward-range and --out alone: leave out the other options.")
        mixed = it.plan(wanted, two_numbers(reward_range), subject_to=limits)
        say_constrained(mixed, out, quiet, as_json)
        return
    known = (rewards, stationary_rewards, allow_unseen, paid_once)
    made = it.plan(wanted, two_numbers(reward_range), cautious, *known, only_seen=only_seen)
    if out is not None:
        write_policy(out, it, made.choice)
    if plot is not None:
        plots.save_figure(plot, made.plot(shape))
    if html is not None:
        replace_file(html, plan_page(made, reward or str(wanted), plots.grid_of(it, shape)).encode())
    better = it.improvement(made) if improvement else None
    if as_json:
        facts: dict[str, Any] = {"value": made.value, "lower": made.lower, "upper": made.upper, "regret_bound": made.regret_bound}
        gain = {} if better is None else {"improvement": better._asdict()}
        if made.terms:
            gain["terms"] = {name: value._asdict() for name, value in made.terms.items()}
        facts["untried"] = made.untried
        say_json({**facts, **gain, "delta": made.delta, "assumptions": made.assumptions, "policy": made.policy.tolist()})
        return
    say(f"value {made.value:.6g} in the empirical model")
    ends = f"{down(made.lower, 6)} <= its true value <= the optimum <= {up(made.upper, 6)}"
    say(f"with probability {confidence_level(made.delta)}: {ends}")
    for name, part in made.terms.items():
        say(f"at once with that: {down(part.lower, 6)} <= {name} <= {up(part.upper, 6)}; {part.value:.6g} in the empirical model")
    if better is not None:
        gained = f"{down(better.lower, 6)} <= its true value - the value of what was done <= {up(better.upper, 6)}"
        say(f"at once with that: {gained}; {better.value:.6g} in the empirical model")
    if made.said_of_unseen:
        say(f"it plays {made.said_of_unseen}" + ("" if only_seen else " (--only-seen never does)"))
    say(*assumed_lines(made.assumptions))
    if not quiet:
        say("", *plots.plan_text(made, shape))
        say(*(f"written: {path}" for path in (out, html, plot) if path is not None))


def reward_from(reward: str | None, terms: list[str] | None) -> Any:
    """The reward of --reward, or the sum of those of --term."""
    from ..rewards.terms import term

    if (reward is None) == (not terms):
        raise ValueError("give the reward by --reward, or its named terms by --term.")
    if reward is not None:
        return reward
    total = None
    for text in terms or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip() or value.startswith("="):
            raise ValueError(f"--term is {shown(text)}: write it as NAME=REWARD, such as 'goal=state == 30'.")
        part = term(name.strip(), value.strip())
        total = part if total is None else total + part
    return total


def constraint(text: str) -> tuple[str, str, float]:
    """Cost, sign and limit from one value of --subject-to; the last <= or >= is that of the limit."""
    at = max(text.rfind("<="), text.rfind(">="))
    cost, sign, limit = text[:at].strip(), text[at : at + 2], text[at + 2 :].strip()
    try:
        if at < 0 or not cost:
            raise ValueError
        return cost, sign, float(limit)
    except ValueError:
        raise ValueError(f"--subject-to is {shown(text)}: write it as COST<=LIMIT, such as 'action > 0 <= 3'.") from None


def say_constrained(mixed: Any, out: Path | None, quiet: bool, as_json: bool) -> None:
    """Print a plan under constraints and write its policies, one file for each."""
    from ..atlas.policies import write_policy

    many = len(mixed.plans)
    files = [] if out is None else [out if many == 1 else out.with_suffix(f".{i + 1}{out.suffix}") for i in range(many)]
    for path, each in zip(files, mixed.plans, strict=bool(files)):
        write_policy(path, mixed.atlas, each.choice)
    if as_json:
        facts = {"value": mixed.value, "lower": mixed.lower, "upper": mixed.upper, "regret_bound": mixed.regret_bound}
        costs = [{"constraint": str(c), **cost._asdict()} for c, cost in zip(mixed.constraints, mixed.costs, strict=True)]
        facts |= {"costs": costs, "weights": mixed.weights, "policies": [each.policy.tolist() for each in mixed.plans]}
        say_json({**facts, "delta": mixed.delta, "assumptions": mixed.assumptions})
        return
    say(f"value {mixed.value:.6g} in the empirical model")
    ends = f"{down(mixed.lower, 6)} <= its true value <= the optimum under the constraints <= {up(mixed.upper, 6)}"
    say(f"with probability {confidence_level(mixed.delta)}: {ends}")
    for cost, limit in zip(mixed.costs, mixed.constraints, strict=True):
        say(f"at once with that: {down(cost.lower, 6)} <= expected {limit.name} <= {up(cost.upper, 6)}; the limit: {limit}")
    if many > 1:
        weights = ", ".join(f"{weight:.6g}" for weight in mixed.weights)
        say(f"a mixture: when an episode begins, draw one of {many} policies with the probabilities {weights}")
    say(*assumed_lines(mixed.assumptions))
    if not quiet:
        say(*(f"written: {path}" for path in files))
