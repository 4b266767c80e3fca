"""The page in a real browser: Debian's Chromium, driven by Playwright. Without one, these tests are skipped, and say so."""

import base64
import gzip
import json
import re
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import anyreward as ar
from anyreward.studio.desk import Desk
from anyreward.studio.exporting import script, style
from anyreward.studio.live import Live
from anyreward.studio.opening import Serving
from anyreward.words import down, up

from .conftest import EVIL

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if BROWSER is None:
    pytest.skip(
        "no Chromium is installed (Debian: apt install chromium), so the page is not tried in a browser", allow_module_level=True
    )
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: the page is not tried in a browser")

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
AXE = gzip.decompress((Path(__file__).parent / "axe.min.js.gz").read_bytes()).decode()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def serving(grid, hostile, tmp_path_factory):
    live = Live(
        {"small grid": ar.envs.grid_world(5, 6, start=(2, 2), goal=(4, 5))}, tmp_path_factory.mktemp("out") / "live.atlas"
    )
    with Serving(Desk({"grid": grid, "hostile": hostile}, live)) as serving:
        yield serving


class Studio:
    """The page, as a reader uses it."""

    def __init__(self, page, problems):
        self.page, self.problems = page, problems
        page.set_default_timeout(15_000)

    def settled(self):
        """Waits until the picture is that of the newest reward."""
        self.page.wait_for_function(
            "() => { const r = document.querySelector('.ars'); "
            "return r.dataset.shown && !r.classList.contains('busy') && +r.dataset.shown >= +r.dataset.asked; }"
        )
        return self

    def place(self, state):
        return self.page.evaluate(
            "s => { const { scene } = document.querySelector('.ars').app.stage, b = scene.canvas.getBoundingClientRect(),"
            " [x, y] = scene.layout.place(s, 0), z = scene.zoom;"
            " return [b.x + scene.x + (x + 0.5) * z, b.y + scene.y + (y + 0.5) * z * scene.squash]; }", state)  # fmt: skip

    def paint(self, *states):
        self.page.locator("canvas").first.scroll_into_view_if_needed()
        self.page.mouse.move(*self.place(states[0]))
        self.page.mouse.down()
        for state in states[1:]:
            self.page.mouse.move(*self.place(state), steps=3)
        self.page.mouse.up()
        return self.settled()

    def bounds(self):
        """What the page says of the value: (lower, upper), as it is printed."""
        return tuple(map(float, self.page.locator(".certain").inner_text().split(" to ")))

    def shows(self, plan):
        assert self.page.locator(".big").inner_text() == f"{plan.value:.4g}"
        assert self.page.locator(".certain").inner_text() == f"{down(plan.lower)} to {up(plan.upper)}"

    def open(self, title):
        fold = self.page.locator("details.fold", has=self.page.get_by_role("heading", name=title, exact=True))
        if not fold.evaluate("e => e.open"):
            fold.locator("summary").first.click()
        return fold

    def axe(self):
        """What axe finds wrong that is serious."""
        self.page.evaluate(AXE)
        found = self.page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
        return [
            (v["id"], v["nodes"][0]["html"][:120], v["nodes"][0]["failureSummary"])
            for v in found
            if v["impact"] in ("serious", "critical")
        ]


@pytest.fixture
def studio(browser, serving):
    yield from opened(browser, serving.url)


def opened(browser, url, width=1300, height=900, **options):
    context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True, **options)
    page, problems = context.new_page(), []
    page.on("pageerror", lambda problem: problems.append(str(problem)))
    page.on(
        "console",
        lambda message: problems.append(message.text) if message.type == "error" and "422" not in message.text else None,
    )
    page.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
    page.goto(url)
    yield Studio(page, problems).settled()
    context.close()
    assert problems == []


def reward_at(*states):
    return np.isin(np.arange(30), states).astype(float)


