"""Files of web servers: http(s)://HOST/PATH. Proxies, certificates and .netrc are those of the environment."""

from __future__ import annotations

import contextlib
import email.utils
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import requests
import urllib3

from podium.data.transfer import CONNECT, PIECE, SILENCE, Again, Changed, Refused, Remote, access

PATIENCE = 300.0  # seconds: a server that wants a longer pause is left for the next source
_LATER = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524}
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_WHERE = re.compile(r"^\w*Connection\w*\(.*?\): ")  # urllib3 says first between whom, which the address tells
_thread = threading.local()


def look(address: str) -> Remote:
    """Ask for the first byte: the answer tells size and tag, and whether the server gives parts of files."""
    with _get(address, {"Range": "bytes=0-0"}) as answer:
        if answer.status_code == HTTPStatus.PARTIAL_CONTENT:
            first, last, size = _content_range(answer)
            if (first, last) != (0, 0):
                raise Refused(f"asked for byte 0, it says {answer.headers['Content-Range']!r}")
            with _explained():
                answer.raw.read1(PIECE)  # the one byte, so that the connection can be used again
            return Remote(size, size is not None, _tag(answer))
        if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and _content_range(answer)[2] == 0:
            return Remote(0, True, _tag(answer))
        _must_be(answer, HTTPStatus.OK)
        size = answer.headers.get("Content-Length", "")
        return Remote(int(size) if size.isdecimal() else None, False, _tag(answer))


def read(address: str, remote: Remote, start: int, stop: int | None) -> Iterator[bytes]:
    """Bytes `start` to before `stop`, untouched by any Content-Encoding; everything where there are no ranges."""
    with _get(address, {"Range": f"bytes={start}-{stop - 1}"} if remote.ranges else {}) as answer:
        whole = answer.status_code == HTTPStatus.OK
        _must_be(answer, HTTPStatus.OK if whole or not remote.ranges else HTTPStatus.PARTIAL_CONTENT)
        if whole and remote.ranges:
            raise Again("asked for a part, it gives the whole")
        if _tag(answer) != remote.tag:
            raise Changed(f"{remote.tag} at first, {_tag(answer)} now")
        if remote.ranges and _content_range(answer) != (start, stop - 1, remote.bytes):
            raise Refused(
                f"asked for bytes {start}-{stop - 1}/{remote.bytes}, it says {answer.headers.get('Content-Range')!r}"
            )
        left = stop - start if stop is not None else None
        with _explained():
            while left != 0 and (piece := answer.raw.read1(PIECE if left is None else min(PIECE, left))):
                yield piece
                left = left - len(piece) if left is not None else None


@contextlib.contextmanager
def _get(address: str, headers: dict[str, str]) -> Iterator[requests.Response]:
    """One GET. Errors of the connection and of servers that are busy are raised as Again."""
    tokens = access.headers(address)
    with _explained():
        answer = _session().get(
            address,
            headers={"Accept-Encoding": "identity", **headers, **tokens},
            stream=True,
            timeout=(CONNECT, SILENCE),
            allow_redirects=not tokens or "Authorization" in tokens,  # else requests would pass them on to other hosts
            hooks={"response": _refuse_login},
        )
    with answer:
        if answer.status_code in _LATER:
            raise Again(_said(answer), _retry_after(answer))
        yield answer


def _refuse_login(answer: requests.Response, **_: Any) -> None:
    """Called with each answer before its redirect is followed."""
    if access.is_login(answer.headers):
        raise Refused(f"it is behind a login (Cloudflare Access): {access.advice(answer.url)}")


def _session() -> requests.Session:
    if not hasattr(_thread, "session"):
        _thread.session = requests.Session()
    return _thread.session


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (requests.TooManyRedirects, requests.exceptions.InvalidURL) as error:
        raise Refused(str(error)) from error
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        raise Again(_cause(error)) from error


def _cause(error: BaseException) -> str:
    """The innermost reason: requests and urllib3 wrap each other's errors up to four deep."""
    while (inner := getattr(error, "reason", None) or (error.args[0] if error.args else None)) and isinstance(
        inner, BaseException
    ):
        error = inner
    return f"{type(error).__name__}: {_WHERE.sub('', str(error))}"


def _must_be(answer: requests.Response, status: HTTPStatus) -> None:
    if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise Refused(f"{_said(answer)}: {access.advice(answer.url)}")
    if answer.status_code != status:
        raise Refused(_said(answer))
    kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml") and not answer.url.partition("?")[0].endswith((".html", ".htm")):
        raise Refused(f"it answers with a page ({kind}) at {answer.url}, not with the file")


def _said(answer: requests.Response) -> str:
    return f"HTTP {answer.status_code} {answer.reason or ''}".strip()


def _tag(answer: requests.Response) -> str | None:
    return answer.headers.get("ETag") or answer.headers.get("Last-Modified")


def _content_range(answer: requests.Response) -> tuple[Any, Any, int | None]:
    """First and last byte and size of the whole, as the answer says; None for what it does not say."""
    match = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
    if not match:
        return None, None, None
    return tuple(int(value) if value and value != "*" else None for value in match.groups())


def _retry_after(answer: requests.Response) -> float | None:
    """Seconds of a Retry-After header, which has a number or a date; raises Refused where it is too long to wait."""
    value = answer.headers.get("Retry-After", "").strip()
    if not value:
        return None
    if value.isdecimal():
        seconds = float(value)
    else:
        try:
            seconds = (email.utils.parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    if seconds > PATIENCE:
        raise Refused(f"{_said(answer)}: it wants a pause of {seconds:.0f} s")
    return max(seconds, 0.0)
