"""Compliance of one log with the rule files of a round: the official checker's answer and words, line by line.

The rule files are the official ones and their code is what is evaluated; this module only runs it as
mlperf_logging.compliance_checker.mlp_compliance does. The official checker goes over all lines once for each rule file,
and a rule file can ask for another one (submission_division asks for that of the division, and so on). Here every line
goes to all rule files at once, so that a log is read once and never held; a rule file that is asked for later is shown
the lines that it missed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium.verdict.official import rulefiles
from podium.verdict.official.rulefiles import KeyRule, RuleFile, Test
from podium.verdict.reading.logs import LogLine

REMEMBERED = 4096  # lines kept for a rule file that is asked for later; after that the log is read again for it


@dataclass(frozen=True)
class Message:
    """What the official checker says. `kind` is Podium's rule id; `line` is the line of the file, 0 where none is."""

    text: str
    kind: str
    key: str = ""
    line: int = 0
    expected: str = ""
    found: str = ""


@dataclass(frozen=True)
class Outcome:
    """The answer on one log: warnings do not make it fail, errors do. Order and words are the official ones."""

    warnings: tuple[Message, ...]
    errors: tuple[Message, ...]

    @property
    def passed(self) -> bool:
        return not self.errors


@dataclass(frozen=True)
class Fall:
    """Where the official tool falls over instead of answering: the exception, and Podium's rule id for the cause."""

    kind: str
    error: str
    line: int = 0
    expected: str = ""
    found: str = ""


class Compliance:
    """The check of one log: `feed` it every record in file order, then `finish`.

    `fall` is set where an exception leaves the official checker: it has no answer for such a log.
    """

    def __init__(self, round: str) -> None:
        self._courses = [_Course(rulefiles.load(f"training_{round}/common.yaml"))]
        self.fall: Fall | None = None
        self._fed = 0
        self._seen: list[LogLine] | None = []
        self._missed: list[_Course] = []
        self._for: dict[str, list[tuple[_Course, KeyRule]]] = {}
        self._enter(self._courses[0])

    def feed(self, line: LogLine) -> None:
        """Show a record to every rule file that is in play."""
        self._fed += 1
        if self._seen is not None:
            self._seen.append(line)
            if len(self._seen) > REMEMBERED:
                self._seen = None
        if self.fall is not None:
            return
        try:
            for course, rule in self._for.get(line.key, ()) if isinstance(line.key, str) else ():
                course.check(line, rule)
                if course.asked:
                    self._join(course)
        # The code of a rule can raise anything, and where the official checker does not catch it, it has no answer.
        except Exception as error:  # noqa: BLE001
            self.fall = _fall(error, line)

    def finish(self, again: Callable[[], Iterable[LogLine]], before: Sequence[Message] = ()) -> Outcome | None:
        """Count the required keys and give the answer, after what was said `before`; None after a fall.

        `again` yields the log's records once more; it is called only for rule files that were asked for after the
        remembered lines, or that look at all lines first.
        """
        if self.fall is None:
            try:
                return self._finish(again, before)
            except Exception as error:  # noqa: BLE001
                self.fall = _fall(error, None)
        return None

    def _finish(self, again: Callable[[], Iterable[LogLine]], before: Sequence[Message]) -> Outcome:
        while self._missed:
            course = self._missed.pop(0)
            lines = list(again()) if course.rules.whole else again()
            course.begin(lines)
            for line in lines:
                course.show(line)
            self._join(course)
        errors = [*before, *([] if self._fed else [Message("No log lines detected", "log-empty")])]
        warnings: dict[str, Message] = {}
        keyed: dict[str, Message] = {}
        for course in self._in_official_order():
            # What an earlier rule file said of a key is void where a later one has a rule for it.
            for key in course.rules.keys:
                keyed.pop(key, None)
            course.count()
            warnings |= course.warnings
            keyed |= course.keyed
            errors += course.plain
        return Outcome(tuple(warnings.values()), (*keyed.values(), *errors))

    def _enter(self, course: _Course) -> None:
        course.begin(())
        for name, rule in course.rules.keys.items():
            self._for.setdefault(name, []).append((course, rule))

    def _join(self, parent: _Course) -> None:
        """Bring the rule files that `parent` asked for into play, and those that they ask for in turn."""
        while parent.asked:
            course = _Course(rulefiles.load(parent.asked.pop(0)))
            parent.children.append(course)
            if course.rules.whole or self._seen is None:
                self._missed.append(course)
                continue
            course.begin(())
            for line in self._seen:
                course.show(line)
            for name, rule in course.rules.keys.items():
                # A new list: `feed` may be in the middle of the old one.
                self._for[name] = [*self._for.get(name, ()), (course, rule)]
            self._join(course)

    def _in_official_order(self) -> Iterator[_Course]:
        """The official checker finishes one rule file and then takes the next of the queue."""
        queue = list(self._courses)
        while queue:
            yield (course := queue.pop(0))
            queue += course.children