def test_what_is_painted_is_planned_for_as_by_the_atlas(studio, grid):
    studio.shows(grid.plan(np.zeros(30)))
    studio.paint(29).shows(grid.plan(reward_at(29)))
    studio.paint(20, 23).shows(grid.plan(reward_at(29, 20, 21, 22, 23)))
    studio.page.get_by_role("button", name="erase").click()
    studio.paint(21, 22).shows(grid.plan(reward_at(29, 20, 23)))
    studio.page.get_by_role("button", name="brush value -0.5").click()
    studio.page.get_by_label("size of the brush").select_option("3")
    r = reward_at(29, 20, 23)
    r[[0, 1, 2, 6, 7, 8, 12, 13, 14]] = -0.5
    studio.paint(7).shows(grid.plan(r, reward_range=(-0.5, 1)))
    studio.page.get_by_label("cautious").check()
    studio.settled().shows(grid.plan(r, reward_range=(-0.5, 1), cautious=True))
    studio.page.get_by_label("cautious").uncheck()
    studio.page.get_by_role("button", name="Fill").click()
    studio.page.get_by_role("button", name="brush value 0.5", exact=True).click()
    r[r == 0] = 0.5
    studio.paint(17).shows(grid.plan(r, reward_range=(-0.5, 1)))


def test_some_actions_and_steps_alone(studio, grid):
    page = studio.page
    page.get_by_text("Some actions or steps only").click()
    page.get_by_label("actions that are painted").select_option("1")
    page.get_by_label("steps that are painted").select_option("range")
    page.get_by_label("from step").fill("2")
    page.get_by_label("to", exact=True).fill("5")
    page.keyboard.press("Tab")
    r = np.zeros((8, 30, 4))
    r[2:6, 15, 1] = 1
    studio.paint(15).shows(grid.plan(r))
    page.get_by_role("button", name="Over time").click()
    page.get_by_label("steps that are painted").select_option("")
    page.mouse.click(
        *page.evaluate(
            "() => { const { scene } = document.querySelector('.ars').app.stage, b = scene.canvas.getBoundingClientRect(); "
            "return [b.x + scene.x + 20.5 * scene.zoom, b.y + scene.y + 7.5 * scene.zoom * scene.squash]; }"
        )
    )
    r[7, 20, 1] = 1
    studio.settled().shows(grid.plan(r))


def test_expressions_are_checked_while_they_are_typed(studio, grid):
    page = studio.page
    page.get_by_label("add a term").select_option("expression")
    text = page.get_by_label("expression of formula")
    text.fill("state ==")
    page.get_by_role("alert").get_by_text("is not an expression").wait_for()
    assert text.get_attribute("aria-invalid") == "true"
    text.fill("open('/etc/passwd')")
    page.get_by_role("alert").get_by_text("not allowed").wait_for()
    text.fill("state == 9999")
    page.get_by_text("states go from 0 to 29: that is never true").wait_for()
    assert text.get_attribute("aria-invalid") == "false"
    page.get_by_label("add a term").select_option("expression")
    page.get_by_label("expression of formula 2").fill("1 +")
    page.get_by_role("alert").get_by_text("is not an expression").wait_for()
    said = page.locator(".term").filter(has=page.get_by_label("expression of formula 2")).locator(".said")
    assert "is not an expression" in said.inner_text()  # beside the one that is wrong
    assert [page.get_by_label(f"expression of formula{n}", exact=True).get_attribute("aria-invalid") for n in ("", " 2")] == [
        "false", "true",
    ]  # fmt: skip
    page.get_by_role("button", name="remove formula 2").click()
    page.get_by_label("name of term 1").fill("goal")
    text = page.get_by_label("expression of formula")
    text.click()  # from one control to the next, which is still the same one
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("(state == 29) - 0.2 * (action == 0)")
    studio.settled()
    page.wait_for_function("() => !document.querySelector('.terms .error')")
    r = np.zeros((8, 30, 4))
    r[:, 29] += 1
    r[:, :, 0] -= 0.2
    studio.shows(grid.plan(r, reward_range=(r.min(), r.max())))


