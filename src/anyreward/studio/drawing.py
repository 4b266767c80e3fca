"""Atlases and plans as JSON that the page can draw. Arrays are packed as base64, so that ten thousand states are no matter."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import outline, pages, plots
from ..atlas.scoring import AVERAGE
from ..data.spaces import Binned, Codec, Indexed, Ravelled
from ..rewards.forms import ArrivalReward
from ..words import confidence_level, down, up

if TYPE_CHECKING:
    from ..atlas.atlas import Atlas
    from ..atlas.explanation import Explanation
    from ..atlas.plan import Plan

MOST_NAMES = 100_000  # states that are sent with their names
MOST_VALUES = 400  # of a state variable that is an axis
SHOWN = 12  # charges that are told in words
KINDS = {"u1": np.uint8, "u2": np.uint16, "f4": np.float32}


def packed(values: np.ndarray, kind: str) -> dict[str, Any]:
    """An array as JSON: its shape, its kind of numbers (u1, u2 or f4, little-endian), and its bytes in base64."""
    array = np.ascontiguousarray(values, np.dtype(KINDS[kind]).newbyteorder("<"))
    return {"shape": list(array.shape), "kind": kind, "data": base64.b64encode(array.tobytes()).decode()}


def as_json(answer: dict[str, Any]) -> str:
    """An answer as JSON. NumPy numbers become numbers, and infinite ones, which JSON does not have, null."""
    text = json.dumps(answer, default=lambda x: x.item() if hasattr(x, "item") else str(x))
    if "Infinity" in text or "NaN" in text:
        text = json.dumps(json.loads(text, parse_constant=lambda name: None))
    return text


def atlas_picture(atlas: Atlas, grid: tuple[int, int] | None = None) -> dict[str, Any]:
    """What the page has to know of an atlas before anything is painted."""
    setting, certificate = atlas.counts.setting, atlas.certificate
    S, A = setting.n_states, setting.n_actions
    visits = atlas.counts.state_visits()
    names, values = variables(atlas)
    actions = [atlas.action_name(a) for a in range(A)]
    start = [int(s) for s in np.flatnonzero(atlas._model.initial[:S] > 0)[:1000]]
    return {
        "env": str(atlas.source.get("env", "data from elsewhere")),
        "explored": pages.explored(atlas),
        "problem": pages.problem(setting),
        "n_states": S,
        "n_actions": A,
        "horizon": setting.horizon,
        "discount": setting.discount,
        "states": [atlas.state_name(s) for s in range(S)] if S <= MOST_NAMES else None,
        "actions": actions,
        "signs": [sign if (sign := outline.sign(atlas, a)) != actions[a] else "" for a in range(A)],
        "grid": plots.grid_of(atlas, grid),
        "variables": names,
        "places": None if values is None else packed(values, "u2"),
        "start": start,
        "visits": packed(visits, "f4"),
        "seen": int((visits > 0).sum()),
        "names": sorted(atlas.numbering.variables()),
        "own": "model" if atlas.own_reward is not None else "observed" if atlas.paid is not None and len(atlas.paid) else None,
        "paid": list(atlas.paid.range) if atlas.paid is not None and len(atlas.paid) else None,
        "certificate": {
            "text": str(certificate),
            "epsilon": certificate.epsilon,
            "epsilon_text": up(certificate.epsilon),
            "largest": certificate.largest,
            "episodes": certificate.played,
            "sure": confidence_level(certificate.delta),
            "assumptions": list(certificate.assumptions),
            "says_nothing": bool(certificate.says_nothing),
        },
    }


def variables(atlas: Atlas) -> tuple[list[dict[str, Any]] | None, np.ndarray | None]:
    """The variables that a state consists of, with their values in words, and the value of each in each state, (S, variables).

    None if a state is one thing, or has too many values to be drawn.
    """
    codec, S = atlas.numbering.observations, atlas.counts.setting.n_states
    parts: list[tuple[str, list[str]]] = []
    if isinstance(codec, Ravelled):
        keys = codec.keys or [f"part {i + 1}" for i in range(len(codec.parts))]
        parts = [(str(key), _values_of(part)) for key, part in zip(keys, codec.parts, strict=True)]
        sizes = [part.size for part in codec.parts]
    elif isinstance(codec, Binned):
        parts = [(f"dimension {i + 1}", [f"bin {k}" for k in range(size)]) for i, size in enumerate(codec.counts)]
        sizes = list(codec.counts)
    elif isinstance(codec, Indexed) and codec.columns:
        return _columns(codec, S)
    if len(parts) < 2 or max(map(len, (values for _, values in parts))) > MOST_VALUES or codec.size > MOST_NAMES:
        return None, None
    places = np.stack(np.unravel_index(np.arange(codec.size), sizes), axis=1)
    places = np.pad(places, ((0, S - codec.size), (0, 0)), constant_values=2**16 - 1)  # a termination has no place
    return [{"name": name, "values": values} for name, values in parts], places


def _values_of(codec: Codec) -> list[str]:
    """The values of one part of a state, in words; too many to be drawn are cut off."""
    from ..data.numbering import described

    return [described(codec, k) for k in range(min(codec.size, MOST_VALUES + 1))]


def _columns(codec: Indexed, S: int) -> tuple[list[dict[str, Any]] | None, np.ndarray | None]:
    """`variables` for states that are rows of a table."""
    found, places = [], np.full((S, len(codec.columns)), 2**16 - 1)
    for i, name in enumerate(codec.columns):
        values = list(dict.fromkeys(row[i] for row in codec.values))
        if all(isinstance(x, int | float) for x in values):
            values.sort()
        if len(values) > MOST_VALUES:
            return None, None
        number = {value: k for k, value in enumerate(values)}
        places[: len(codec.values), i] = [number[row[i]] for row in codec.values]
        found.append({"name": name, "values": [str(value) for value in values]})
    return (found, places) if len(found) > 1 else (None, None)


def plan_picture(plan: Plan) -> dict[str, Any]:
    """What the page draws of a plan: its actions, where it spends its time, what its reward pays, its value and its interval."""
    A = plan.atlas.counts.setting.n_actions
    reach = plan.reach
    top = max(float(reach.max()), 1e-300)
    return {
        **worth(plan),
        "policy": packed(np.where(plan.indifferent, A, plan.policy), "u1" if A < 255 else "u2"),  # A: any action
        "reach": packed(np.round(np.sqrt(reach / top) * 65535), "u2"),  # as the root of the share of the largest
        "most": top,
        "reward": packed(shown_reward(plan), "f4"),
    }


def worth(plan: Plan) -> dict[str, Any]:
    """The value of a plan and its certified interval, with what an episode can earn at all, up to what rounding adds to it."""
    lowest, highest = plan.scoring.lowest, plan.scoring.highest
    grain = 1e-9 * (highest - lowest) or 1.0
    possible = [round(x / grain) * grain for x in (lowest, highest)] if highest > lowest else [lowest, highest]
    return {
        "value": plan.value,
        "lower": plan.lower,
        "upper": plan.upper,
        "lower_text": down(plan.lower),
        "upper_text": up(plan.upper),
        "value_text": f"{plan.value:.4g}",
        "lowest": possible[0],
        "highest": possible[1],
        "sentence": pages.worth(plan),
        "range": list(plan.reward_range),
        "delta": plan.delta,
        "assumptions": list(plan.assumptions),
    }


def shown_reward(plan: Plan) -> np.ndarray:
    """What a plan's reward pays at each step and state, (H, S) or (1, S): for the action for which it is farthest from 0.

    A reward on arrival is shown where one arrives, by what is paid at most for it.
    """
    setting, r = plan.atlas.counts.setting, plan.scoring.pays.average
    H, S = setting.horizon, setting.n_states
    if isinstance(r, ArrivalReward):
        T, N, A, _ = r.shape
        step = np.repeat(np.arange(T * N * A), np.diff(r.pointer)) // (N * A)
        there = np.zeros((T, N))
        order = np.argsort(np.abs(r.pay), kind="stable")
        there[step[order], r.target[order]] = r.pay[order]
        shown = there[:, :S]
    else:
        far = np.abs(r[:, :S]).argmax(axis=2)
        shown = np.take_along_axis(r[:, :S], far[..., None], axis=2)[..., 0]
    shown = shown + plan.scoring.pays.base[AVERAGE]
    return shown[:1] if (shown == shown[:1]).all() else np.broadcast_to(shown, (H, S))


def heat(plan: Plan, kind: str) -> np.ndarray:
    """A value for each step and state, (H, S): `"value"` from there on, or the `"width"` of the interval from there on."""
    return plan.V[:-1] if kind == "value" else plan.upper_V[:-1] - plan.lower_V[:-1]


def explanation_picture(found: Explanation) -> dict[str, Any]:
    """What makes an interval wide: the largest charges in words, and what is charged to each state."""
    by_state = np.zeros(found.plan.policy.shape[1])
    for charge in found.charges:
        if charge.state is not None:
            by_state[charge.state] += charge.charge
    halve = found.episodes_to_halve
    return {
        "width": found.width,
        "charges": [
            {"what": one.what, "share": one.share, "visits": one.visits, "state": one.state, "step": one.step}
            for one in found.charges[:SHOWN]
        ],
        "others": max(0, len(found.charges) - SHOWN),
        "rest": sum(one.share for one in found.charges[SHOWN:]),
        "by_state": packed(by_state, "f4"),
        "episodes_to_halve": None if halve is None else float(halve),
    }


def state_picture(plan: Plan, s: int) -> dict[str, Any]:
    """All that is known of one state under a plan, step by step, and where its actions lead."""
    atlas, H = plan.atlas, len(plan.policy)
    return {
        "state": s,
        "name": atlas.state_name(s),
        "steps": [
            {
                "action": atlas.action_name(int(plan.policy[h, s])),
                "seen": int(plan.visits[h, s]),
                "value": float(plan.V[h, s]),
                "lower": float(plan.lower_V[h, s]),
                "upper": float(plan.upper_V[h, s]),
                "probability": float(plan.reach[h, s]),
            }
            for h in range(H)
        ],
    }


def neighbours(atlas: Atlas, s: int, h: int) -> dict[str, Any]:
    """Where the actions of a state were seen to lead, and from where it is entered, in the empirical model at a step."""
    setting, model = atlas.counts.setting, atlas._model
    S, A, N = setting.n_states, setting.n_actions, model.n_states
    pair, target, p = model.edges_at(0 if setting.stationary else h)
    out = (pair // A == s) & (p > 0)
    into = (target == s) & (pair // A != s) & (p > 0)

    def edges(which: np.ndarray, most: int) -> list[dict[str, Any]]:
        rows = np.flatnonzero(which)
        rows = rows[np.argsort(-p[rows], kind="stable")][:most]
        return [
            {
                "from": int(pair[i] // A),
                "to": int(target[i]),
                "ends": bool(target[i] >= S),
                "action": int(pair[i] % A),
                "p": float(p[i]),
            }
            for i in rows.tolist()
        ]

    found = edges(out, 60) + edges(into, 40)
    named = {x for edge in found for x in (edge["from"], edge["to"])} | {s}
    return {"state": s, "edges": found, "names": {str(x): atlas.state_name(x) for x in sorted(named) if x < N}}
