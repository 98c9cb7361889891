"""Plots: round ticks that cover the data, and text that cannot break the page."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from podium.report import plot


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ticks_cover_the_data(low, span):
    found = plot.ticks(low, low + span)
    assert 2 <= len(found) <= 12
    slack = 1e-6 * max(1, abs(low) + span)
    assert found[0] <= low + slack and found[-1] >= low + span - slack


def test_a_plot_is_well_formed_and_carries_every_value():
    line = plot.Line("run <1>", ((1, 0.5), (2, 0.75)), True)
    svg = plot.lines([line, plot.Line("empty", (), False)], "epochs", "top-1 & more")
    root = ElementTree.fromstring(svg)
    titles = [element.text for element in root.iter() if element.tag.endswith("title")]
    assert titles == ["run <1>: top-1 & more 0.5 at epochs 1", "run <1>: top-1 & more 0.75 at epochs 2"]


def test_no_points_are_said_to_be_none():
    assert "No evaluation" in plot.lines([], "epochs", "accuracy")


def test_one_constant_point_has_axes():
    ElementTree.fromstring(plot.lines([plot.Line("run", ((0.0, 0.0),), False)], "x", "y"))