def test_undo_redo_and_rewards_that_are_kept(studio, grid):
    page = studio.page
    studio.paint(29)
    studio.paint(0, 3)  # one drag is one step back
    page.get_by_label("name under which this reward is kept").fill(EVIL[:40])
    page.get_by_role("button", name="Keep").click()
    page.get_by_role("button", name="Undo").click()
    studio.settled().shows(grid.plan(reward_at(29)))
    page.locator("canvas").first.focus()
    page.keyboard.press("Control+z")
    studio.settled().shows(grid.plan(reward_at()))
    assert page.get_by_role("button", name="Undo").is_disabled()
    page.keyboard.press("Control+Shift+z")
    studio.settled().shows(grid.plan(reward_at(29)))
    page.get_by_role("list", name="rewards that were kept").get_by_role("button").first.click()
    studio.settled().shows(grid.plan(reward_at(29, 0, 1, 2, 3)))


def test_terms_have_weights_and_shares(studio, grid):
    page = studio.page
    studio.paint(29)
    page.get_by_label("add a term").select_option("expression")
    page.get_by_label("expression of formula").fill("action == 1")
    page.get_by_label("weight of formula", exact=True).fill("-0.1")
    studio.settled()
    plan = grid.plan(ar.term("paint", reward_at(29)) - 0.1 * ar.term("formula", "action == 1"))
    studio.shows(plan)
    rows = page.locator(".shares tr").all_inner_texts()
    assert [float(re.search(r"(\S+)$", row)[1]) for row in rows] == pytest.approx(
        [part.value for part in plan.terms.values()], abs=1e-3
    )
    page.get_by_label("weight of formula, slider").focus()
    page.keyboard.press("ArrowRight")
    studio.settled().shows(grid.plan(ar.term("paint", reward_at(29)) - 0.05 * ar.term("formula", "action == 1")))


def test_two_rewards_side_by_side(studio, grid):
    page = studio.page
    studio.paint(29)
    studio.open("Two rewards side by side").get_by_role("button", name="Set this reward aside").click()
    page.get_by_role("button", name="Undo").click()
    studio.settled()
    studio.paint(0)
    page.get_by_role("cell", name=re.compile(r"\d")).first.wait_for()
    mine, other = grid.plan(reward_at(0)), grid.plan(reward_at(29))
    crossed = grid.evaluate(mine.policy, reward_at(29))
    page.wait_for_function(
        "text => document.querySelector('table.grid')?.textContent.includes(text)", arg=f" to {up(crossed.upper)})"
    )
    table = page.locator("table.grid").inner_text()
    for found in (mine, other):
        assert f"{found.value:.4g}" in table
    assert page.locator("canvas").count() == 2
    assert page.locator("canvas").nth(1).is_visible()
    assert page.evaluate("() => document.querySelector('.ars').app.cells.differ.any.some((x) => x)")


def test_goals_limits_and_trade_offs(studio, grid):
    page = studio.page
    goals = studio.open("Goals")
    goals.get_by_label("Arrive where").fill("state == 29")
    goals.get_by_role("button", name="Plan for it").click()
    page.get_by_text("This is the plan for a goal.").wait_for()
    found = grid.reach("state == 29")
    assert page.locator(".big").inner_text() == f"{found.value.value:.4g}"
    page.get_by_role("button", name="Back to the reward").click()
    studio.settled()
    studio.paint(29)
    limits = studio.open("Limits")
    limits.get_by_label("cost 1").fill("action == 1")
    limits.get_by_label("limit 1", exact=True).fill("5")
    limits.get_by_role("button", name="Plan within limits").click()
    limits.get_by_text("action == 1: certainly").wait_for()
    page.get_by_role("button", name="Back to the reward").click()
    page.get_by_label("add a term").select_option("expression")
    page.get_by_label("expression of formula").fill("state == 0")
    studio.settled()
    trade = studio.open("Trade-off")
    trade.get_by_role("button", name="Draw the curve").click()
    trade.get_by_role("button", name=re.compile("take this plan")).nth(3).focus()
    page.keyboard.press("Enter")
    studio.settled()
    curve = grid.trade_off(reward_at(29), reward_at(0), 7)
    taken = {"paint": curve.first[3].value, "formula": curve.second[3].value}
    weights = {name: float(page.get_by_label(f"weight of {name}", exact=True).input_value()) for name in taken}
    rows = [float(text.split()[-1]) for text in page.locator(".shares tr").all_inner_texts()]
    assert rows == pytest.approx([weights[name] * value for name, value in taken.items()], abs=1e-3)


