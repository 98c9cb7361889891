"""The report in a real browser: it needs nothing but itself, shows its values, and fits a phone and a desk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from podium import cli, files, plan
from podium.package import system
from podium.report.report import report_file
from services.chromium_service import Page
from support import SCRIPTED

RESULTS = [
    {"system": name, "benchmark": "resnet", "implementation": str(SCRIPTED), "config": config}
    for name, config in (("host", "good"), ("other", "never"))
]
SYSTEMS = {name: {"nodes": 1, "gpus_per_node": 0} for name in ("host", "other")}


@pytest.fixture
def report(tmp_path, work_root) -> Path:
    """A page with a good and an invalid result, and nodes and runs that differ."""
    config = work_root(tmp_path / "work", systems=SYSTEMS, results=RESULTS)
    item = plan.plans(config)[0]
    told = system.facts_file(config, "host")
    different = {"accelerators": {"8": ["n1", "n2"], "7": ["n3"]}}
    files.write_json(told, {**files.read_json(told), "differences": different})
    environment = plan.result_folder(config, item) / "2" / "environment.json"
    files.write_json(environment, {**files.read_json(environment), "kernel": "another <kernel>"})
    assert cli.main(["report", "--config", str(config.path)]) == 0
    return report_file(config)


@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, False), (1280, True)])
def test_the_page_needs_nothing_but_itself_and_fits(page: Page, report: Path, tmp_path: Path, width: int, dark: bool):
    page.open(report, width, dark=dark)
    assert page.errors == []
    assert all(url.startswith(("file://", "data:")) for url in page.requests), page.requests
    assert page.value("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen"
    assert page.value("document.querySelectorAll('svg').length") == 5
    # The smallest text on a phone, as it is shown: that of the plots.
    shown = "12 * document.querySelector('figure svg').getBoundingClientRect().width / 460"
    assert page.value(shown) >= 8.5
    luminance = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b) / 3"
    assert (page.value(luminance) < 60) is dark
    pictures = Path(os.environ.get("PODIUM_SCREENSHOTS", tmp_path))
    picture = pictures / f"report-{width}-{'dark' if dark else 'light'}.png"
    page.screenshot(picture)
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000


TIP = "document.getElementById('tip')"
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"


def test_values_show_where_a_mark_is_pointed_at_and_tables_open(page: Page, report: Path):
    page.open(report, 1280)
    assert page.value(f"getComputedStyle({TIP}).visibility") == "hidden"
    page.value("document.querySelector('circle.hit').scrollIntoView({block: 'center'})")
    page.value(FRAMES)  # the end of the scrolling is told to the page, too
    box = page.value("document.querySelector('circle.hit').getBoundingClientRect().toJSON()")
    page.point_at(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.value(f"getComputedStyle({TIP}).visibility") == "visible"
    assert "top-1 accuracy 0.9 at 1 epochs" in page.value(f"{TIP}.textContent")
    page.point_at(2, 2)
    assert page.value(f"getComputedStyle({TIP}).visibility") == "hidden"
    page.value("document.querySelectorAll('details').forEach(item => item.open = true)")
    assert page.value("document.querySelector('details table').getBoundingClientRect().height") > 50
    assert page.errors == []


def test_what_differs_and_what_is_invalid_is_to_be_read(page: Page, report: Path):
    page.open(report, 1280)
    told = page.value("document.body.innerText")
    assert "another <kernel>" in told and "n3" in told
    assert page.value("[...document.querySelectorAll('#board .chip')].map(chip => chip.textContent)") == [
        "paperwork",
        "invalid",
    ]
    assert "unverified" in told
