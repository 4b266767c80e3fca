"""Files for the reader: a policy, a reward, or the whole picture as one page that needs neither a server nor a network."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from ..atlas.plan import Plan
from ..atlas.policies import policy_csv
from ..pages import rendered
from ..rewards.forms import ArrivalReward
from .drawing import as_json

STATIC = Path(__file__).parent / "static"
MODULES = (
    "tools.js",
    "questions.js",
    "reward.js",
    "cells.js",
    "scene.js",
    "panels.js",
    "views.js",
    "terms.js",
    "two.js",
    "stage.js",
    "studio.js",
)  # each may import from those before it
KINDS = {"csv": "text/csv", "json": "application/json", "npz": "application/octet-stream"}
IMPORT = re.compile(r"^import [^;]+;\n", re.M)
EXPORT = re.compile(r"^export (?=function|const|class|async)", re.M)


def written(plan: Plan, what: str, ending: str) -> dict[str, Any]:
    """The policy or the reward of a plan as a file."""
    if what not in ("policy", "reward") or ending not in KINDS:
        raise ValueError("a policy and a reward can be written as csv, json or npz.")
    content = policy_file(plan, ending) if what == "policy" else reward_file(plan, ending)
    return download(f"{what}.{ending}", KINDS[ending], content)


def download(name: str, kind: str, content: bytes) -> dict[str, Any]:
    """A file as the page receives it."""
    return {"name": name, "type": kind, "content": base64.b64encode(content).decode()}


def facts(plan: Plan) -> dict[str, Any]:
    """What is certain about a plan."""
    return {
        "value": plan.value, "lower": plan.lower, "upper": plan.upper, "delta": plan.delta,
        "reward_range": list(plan.reward_range), "assumptions": list(plan.assumptions),
    }  # fmt: skip


def policy_file(plan: Plan, ending: str) -> bytes:
    """The policy, as `anyreward evaluate` reads it again (CSV, and the array of NPZ), or with its interval as JSON."""
    if ending == "csv":
        return policy_csv(plan.atlas, plan.policy).encode()
    if ending == "json":
        return json.dumps({"policy": plan.policy.tolist(), **facts(plan)}).encode()
    said = facts(plan)
    numbers = {name: np.array(said[name]) for name in ("value", "lower", "upper", "delta", "reward_range")}
    return npz(policy=plan.policy, assumptions=np.array(said["assumptions"], dtype=str), **numbers)


def reward_file(plan: Plan, ending: str) -> bytes:
    """The reward: as a table that `Atlas.plan` reads again (CSV, JSON), or as its array (NPZ)."""
    columns = reward_columns(plan)
    if ending == "npz":
        return npz(**{name: np.array(values) for name, values in columns.items()})
    if ending == "json":
        return json.dumps(columns).encode()
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return buffer.getvalue().encode()


def reward_columns(plan: Plan) -> dict[str, list[Any]]:
    """The reward as columns of a table; what it does not name pays 0. Steps and actions that make no difference are left out."""
    setting, r = plan.atlas.counts.setting, plan.scoring.pays.average
    S, A = setting.n_states, setting.n_actions
    if plan.scoring.own:
        raise ValueError("the reward was observed, and is not known everywhere: it cannot be written to a file.")
    if isinstance(r, ArrivalReward):
        T, N, _, _ = r.shape
        t, pair = np.divmod(np.repeat(np.arange(T * N * A), np.diff(r.pointer)), N * A)
        kept = (r.pay != 0) & (pair // A < S) & (r.target < S)
        columns = {"h": t, "s": pair // A, "a": pair % A, "next": r.target, "reward": r.pay}
        if T == 1:
            columns.pop("h")
        return {name: values[kept].tolist() for name, values in columns.items()}
    r = r[:, :S]
    names = ["h", "s", "a"]
    if (r == r[:, :, :1]).all():
        r, names = r[:, :, 0], ["h", "s"]
    if (r == r[:1]).all():
        r, names = r[0], names[1:]
    places = np.nonzero(r)
    return {**{name: place.tolist() for name, place in zip(names, places, strict=True)}, "reward": r[places].tolist()}


def npz(**arrays: np.ndarray) -> bytes:
    """Arrays as the contents of an NPZ file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # names are not the option of that name
    return buffer.getvalue()


def script() -> str:
    """All modules of the page as a single one, which exports `render`: what a notebook needs."""
    return code() + "export default { render };\n"


def code() -> str:
    """The modules of the page one after the other, without what they import and export."""
    return "\n".join(EXPORT.sub("", IMPORT.sub("", (STATIC / name).read_text(encoding="utf-8"))) for name in MODULES)


def style() -> str:
    """The style of the page."""
    return (STATIC / "studio.css").read_text(encoding="utf-8")


def page(picture: dict[str, Any], view: dict[str, Any]) -> dict[str, Any]:
    """The whole picture as one HTML file, with the same view as on the page. No script but that of the page may run in it."""
    run = code() + 'render({ model: still(JSON.parse(document.getElementById("picture").textContent)), el: document.body });\n'
    data = as_json({**picture, "view": view}).replace("<", "\\u003c")
    digest = base64.b64encode(hashlib.sha256(run.encode()).digest()).decode()
    title = picture["hello"]["picture"]["env"]
    html = rendered("picture.html", code=Markup(run), style=Markup(style()), data=Markup(data), digest=digest, title=title)
    return download("picture.html", "text/html", html.encode())