def test_every_view_shows_the_same_and_an_episode_is_played(studio, grid):
    page = studio.page
    studio.paint(29)
    page.get_by_role("button", name="Table").click()
    page.get_by_label("search states").fill("29")
    row = page.get_by_role("row").filter(has=page.get_by_role("button", name="29", exact=True))
    assert row.get_by_role("cell").first.inner_text() == "1"
    row.get_by_role("button", name="paint 29 with 1").click()
    page.get_by_label("search states").fill("  2 9 ")
    row.wait_for()
    page.get_by_label("search states").fill("no such name")
    page.get_by_text("no such state").wait_for()
    page.get_by_role("button", name="Neighbours").click()
    page.locator(".graph .node").first.wait_for()
    page.get_by_role("button", name="Grid").click()
    for heat in ("value", "width", "why", "data", "time"):
        page.get_by_label("shade by").select_option(heat)
        studio.settled()
    page.get_by_label("step", exact=True).fill("3")
    assert page.get_by_label("step", exact=True).get_attribute("aria-valuetext") == "step 3"
    page.get_by_role("button", name="Play an episode").click()
    page.get_by_text("This episode earned").wait_for()
    page.mouse.move(*studio.place(10))
    page.mouse.wheel(0, -300)
    assert page.evaluate("() => document.querySelector('.ars').app.stage.scene.fitted") is False
    page.get_by_text("About").wait_for()  # how many more episodes


def test_ten_thousand_states_are_zoomed_panned_painted_and_searched(browser):
    atlas = ar.explore(ar.envs.grid_world(100, 100, start=(50, 50), goal=(52, 52)), 5, max_episodes=200, stationary=True)
    with Serving(Desk({"big": atlas})) as serving:
        for studio in opened(browser, serving.url):
            page = studio.page
            middle = page.evaluate(
                "() => { const b = document.querySelector('canvas').getBoundingClientRect(); "
                "return [b.x + b.width / 2, b.y + b.height / 2]; }"
            )
            seen = (
                "([x, y]) => { const { scene } = document.querySelector('.ars').app.stage, "
                "b = scene.canvas.getBoundingClientRect(); return scene.found(x - b.x, y - b.y)[0]; }"
            )
            begin = page.evaluate(seen, middle)
            page.mouse.move(*middle)
            for _ in range(8):
                page.mouse.wheel(0, -300)
            assert page.evaluate("() => document.querySelector('.ars').app.stage.scene.zoom") > 60
            assert page.evaluate(seen, middle) == begin  # it grows around the pointer
            page.get_by_role("button", name="move the picture").click()
            page.mouse.move(*middle)
            page.mouse.down()
            page.mouse.move(middle[0] - 230, middle[1] - 220, steps=4)
            page.mouse.up()
            there = page.evaluate(seen, middle)
            assert there % 100 > begin % 100
            assert there // 100 > begin // 100
            page.get_by_role("button", name="move the picture").click()
            page.mouse.click(*middle)
            studio.settled().shows(atlas.plan((np.arange(10_000) == there).astype(float)))
            page.get_by_role("button", name="Table").click()
            page.get_by_label("search states").fill(str(there))
            page.get_by_role("button", name=f"paint {there} with 1").wait_for()
            page.get_by_role("button", name="Neighbours").click()
            page.locator(".graph .node").first.wait_for()
            assert page.evaluate("() => document.querySelectorAll('*').length") < 1000  # states are no nodes of the document


def test_with_the_keyboard_alone(studio, grid):
    page = studio.page
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.tagName") == "CANVAS":
            break
    else:
        raise AssertionError("the picture cannot be reached by Tab")
    for key in ["ArrowDown"] * 2 + ["ArrowRight"] * 3:
        page.keyboard.press(key)
    assert "15: " in page.locator("[aria-live=polite].unseen").inner_text()
    page.keyboard.press(" ")
    studio.settled().shows(grid.plan(reward_at(15)))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    studio.settled().shows(grid.plan(reward_at(14, 15)))
    page.wait_for_function("() => document.querySelector('[aria-live=polite].unseen').textContent.startsWith('Value ')")
    page.keyboard.press("Control+z")
    studio.settled().shows(grid.plan(reward_at(15)))


