"""How fast the reward studio is: milliseconds from a stroke of the brush to the new picture, in a real browser.

    python benchmarks/studio.py             # 21 x 21 cells and 10,000 states, H = 20; and 50 strokes in a row

A stroke is an event of the page; the picture is drawn when the canvas is. In between are the question, the plan with its
certified interval, and the answer. The goals are medians of 100 ms for 21 x 21 cells and of 400 ms for 10,000 states. It needs
the extra `studio`, the package playwright and a Chromium. These are seconds of the clock: leave the machine alone meanwhile.
"""

from __future__ import annotations

import shutil
import time
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import anyreward as ar
from anyreward.studio.desk import Desk
from anyreward.studio.opening import Serving

STROKES, WARM = 30, 3
PROBLEMS = {  # environment, episodes, goal in milliseconds
    "grid 21 x 21, H = 20": (lambda: ar.envs.grid_world(), 100_000, 100),
    "grid 100 x 100, H = 20": (lambda: ar.envs.grid_world(100, 100, start=(50, 50), goal=(60, 60)), 200_000, 400),
}
STROKE = """async (s) => {
  const root = document.querySelector(".ars");
  const shown = new Promise((done) => root.addEventListener("shown", (event) => done(event.detail.milliseconds), { once: true }));
  root.app.paint([s], null, `stroke ${s}`);
  const milliseconds = await shown;
  await new Promise((done) => setTimeout(done, 400));  // until what comes later has come as well
  return milliseconds;
}"""
ROW = """async (states) => {
  const { app } = document.querySelector(".ars");
  for (const s of states) { app.paint([s], null, `stroke ${s}`); await new Promise((done) => setTimeout(done, 10)); }
  const begin = performance.now();
  while (document.querySelector(".ars").classList.contains("busy")) await new Promise((done) => setTimeout(done, 2));
  return performance.now() - begin;
}"""


def measured(browser: Any, atlas: ar.Atlas) -> tuple[list[float], list[float], float, int]:
    """Milliseconds of strokes, of plans alone, and from the last of 50 strokes to its picture; how many plans these 50 took."""
    states = np.random.default_rng(0).permutation(np.flatnonzero(atlas.counts.state_visits() > 0))
    alone = []
    for s in states[: WARM + 10].tolist():
        begin = time.perf_counter()
        atlas.plan((np.arange(atlas.counts.setting.n_states) == s).astype(float))
        alone.append(1000 * (time.perf_counter() - begin))
    desk = Desk({"atlas": atlas})
    with Serving(desk) as serving:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(serving.url)
        page.wait_for_function("() => document.querySelector('.ars')?.dataset.shown > 0", timeout=120_000)
        strokes = [page.evaluate(STROKE, s) for s in states[: WARM + STROKES].tolist()]
        before = desk.worked
        after = page.evaluate(ROW, states[-50:].tolist())
        page.close()
    return strokes[WARM:], alone[WARM:], after, desk.worked - before


def main() -> None:
    from playwright.sync_api import sync_playwright

    table = Table(
        "", "stroke to picture, median", "nine of ten within", "goal", "the plan alone", "50 strokes: last picture after", "plans"
    )
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
                  "--disable-component-update", "--disable-sync"],
        )  # fmt: skip
        for name, (make, episodes, goal) in PROBLEMS.items():
            atlas = ar.explore(make(), 20, max_episodes=episodes, stationary=True, progress=False)
            strokes, alone, after, plans = measured(browser, atlas)
            times = median(strokes), np.quantile(strokes, 0.9), goal, median(alone), after
            table.add_row(name, *(f"{x:.0f} ms" for x in times), f"{plans} of 50")
        browser.close()
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