class _Course:
    """One rule file's way over the lines of a log: its state, its counts, its messages."""

    def __init__(self, rules: RuleFile) -> None:
        self.rules = rules
        self.asked: list[str] = []  # rule files that its code has asked for and that are not in play yet
        self.children: list[_Course] = []
        self.warnings: dict[str, Message] = {}
        self.keyed: dict[str, Message] = {}
        self.plain: list[Message] = []
        self._shared: dict[str, Any] = {}
        self._names = {"enqueue_config": self.asked.append, "s": self._shared, "is_integer": _is_integer, "math": math}
        self._counts = dict.fromkeys(rules.keys, 0)
        self._values: dict[str, list[Any]] = {name: [] for name in rules.keys}
        self._hits: dict[str, int] = {}
        self._once: set[str] = set()
        self._first: set[str] = set()

    def begin(self, lines: Sequence[LogLine] | Iterable[LogLine]) -> None:
        """Run the BEGIN code, which may look at the lines and add some."""
        if self.rules.begin is not None:
            exec(_code(self.rules.begin), self._names, {"s": self._shared, "loglines": lines})

    def show(self, line: LogLine) -> None:
        """Check a record by the rule for its key; a key without one is allowed."""
        rule = self.rules.keys.get(line.key) if isinstance(line.key, str) else None
        if rule is not None:
            self.check(line, rule)

    def check(self, line: LogLine, rule: KeyRule) -> None:
        self._counts[rule.name] += 1
        if rule.required == "EXACTLY_ONE":
            self._values[rule.name].append(line.value["value"])
        if rule.name not in self._once:
            if rule.pre is not None:
                self._run(line, rule.pre, "PRE")
            if rule.checks:
                self._evaluate(line, rule.checks)
            if rule.post is not None:
                self._run(line, rule.post, "POST")
        if rule.first_checks and rule.name not in self._first:
            self._first.add(rule.name)
            self._evaluate(line, rule.first_checks)
        if rule.at_least_one is not None:
            # Not guarded: on a value of another type the official checker falls over here.
            good = eval(_code(rule.at_least_one), self._names, {"ll": line, "v": line.value})
            self._hits[rule.name] = self._hits.get(rule.name, 0) + bool(good)
        if "submission_" in rule.name:
            self._once.add(rule.name)

    def count(self) -> None:
        """What can be said only after the last line: targets, required keys, the END checks."""
        for name, hits in self._hits.items():
            if not hits:
                wanted = self.rules.keys[name].at_least_one.text
                text = f"Failed checks for {name} : {wanted}"
                self.plain.append(Message(text, "log-target", name, 0, wanted.strip(), "no line for which it holds"))
        alternatives: dict[frozenset[str], list[str]] = {}
        for name, rule in self.rules.keys.items():
            self._count_key(name, rule, alternatives)
        for names in alternatives.values():
            if not any(self._counts[name] for name in names):
                text = "Required AT_LEAST_ONE occurrence of " + " or ".join(f"'{name}'" for name in names)
                self.plain.append(Message(text, "log-key", names[0], 0, "at least one of " + ", ".join(names), "none"))
        if self.rules.end is not None:
            exec(_code(self.rules.end), self._names)
        for test in self.rules.end_checks:
            self._evaluate_end(test)

    def _count_key(self, name: str, rule: KeyRule, alternatives: dict[frozenset[str], list[str]]) -> None:
        required, found = rule.required, self._counts[name]
        if required is None:
            return
        if required == "EXACTLY_ONE" and found != 1:
            self._not_exactly_one(name)
        if required == "AT_LEAST_ONE" and not found:
            text = f"Required AT_LEAST_ONE occurrence of '{name}' but found 0"
            self.keyed[name] = Message(text, "log-key", name, 0, "at least one", "none")
        if required.startswith("AT_LEAST("):
            least = int(required[len("AT_LEAST(") : -1])
            if found < least:
                text = f"Required AT_LEAST({least}) occurrence of '{name}' but found {found}"
                self.keyed[name] = Message(text, "log-key", name, 0, f"at least {least}", str(found))
        if required.startswith("AT_LEAST_ONE_OR"):
            # The official checker lists them in the order of a set, which differs from process to process.
            others = [part.strip() for part in required[len("AT_LEAST_ONE_OR(") : -1].split(",")]
            alternatives.setdefault(frozenset((name, *others)), [name, *others])

    def _not_exactly_one(self, name: str) -> None:
        values = self._values[name]
        text = f"Required EXACTLY_ONE occurrence of '{name}' but found {len(values)}"
        if values and values.count(values[0]) == len(values):
            self.warnings[name] = Message(text, "log-key-repeated", name, 0, "exactly one", f"{len(values)}, all equal")
            return
        if values:
            different = list(dict.fromkeys(map(str, values)))
            text += f" with different values: [{', '.join(different)}]"
            self.keyed[name] = Message(text, "log-key-differs", name, 0, "exactly one", ", ".join(different))
        else:
            self.keyed[name] = Message(text, "log-key", name, 0, "exactly one", "none")

    def _evaluate(self, line: LogLine, tests: Sequence[Test]) -> None:
        for test in tests:
            try:
                if not eval(_code(test), self._names, {"ll": line, "v": line.value}):
                    text = (
                        f"CHECK for '{line.key}' failed in line {line.lineno}:"
                        f"\n{line.full_string}"
                        f"\nfailed test: {test.text}"
                        f"\ncurrent context[s]={_pretty(self._shared)}"
                        f"\ncurrent line[v]={_pretty(line.value)}"
                    )
                    self._say(line, text, _kind(line.key, test.text), test.text)
            # Whatever a rule's code raises is a failed check to the official checker.
            except Exception:  # noqa: BLE001
                text = (
                    f"Failed executing CHECK code:"
                    f"\n{test.text}"
                    f"\ntriggered by line:"
                    f"\n{line.full_string}"
                    f"\ncurrent context[s]={_pretty(self._shared)}"
                )
                self._say(line, text, "log-value-type", test.text)

    def _evaluate_end(self, test: Test) -> None:
        try:
            if not eval(_code(test), self._names):
                text = f"failed test: {test.text}\ncurrent context[s]={_pretty(self._shared)}"
                found = "; ".join(f"{name}: {value}" for name, value in self._shared.items())
                self.plain.append(Message(text, "log-end", "", 0, test.text.strip(), found))
        except Exception:  # noqa: BLE001
            text = f"Failed executing CHECK code:\n{test.text}\ncurrent context[s]={_pretty(self._shared)}"
            self.plain.append(Message(text, "log-end", "", 0, test.text.strip(), "it cannot be evaluated"))

    def _run(self, line: LogLine, code: Test, action: str) -> None:
        try:
            exec(_code(code), self._names, {"ll": line, "v": line.value})
        except Exception:  # noqa: BLE001
            text = f"Failed executing code {action} code triggered by line :\n{line.full_string}"
            self._say(line, text, "log-value-type", code.text)

    def _say(self, line: LogLine, text: str, kind: str, expected: str) -> None:
        message = Message(text, kind, str(line.key), line.line, expected.strip(), _short(line.value["value"]))
        if line.key:
            self.keyed[line.key] = message
        else:
            self.plain.append(message)