@pytest.mark.parametrize(("width", "scheme"), [(1300, "light"), (1300, "dark"), (390, "light")])
def test_axe_finds_nothing_serious(browser, serving, width, scheme):
    for studio in opened(browser, serving.url, color_scheme=scheme):
        studio.page.set_viewport_size({"width": width, "height": 850})
        studio.page.get_by_label("add a term").select_option("expression")
        studio.settled()
        studio.paint(7)
        for title in ("Two rewards side by side", "Goals", "Limits", "Trade-off", "Explore", "Take it with you"):
            studio.open(title)
        studio.page.get_by_text("About").wait_for()
        assert studio.axe() == []
        assert studio.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), (
            "the page is wider than the screen"
        )
        for view in ("Table", "Neighbours"):
            studio.page.get_by_role("button", name=view).click()
            studio.page.locator(".graph .node, .table tbody tr").first.wait_for()
            assert studio.axe() == []


TOO_WIDE = """() => [...document.querySelectorAll('.ars, .ars *')].filter((e) => {
  const { left, right, width } = e.getBoundingClientRect();
  const cut = getComputedStyle(e).overflowX === 'visible' && e.scrollWidth > e.clientWidth + 1;
  const round = e.matches('.unseen, .scroll *, .tabs *, svg *, option, select, span, label, i, b') || !e.clientWidth;
  return width > 0 && !e.closest('.unseen, .scroll table') && (left < -0.5 || right > innerWidth + 0.5 || (cut && !round));
}).map((e) => e.outerHTML.slice(0, 120))"""


@pytest.mark.parametrize(("width", "height"), [(360, 740), (390, 844)])
def test_a_phone_shows_everything(browser, serving, width, height):
    for studio in opened(browser, serving.url, width, height, has_touch=True, is_mobile=True):
        page = studio.page
        for kind in ("expression", "paint", "expression"):
            page.get_by_label("add a term").select_option(kind)
        page.get_by_label("name of term 1").fill("a name that is much longer than a phone")
        page.get_by_label("expression of formula 2").fill("state == 9999 and action == " + "7" * 60)
        studio.settled()
        page.get_by_text("that is never true").first.wait_for()
        for title in ("Two rewards side by side", "Goals", "Limits", "Trade-off", "Explore", "Take it with you"):
            studio.open(title)
        page.locator("canvas").first.scroll_into_view_if_needed()
        page.touchscreen.tap(*studio.place(8))
        studio.settled()
        assert page.evaluate("() => document.querySelector('.ars').app.cells.rewardAt(8, null)") == 1
        page.get_by_role("heading", name="This state").scroll_into_view_if_needed()
        page.get_by_text("with probability", exact=False).first.wait_for()
        studio.open("Two rewards side by side").get_by_role("button", name="Set this reward aside").click()
        page.locator("table.grid").wait_for()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.evaluate("() => scrollTo(0, 0)")
            assert page.locator("header").bounding_box()["height"] <= 0.15 * height
            legend = page.get_by_role("list", name="legend")
            assert legend.evaluate("e => e.scrollWidth <= e.clientWidth && e.scrollHeight <= e.clientHeight + 1")
            assert len(legend.get_by_role("listitem").all_inner_texts()) == 5  # the plans differ, too
            for view in ("Table", "Neighbours", "Over time", "Grid"):
                page.get_by_role("button", name=view, exact=True).click()
                page.locator(".graph .node, .table tbody tr, canvas:visible").first.wait_for()
                assert page.evaluate(TOO_WIDE) == []
                assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_whatever_things_are_called_nothing_of_it_is_run(studio):
    page = studio.page
    page.get_by_label("atlas", exact=True).select_option("hostile")
    page.wait_for_function("() => document.querySelector('.ars').app.hello.atlas === 'hostile'")
    studio.settled()
    studio.paint(2)
    page.get_by_label("name of term 1").fill(EVIL[:40])
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Table").click()
    assert f"{EVIL} 3" in page.locator(".table").inner_text()
    assert f"{EVIL} a" in page.locator(".table").inner_text()
    page.get_by_role("button", name="Neighbours").click()
    page.locator(".graph .node").first.wait_for()
    page.get_by_label("add a term").select_option("expression")
    page.get_by_label("expression of formula").fill(EVIL)
    page.get_by_text("is not an expression").wait_for()
    page.get_by_role("button", name="Undo").click()
    with page.expect_download() as download:
        studio.open("Take it with you").get_by_role("button", name="picture as a page").click()
    html = Path(download.value.path()).read_text()
    assert html.lower().count("<script") == html.lower().count("</script") == 2
    assert EVIL not in html
    assert page.title() == "Reward studio"
    assert page.locator("img").count() == page.locator("body script").count() == 0


