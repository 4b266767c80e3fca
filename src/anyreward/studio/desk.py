"""`Desk`: what answers the page. It holds atlases, and the plans that were asked for last; nothing is planned in the browser.

One question is worked on at a time. A question of a tab is given up as soon as the same tab asks a newer one of the same kind, or
a stroke changes the reward: before it is begun, or in its middle (`cancellation`).
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..atlas.atlas import Atlas
from ..atlas.explanation import explain
from ..atlas.goals import GoalPlan
from ..atlas.plan import Plan
from ..atlas.scoring import AVERAGE
from ..cancellation import cancelled_by, proceed
from ..rewards.forms import ArrivalReward, reward_of_setting
from ..setting import shown
from ..words import confidence_level, down, up
from . import asking, drawing, exporting
from .asking import Unanswerable, Wanted, field, number
from .live import Live
from .wording import worded

KEPT = 12  # plans
OUTDATED = 200  # tabs whose newest question is remembered
MOST_POINTS = 21  # of a trade-off
SELDOM = 1e-3  # the probability of getting somewhere from which on a difference of plans is drawn


class Superseded(Exception):
    """The same tab has asked something newer meanwhile."""


class Desk:
    """Answers the questions of the page.

    Parameters
    ----------
    atlases : mapping of str to Atlas
        By the names under which the page shows them.
    live : Live
        Explorations that are started from the page.
    grid : (int, int), optional
        Rows and columns, if states are the cells of a grid.
    """

    def __init__(self, atlases: Mapping[str, Atlas], live: Live | None = None, grid: tuple[int, int] | None = None) -> None:
        self.atlases, self.grid = dict(atlases), grid
        self.live = Live({}, None) if live is None else live
        self.uploads = asking.Uploads()
        self._plans: OrderedDict[str, tuple[Plan, list[dict[str, Any]]]] = OrderedDict()
        self._lock, self._noting = threading.Lock(), threading.Lock()  # one question at a time; short looks at the turns
        self._turns: OrderedDict[str, float] = OrderedDict()  # the newest question of each tab and kind
        self.worked = 0  # plans that were really computed

    def answer(self, name: str, asked: Any) -> dict[str, Any]:
        """The answer to a question as JSON. Raises `Superseded`, or `Unanswerable` in the words of the page."""
        question = QUESTIONS.get(name)
        if question is None or not isinstance(asked, dict):
            raise Unanswerable(f"there is no question {shown(name)}: reload the page.")
        try:
            if name in AT_ONCE:  # must not wait for plans
                return question(self, asked)
            with cancelled_by(self._turn(name, asked)), self._lock:
                proceed()
                return question(self, asked)
        except ValueError as problem:
            raise Unanswerable(worded(str(problem)), getattr(problem, "term", None)) from problem

    def _turn(self, name: str, asked: dict[str, Any]) -> Callable[[], None]:
        """What raises `Superseded` as soon as a newer question of the same tab has come that this one must give way to."""
        tab, turn = asked.get("tab"), asked.get("turn")
        if name in EACH or not isinstance(tab, str) or isinstance(turn, bool) or not isinstance(turn, int | float):
            return lambda: None
        of_kind, of_reward = f"{tab[:40]} {name}", f"{tab[:40]} reward"
        with self._noting:
            for key in (of_kind, *((of_reward,) if asked.get("stroke") is True else ())):
                self._turns[key] = max(turn, self._turns.get(key, turn))
                self._turns.move_to_end(key)
            while len(self._turns) > OUTDATED:
                self._turns.popitem(last=False)
        over = (of_kind, of_reward) if name in OF_A_REWARD else (of_kind,)

        def still() -> None:
            if any(self._turns.get(each, turn) > turn for each in over):
                raise Superseded

        return still

    # What is asked about.

    def atlas(self, asked: dict[str, Any]) -> Atlas:
        """The atlas that a question is about: the one that is named, or the first."""
        name = asked.get("atlas")
        every = self._all()
        if name is None:
            return next(iter(every.values()))
        if not isinstance(name, str) or name not in every:
            raise ValueError(f"there is no atlas {shown(name)} any more: reload the page.")
        return every[name]

    def _all(self) -> dict[str, Atlas]:
        """All atlases by their names, the one that is being explored last."""
        explored = self.live.atlas
        return {**self.atlases, **({} if explored is None else {self.live.name: explored})}

    def wanted(self, asked: dict[str, Any], key: str = "reward") -> Wanted:
        """The reward of a question."""
        return asking.wanted(field(asked, key, dict), self.atlas(asked), self.uploads)

    def planned(self, asked: dict[str, Any], key: str = "reward") -> Plan:
        """The plan that a question is about."""
        return self._made(asked, key)[0]

    def _made(self, asked: dict[str, Any], key: str = "reward") -> tuple[Plan, list[dict[str, Any]]]:
        """The plan that a question is about, and what the reader should know of its reward; the last ones are remembered."""
        atlas = self.atlas(asked)
        cautious = asked.get("cautious") is True
        about = json.dumps([atlas.certificate.digest, id(atlas), asked.get(key), cautious], sort_keys=True)
        made = self._plans.get(about)
        if made is None:
            want = self.wanted(asked, key)
            plan = atlas.plan(want.reward, cautious=cautious, **want.arguments)
            self.worked += 1
            made = self._plans[about] = plan, [{"term": i, "text": worded(text)} for i, text in want.notes]
            while len(self._plans) > KEPT:
                self._plans.popitem(last=False)
        self._plans.move_to_end(about)
        return made

    # Questions.

    def hello(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What is there: the atlases, one of them in full, and environments that can be explored."""
        every, atlas = self._all(), self.atlas(asked)
        name = next(name for name, each in every.items() if each is atlas)
        grid = self.grid if atlas is next(iter(every.values())) else None
        return {
            "atlases": list(every),
            "atlas": name,
            "picture": drawing.atlas_picture(atlas, grid),
            "environments": list(self.live.environments),
            "can_extend": self.live.knows(atlas),
        }

    def plan(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The plan for a reward."""
        plan, notes = self._made(asked)
        answer = {**drawing.plan_picture(plan), "terms": self._terms(plan), "notes": notes, "observed": plan.scoring.own}
        if asked.get("heat") in ("value", "width"):
            answer["heat"] = drawing.packed(drawing.heat(plan, asked["heat"]), "f4")
        return answer

    def _terms(self, plan: Plan) -> list[dict[str, Any]]:
        """What each term contributes to the value, if there are several."""
        if len(plan.scoring.terms) < 2:
            return []
        return [
            {"name": name, **part._asdict(), "lower_text": down(part.lower), "upper_text": up(part.upper)}
            for name, part in plan.terms.items()
        ]

    def explain(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What makes the interval wide, and how many episodes would halve it."""
        plan = self.planned(asked)
        return drawing.explanation_picture(explain(plan.atlas, plan))

    def state(self, asked: dict[str, Any]) -> dict[str, Any]:
        """All that is known of one state under the plan."""
        atlas, setting = self.atlas(asked), self.atlas(asked).counts.setting
        s = int(asking.whole([asked.get("state")], setting.n_states, "a state")[0])
        h = int(asking.whole([asked.get("step", 0)], setting.horizon, "a step")[0])
        return {**drawing.state_picture(self.planned(asked), s), **drawing.neighbours(atlas, s, h)}

    def compare(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Two rewards side by side: both plans, where they differ, and what each is worth under the other's reward."""
        atlas, plans = self.atlas(asked), [self.planned(asked, key) for key in ("reward", "other")]
        crossed = []
        for mine, theirs in (plans, plans[::-1]):
            found = atlas._evaluate(mine.choice, theirs.scoring)
            crossed.append({**found._asdict(), "lower_text": down(found.lower), "upper_text": up(found.upper)})
        either = np.maximum(*(plan.reach for plan in plans))
        differ = plans[0].policy != plans[1].policy
        differ &= ~(plans[0].indifferent & plans[1].indifferent)
        time = sum(float(plan.reach[differ].sum()) for plan in plans) / 2
        return {
            "plans": [drawing.worth(plan) for plan in plans],
            "other": drawing.plan_picture(plans[1]),
            "crossed": crossed,  # the first plan under the second reward, and the second under the first
            "differ": drawing.packed(differ & (either >= SELDOM), "u1"),
            "time": time / len(differ),  # the share of the time at which they do something else
        }

    def limits(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The plan under constraints."""
        atlas, want = self.atlas(asked), self.wanted(asked)
        if want.own:
            raise ValueError("limits go with rewards that are given: take another reward than what was observed.")
        entries, names = [], []
        notes: list[str] = []
        for each in field(asked, "limits", list)[:8]:
            text, sign = field(each, "text", str), field(each, "sign", str)
            entries.append((asking.expression(text, atlas, notes.append), sign, number(each.get("limit"), "the limit")))
            names.append(text)
        mixed = atlas.plan(want.reward, subject_to=entries)
        which = int(asking.whole([asked.get("which", 0)], len(mixed.plans), "the policy")[0])
        return {
            **drawing.plan_picture(mixed.plans[which]),
            "which": which, "notes": notes,
            "weights": list(mixed.weights),
            "value": mixed.value, "lower": mixed.lower, "upper": mixed.upper, "value_text": f"{mixed.value:.4g}",
            "lower_text": down(mixed.lower), "upper_text": up(mixed.upper), "terms": [],
            "costs": [
                {"name": name, "limit": str(c).removeprefix(c.name), "lower_text": down(cost.lower), "upper_text": up(cost.upper)}
                for name, c, cost in zip(names, mixed.constraints, mixed.costs, strict=True)
            ],
            "sentence": f"With probability at least {confidence_level(mixed.delta)}, every limit is kept on average, an episode "
            f"earns {down(mixed.lower)} to {up(mixed.upper)}, and no policy within the limits earns more than {up(mixed.upper)}.",
        }  # fmt: skip

    def trade(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The trade-off curve of two terms of the reward."""
        atlas, terms = self.atlas(asked), field(field(asked, "reward", dict), "terms", list)
        chosen = asking.whole(asked.get("pair"), len(terms), "a term").tolist()
        if len(chosen) != 2 or chosen[0] == chosen[1]:
            raise ValueError("a trade-off needs two different terms.")
        parts = [asking.wanted({"terms": [terms[i]]}, atlas, self.uploads) for i in chosen]
        if any(part.own for part in parts):
            raise ValueError("a trade-off is between rewards that are given: take other terms than what was observed.")
        setting = atlas.counts.setting
        rewards = [reward_of_setting(part.reward, setting, None, atlas.numbering) for part in parts]
        points = int(asking.whole([asked.get("points", 7)], MOST_POINTS + 1, "points")[0])
        curve = atlas.trade_off(rewards[0], rewards[1], points)
        first = [x for each in curve.first for x in each]
        places = np.linspace(min(first), max(first), 80)
        most = [curve.most(float(x)) for x in places]
        return {
            "names": [str(terms[i].get("name", i)) for i in chosen],
            "points": [
                {"share": float(share), "first": a._asdict(), "second": b._asdict()}
                for share, a, b in zip(curve.shares, curve.first, curve.second, strict=True)
            ],
            "beyond": [[float(x), float(y)] for x, y in zip(places, most, strict=True) if np.isfinite(y)],
            "scales": list(curve.scales),
            "sure": confidence_level(curve.delta),
        }

    def goal(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The policy that is most likely to arrive somewhere, or to keep away."""
        atlas = self.atlas(asked)
        notes: list[str] = []
        goal, avoid = (asking.states_of(asked.get(name), atlas, notes.append) for name in ("goal", "avoid"))
        cautious = asked.get("cautious") is True
        if goal is None and avoid is None:
            raise ValueError("say where to arrive, or what to avoid: a condition on the state such as 'state == 3'.")
        found = atlas.avoid(avoid, cautious) if goal is None else atlas.reach(goal, avoid, cautious)
        return {**self._goal_picture(found, goal), "notes": notes}

    def _goal_picture(self, found: GoalPlan, goal: np.ndarray | None) -> dict[str, Any]:
        """A plan for a goal, drawn with the actions as long as nothing is decided."""
        atlas, policy = found.atlas, found.policies[:, found.automaton.start]
        S = atlas.counts.setting.n_states
        shown_goal = np.zeros(S) if goal is None else np.asarray(goal, float)
        extended = np.concatenate([policy, policy], axis=1)[:, : atlas._model.n_states]
        mass, reach = atlas._model.initial.copy(), np.zeros(policy.shape)
        for h in range(len(policy)):
            mass[:S] = np.where(shown_goal > 0, 0.0, mass[:S])  # what has arrived is not followed any further
            reach[h] = mass[:S]
            mass = atlas._model.push(h, mass, extended[h])
        top, value = max(float(reach.max()), 1e-300), found.value
        words = "never to be there" if goal is None else "to arrive"
        steps = ""
        if found.steps is not None:
            steps = (
                f" With free restarts, it takes at most {up(found.steps)} expected steps."
                if np.isfinite(found.steps)
                else " No number of steps can be certified."
            )
        A = atlas.counts.setting.n_actions
        return {
            "value": value.value, "lower": value.lower, "upper": value.upper, "lowest": 0.0, "highest": 1.0,
            "value_text": f"{value.value:.4g}", "lower_text": down(value.lower), "upper_text": up(value.upper), "terms": [],
            "policy": drawing.packed(policy, "u1" if A < 255 else "u2"),
            "reach": drawing.packed(np.round(np.sqrt(reach / top) * 65535), "u2"), "most": top,
            "reward": drawing.packed(shown_goal[None], "f4"), "range": [0, 1],
            "assumptions": list(found.assumptions), "delta": found.delta,
            "sentence": f"With probability at least {confidence_level(found.delta)}, the chance {words} within "
            f"{len(policy)} steps is {down(value.lower)} to {up(value.upper)}, and no policy has more than {up(found.best)}."
            + steps,
        }  # fmt: skip

    def play(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One trajectory of the plan in the empirical model."""
        plan = self.planned(asked)
        seed = int(asking.whole([asked.get("seed", 0)], 2**31, "the seed")[0])
        states, actions, paid = trajectory(plan, np.random.default_rng(seed))
        return {"states": states, "actions": actions, "paid": paid, "names": [plan.atlas.state_name(s) for s in states]}

    def upload(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Keeps the contents of a reward file."""
        key = self.uploads.add(asked.get("name"), asked.get("content"))
        reward = self.uploads.reward(key, self.atlas(asked))
        reward_of_setting(reward, self.atlas(asked).counts.setting, None, self.atlas(asked).numbering)
        return {"file": key}

    def export(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A file for the reader: its name, its kind and its contents in base64."""
        plan = self.planned(asked)
        what, ending = field(asked, "what", str), field(asked, "as", str)
        view = asked.get("view")
        if what == "page":
            picture: dict[str, Any] = {"hello": self.hello(asked), "plan": self.plan(asked)}
            picture |= {"reward": asked["reward"], "cautious": asked.get("cautious") is True}
            if not plan.scoring.own:
                picture["explain"] = self.explain(asked)
            return exporting.page(picture, view if isinstance(view, dict) else {})
        return exporting.written(plan, what, ending)

    def explore(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Starts, pauses or resumes an exploration, or says how it stands."""
        match field(asked, "do", str):
            case "start":
                self.live.start(asked, self.atlas(asked))
            case "pause":
                self.live.pause()
            case "resume":
                self.live.resume()
            case "look":
                pass
            case other:
                raise ValueError(f"exploring can be started, paused, resumed and looked at: {shown(other)} is none of it.")
        return self.live.report()


QUESTIONS: dict[str, Callable[[Desk, dict[str, Any]], dict[str, Any]]] = {
    "hello": Desk.hello, "plan": Desk.plan, "explain": Desk.explain, "state": Desk.state, "compare": Desk.compare,
    "limits": Desk.limits, "trade": Desk.trade, "goal": Desk.goal, "play": Desk.play, "upload": Desk.upload,
    "export": Desk.export, "explore": Desk.explore,
}  # fmt: skip
AT_ONCE = ("explore",)
EACH = ("export", "upload")  # files, every one of which is wanted
OF_A_REWARD = ("explain", "state", "compare", "limits", "trade", "goal", "play")  # over as soon as a stroke changes the reward


def trajectory(plan: Plan, rng: np.random.Generator) -> tuple[list[int], list[int], list[float]]:
    """States, actions and rewards of one episode of a plan in the empirical model; it ends where the episode terminates."""
    model, setting, pays = plan.atlas._model, plan.atlas.counts.setting, plan.scoring.pays
    S, N, A, r = setting.n_states, model.n_states, setting.n_actions, pays.average
    s = int(rng.choice(N, p=model.initial))
    states, actions, paid = [s], [], []
    for h in range(setting.horizon):
        if s >= S:
            break
        a = int(plan.policy[h, s])
        law = model.push(h, np.eye(1, N, s)[0], np.full(N, a))
        then = int(rng.choice(N, p=law / law.sum()))
        given = r.at(h, np.array(s * A + a), np.array(then)) if isinstance(r, ArrivalReward) else r[h, s, a]
        paid.append(float(given) + pays.base[AVERAGE])
        states.append(then)
        actions.append(a)
        s = then
    return states, actions, paid
