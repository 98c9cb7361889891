"""Parsers of what a node's tools print: pure functions from text to official fields. A tool that is not there gives ""."""