def test_the_exported_page_shows_the_same_without_server_and_network(studio, browser, grid, tmp_path):
    studio.paint(29)
    studio.page.get_by_label("step", exact=True).fill("2")
    with studio.page.expect_download() as download:
        studio.open("Take it with you").get_by_role("button", name="picture as a page").click()
    download.value.save_as(tmp_path / "picture.html")
    context = browser.new_context(offline=True)
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda problem: wrong.append(str(problem)))
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
    page.goto((tmp_path / "picture.html").as_uri())
    kept = Studio(page, wrong).settled()
    kept.shows(grid.plan(reward_at(29)))
    assert page.get_by_label("step", exact=True).input_value() == "2"
    assert page.evaluate("() => document.querySelector('.ars').app.cells.rewardAt(29, 2)") == 1
    page.get_by_role("button", name="Table").click()
    page.get_by_text("About").wait_for()
    assert kept.axe() == []
    context.close()
    assert wrong == []


def test_a_link_carries_the_reward_and_not_the_key(studio, grid, serving):
    studio.paint(29)
    studio.page.wait_for_function("() => location.hash.includes('reward=')")
    link = studio.page.evaluate("() => location.href")
    assert serving.token not in link
    page = studio.page.context.new_page()
    page.goto(link)
    Studio(page, []).settled().shows(grid.plan(reward_at(29)))
    page.goto("about:blank")
    page.goto(f"http://127.0.0.1:{serving.port}/#reward=damaged")
    Studio(page, []).settled().shows(grid.plan(reward_at()))


def test_without_the_key_the_page_says_what_to_do(browser, serving):
    context = browser.new_context()
    page = context.new_page()
    for url in (f"http://127.0.0.1:{serving.port}/", f"http://127.0.0.1:{serving.port}/#key=wrong"):
        page.goto("about:blank")
        page.goto(url)
        page.get_by_text("open the address that was printed").wait_for()
    context.close()


def test_files_are_loaded_and_written(studio, grid, tmp_path):
    (tmp_path / "goal.csv").write_text("s,reward\n29,1\n")
    studio.page.locator("input[type=file]").set_input_files(tmp_path / "goal.csv")
    studio.page.get_by_label("name of term 2").wait_for()
    studio.settled().shows(grid.plan(reward_at(29)))
    with studio.page.expect_download() as download:
        studio.open("Take it with you").get_by_role("button", name="policy as npz").click()
    with np.load(download.value.path(), allow_pickle=False) as kept:
        assert (kept["policy"] == grid.plan(reward_at(29)).policy).all()


def test_fifty_strokes_in_a_row_do_not_pile_up(studio, grid, serving):
    before = serving.desk.worked
    studio.page.evaluate(
        "() => { const { app } = document.querySelector('.ars'); "
        "for (let s = 0; s < 25; s++) { app.paint([s], null, `a${s}`); app.paint([s], null, `b${s}`); } }"
    )
    studio.settled().shows(grid.plan(reward_at(*range(25))))
    assert serving.desk.worked - before <= 3


