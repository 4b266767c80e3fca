"""The library's sentences in the words of the page, which has fields and boxes where Python has parameters."""

from __future__ import annotations

import re

ALWAYS, ONCE = "'the same transition always pays the same'", "'at most one of an episode is not zero'"
STEPS, RANGE = "'it does not depend on the step'", "'it pays at least' and 'at most'"
INSTEAD = (  # a pattern and what the page says in its place, in this order; a test checks that the library still says it
    (r"no plan can be certified to meet subject_to", "no plan can be certified to keep these limits"),
    (r"certain to meet all of subject_to at once", "certain to keep all limits at once"),
    (r"subject_to can only just be met", "the limits can only just be kept"),
    (r"^subject_to tries .*", "plans within limits are tried both as they are and cautious."),
    (r"^subject_to is for rewards that are given: .*", "limits go with rewards that are given, not with what was observed."),
    (r"^subject_to(?:\[\d+\])? is .*", "a limit is not complete: it needs a cost, a sign and a number."),
    (r"the limit of subject_to\[\d+\]", "a limit"),
    (r"^the cost of subject_to\[\d+\] is 'own': .*", "the cost of a limit has to be an expression."),
    (r"^reward_range is (.*): the first number has to be below the second, both finite",
     rf"{RANGE} are \1: the first number has to be below the second"),
    (r"^reward_range is", f"{RANGE} are"),
    (r"pass reward_range=\(lowest, highest\), the range of what it can pay", f"say in {RANGE} what it can pay"),
    (r"rescale it, or pass reward_range=\(lowest, highest\)", "rescale it"),
    (r"^reward is 'own', which is only observed: explain a reward that is given",
     "what makes the interval wide is told for rewards that are given, not for what was observed"),
    (r"^rewards, stationary_rewards and paid_once are .*", "what is assumed of observed rewards is for these alone."),
    (r"^rewards is 'deterministic', but", f"{ALWAYS} is ticked, but"),
    (r"pass rewards='random', or leave out stationary_rewards", f"untick it, or {STEPS}"),
    (r"pass rewards='random'", "untick it"),
    (r"^stationary_rewards is True, but (.*): leave it out", rf"{STEPS} is ticked, but \1: untick it"),
    (r"if you know that they do not depend on the step, pass stationary_rewards=True", f"tick {STEPS} if you know it"),
    (r"^paid_once is True, but (.*)leave it out", rf"{ONCE} is ticked, but \1untick it"),
    (r"with terminal='end' all terminations are one state: explore with terminal='outcome'(; of a log, [^.]*)?",
     "in this atlas all ends of episodes are one state: explore again without saying how episodes end"),
    (r"which does not suit terminal='state', where (.*): explore with terminal='outcome'",
     r"which does not suit an atlas in which \1: explore again without saying how episodes end"),
    (r"^stationary is True,? but (.*): use stationary=False",
     r"'transitions do not depend on the step' is ticked, but \1: untick it"),
    (r"^stationary is True, but (.*)\. Leave it out", r"'transitions do not depend on the step' is ticked, but \1. Untick it"),
    (r", or make the environment with max_episode_steps=\d+", ""),
    (r" If you know that it is the same, pass same_environment=True\.", ""),
)  # fmt: skip


def worded(text: str) -> str:
    """A sentence of the library in the words of the page."""
    for pattern, instead in INSTEAD:
        text = re.sub(pattern, instead, text)
    return text
