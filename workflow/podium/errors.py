"""What Podium says when it cannot go on: the thing, what was expected, what was found, the next command."""

from __future__ import annotations

GOOD, FINDINGS, BAD_INPUT, ENVIRONMENT = 0, 1, 2, 3


class PodiumError(Exception):
    """An error a person can act on; `code` is the exit status of the process (design section 5)."""

    code = BAD_INPUT

    def __init__(self, thing: str, expected: str, found: str, next: str) -> None:
        super().__init__(thing, expected, found, next)  # all four, so that it can cross a process boundary
        self.thing, self.expected, self.found, self.next = thing, expected, found, next

    def __str__(self) -> str:
        return f"{self.thing}\n  expected: {self.expected}\n  found:    {self.found}\n  next:     {self.next}"

    def as_json(self) -> dict:
        """The same content for machines (`--json`)."""
        return {"error": self.thing, "expected": self.expected, "found": self.found, "next": self.next}


class BadInput(PodiumError):
    """The config, a source or a file is not what it must be: exit status 2."""


class BadEnvironment(PodiumError):
    """The machine cannot do it: a service down, no space, no permission: exit status 3."""

    code = ENVIRONMENT


class Findings(PodiumError):
    """The work was done and its answer is no: not compliant, not converged: exit status 1."""

    code = FINDINGS