def _kind(key: str, test: str) -> str:
    """The rule of Podium's catalogue that a failed CHECK belongs to."""
    if "first_init_start" in test:
        return "log-init-time"
    if "s['" in test and ("_started" in test or "_stopped" in test):
        return "log-order"
    return f"log-{key.replace('_', '-')}" if key in _NAMED else "log-metadata" if "metadata" in test else "log-value"


def _fall(error: Exception, line: LogLine | None) -> Fall:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, FileNotFoundError):
        name = Path(str(error.filename or error)).name
        return Fall("log-no-rules", text, line.line if line else 0, "a benchmark of this round", f"no rule file {name}")
    if line is None:
        return Fall("log-fall", text, 0, "a log that the official checker can judge", text)
    return Fall("log-value-type", text, line.line, f"a {line.key} that can be compared", _short(line.value["value"]))


_NAMED = ("submission_benchmark", "submission_division", "submission_status")


def _code(test: Test) -> Any:
    if test.code is None:
        raise SyntaxError(test.text)
    return test.code


def _is_integer(value: float) -> bool:
    """The helper of that name in rule code (mlp_compliance.is_integer)."""
    return abs(round(value) - value) < 0.00001


def _pretty(value: Any) -> str:
    return json.dumps(value, sort_keys=True, indent=2)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "…"
