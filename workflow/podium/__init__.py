"""Podium: one MLPerf Training submission from an empty cluster to a checked, packed archive."""

__version__ = "0.1.0"
