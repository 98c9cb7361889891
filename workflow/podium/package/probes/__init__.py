"""Parsers of what a node's tools print: pure functions from text to official fields. A missing tool gives ""."""