def test_exploring_live(studio, serving):
    page = studio.page
    panel = studio.open("Explore")
    panel.get_by_label("environment").select_option("double-chain")
    panel.get_by_label("until ε").fill("0.02")
    panel.get_by_role("button", name="Explore", exact=True).click()
    page.wait_for_function("() => document.querySelector('.ars').app.picture.n_states === 31")
    studio.settled()
    panel = studio.open("Explore")
    panel.get_by_role("button", name="Pause").click()
    panel.get_by_role("button", name="Go on").wait_for()
    panel.get_by_text("saved in").wait_for()
    text = panel.locator("p b").first.inner_text()
    panel.get_by_role("button", name="Go on").click()
    page.wait_for_function(
        "before => [...document.querySelectorAll('details.fold p b')]"
        ".some((b) => b.textContent !== before && /^[\\d,.]+( million)?$/.test(b.textContent))",
        arg=text,
    )
    assert panel.locator("figure.chart").count() == 3
    studio.paint(30)
    assert studio.bounds()[1] > 0
    serving.desk.live.close()


def test_what_was_explored_last_is_what_is_shown(studio, serving):
    page = studio.page
    panel = studio.open("Explore")
    panel.get_by_label("environment").select_option("small grid")
    panel.get_by_label("Horizon").fill("8")
    panel.get_by_role("button", name="Explore", exact=True).click()
    page.get_by_text(": certified.").wait_for()
    episodes = studio.open("Explore").locator("p b").first.inner_text()
    page.locator("header").get_by_text(f"{episodes} episodes", exact=True).wait_for()
    assert serving.desk.live.atlas.certificate.met
    assert f"{serving.desk.live.atlas.episodes:,}" == episodes
    serving.desk.live.close()


def test_the_points_of_a_trade_off_can_be_chosen_with_the_mouse(studio, grid):
    page = studio.page
    for text in ("state == 29", "state == 0", "action == 1"):
        page.get_by_label("add a term").select_option("expression")
        page.get_by_role("textbox", name=re.compile("^expression of")).last.fill(text)
    trade = studio.settled().open("Trade-off")
    trade.get_by_role("button", name="Draw the curve").click()
    curve = grid.trade_off(reward_at(29), reward_at(0), 7)
    for i in (2, 5):  # boxes overlap, points do not hide behind them
        at = [(a.value, b.value) for a, b in zip(curve.first, curve.second, strict=True)]
        last = max(k for k in range(7) if np.hypot(at[k][0] - at[i][0], at[k][1] - at[i][1]) < 0.5)  # what lies there on top
        x, y = at[last]
        trade.locator(".point").nth(last).click()
        studio.settled()
        # The plan is exactly that one: the third term, which was no part of the trade-off, has no weight.
        shares = [float(text.split()[-1]) for text in page.locator(".shares tr").all_inner_texts()]
        weights = [float(page.get_by_label(f"weight of formula{n}", exact=True).input_value()) for n in ("", " 2", " 3")]
        assert weights[2] == 0
        assert shares == pytest.approx([weights[0] * x, weights[1] * y, 0], abs=1e-3)


def test_the_same_page_is_a_notebook_widget(browser, grid):
    desk = Desk({"grid": grid})
    context = browser.new_context()
    page, problems = context.new_page(), []
    page.on("pageerror", lambda problem: problems.append(str(problem)))

    def answered(sent):
        with suppress(ValueError):
            return json.loads(json.dumps(desk.answer(sent["name"], sent["asked"]), default=lambda x: x.item()))

    page.expose_function("answered", answered)
    page.set_content(f"<style>{style()}</style><div id='cell'></div>")
    module = "data:text/javascript;base64," + base64.b64encode(script().encode()).decode()
    page.evaluate(
        """async (module) => {
          const { render } = (await import(module)).default, listeners = [];
          const model = { on: (name, heard) => name === "msg:custom" && listeners.push(heard), get: () => null, set: () => null,
            send: async (sent) => {
              const answer = await window.answered(sent);
              listeners.forEach((heard) => heard({ number: sent.number, answer }));
            } };
          render({ model, el: document.getElementById("cell") });
        }""", module)  # fmt: skip
    studio = Studio(page, problems).settled()
    studio.paint(29).shows(grid.plan(reward_at(29)))
    context.close()
    assert problems == []
