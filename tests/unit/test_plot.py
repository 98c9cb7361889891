"""Plots: round ticks that cover the data, every value to be hovered over, and text that cannot break the page."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from podium.report import plot


def tips(svg: str) -> list[str]:
    return [
        element.attrib["data-tip"] for element in ElementTree.fromstring(svg).iter() if "data-tip" in element.attrib
    ]


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ticks_cover_the_data(low, span):
    found = plot.ticks(low, low + span)
    assert 2 <= len(found) <= 12
    slack = 1e-6 * max(1, abs(low) + span)
    assert found[0] <= low + slack and found[-1] >= low + span - slack


def test_a_plot_is_well_formed_and_carries_every_value():
    line = plot.Line("run <1>", ((1, 0.5), (2, 0.75)), True)
    svg = plot.lines([line, plot.Line("empty", (), False)], "epochs", "top-1 & more")
    assert tips(svg) == ["run <1>: top-1 & more 0.5 at 1 epochs", "run <1>: top-1 & more 0.75 at 2 epochs"]


@given(st.lists(st.tuples(st.floats(0, 1e7), st.floats(-10, 1e3)), min_size=1, max_size=20))
def test_no_mark_lies_outside_of_its_plot(points):
    svg = plot.lines([plot.Line("run", tuple(points), False)], "epochs", "quality", target=0.5)
    for circle in ElementTree.fromstring(svg).iter("circle"):
        assert plot.LEFT - 0.1 <= float(circle.attrib["cx"]) <= plot.WIDTH - plot.RIGHT + 0.1
        assert plot.TOP - 0.1 <= float(circle.attrib["cy"]) <= plot.HEIGHT - plot.BOTTOM + 0.1


def test_target_and_band_are_drawn_where_the_runs_are():
    line = plot.Line("run", ((35, 0.7), (36, 0.76)), True)
    near, far = plot.Band(34, 35, "RCP 35"), plot.Band(3e5, 3.5e5, "RCP far away")
    assert "RCP 35" in tips(plot.lines([line], "epochs", "accuracy", 0.759, near))
    assert "target: accuracy 0.759" in tips(plot.lines([line], "epochs", "accuracy", 0.759, near))
    assert "RCP far away" not in tips(plot.lines([line], "epochs", "accuracy", 0.759, far))


def test_one_wild_value_does_not_flatten_the_others():
    calm = [plot.Line(f"run {index}", ((1, 1.0), (2, 0.1)), True) for index in range(9)]
    svg = plot.lines([*calm, plot.Line("wild", ((1, 25.0), (2, 0.1)), True)], "epochs", "word error rate")
    assert ">25<" not in svg and "wild: word error rate 25 at 1 epochs" in tips(svg)


def test_no_points_are_said_to_be_none():
    assert "No evaluation" in plot.lines([], "epochs", "accuracy")
    assert "No run" in plot.stacked([], ("train",), "run")
    assert "No attempt" in plot.timeline([], "")


def test_one_constant_point_has_axes():
    ElementTree.fromstring(plot.lines([plot.Line("run", ((0.0, 0.0),), False)], "x", "y"))


def test_columns_stack_to_the_whole_and_long_ones_are_in_minutes():
    columns = [plot.Column("0", (("init", 60.0), ("train", 3000.0)))]
    assert tips(plot.stacked(columns, ("init", "train"), "run")) == ["run 0: init 1, train 50; 51 minutes in all"]
    columns = [plot.Column("0", (("init", 1.0), ("train", 3.0)))]
    assert tips(plot.stacked(columns, ("init", "train"), "run")) == ["run 0: init 1, train 3; 4 seconds in all"]


def test_attempts_at_the_same_time_have_lanes_of_their_own():
    spans = [plot.Span("a", 0, 60, "converged", "one"), plot.Span("a", 30, 90, "failed", "two")]
    spans.append(plot.Span("a", 60, 120, "converged", "three"))
    marks = {
        element.attrib["data-tip"]: element.attrib["y"]
        for element in ElementTree.fromstring(plot.timeline(spans, "then")).iter("rect")
    }
    assert marks["one"] == marks["three"] != marks["two"]
