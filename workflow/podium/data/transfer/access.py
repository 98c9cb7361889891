"""Sources that want to know who asks: tokens from the environment, and how a login page gives itself away.

Nothing here opens a browser or asks a question: a source that wants a person is refused with what to set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

# Host (and all below it): header and variable, in sets of which any that is complete will do.
# Cloudflare Access: service tokens and the token of a login; the variables are those of MLCommons' own downloader.
TOKENS: dict[str, tuple[dict[str, str], ...]] = {
    "mlcommons-storage.org": (
        {"CF-Access-Client-Id": "CF_ACCESS_CLIENT_ID", "CF-Access-Client-Secret": "CF_ACCESS_CLIENT_SECRET"},
        {"cf-access-token": "CF_ACCESS_TOKEN"},
    ),
    "huggingface.co": ({"Authorization": "HF_TOKEN"},),
}
_LOGIN = re.compile(r"//[^/]*\.cloudflareaccess\.com/|/cdn-cgi/access/login")


def headers(address: str) -> dict[str, str]:
    """The headers that show who asks, for hosts that may want them and where the variables are set."""
    for choice in _choices(address):
        if all(os.environ.get(variable) for variable in choice.values()):
            return {
                header: ("Bearer " if header == "Authorization" else "") + os.environ[variable]
                for header, variable in choice.items()
            }
    return {}


def advice(address: str) -> str:
    """Which variables to set for a host, or that nothing is known of it."""
    choices = [" and ".join(choice.values()) for choice in _choices(address)]
    return "set " + ", or ".join(choices) if choices else "Podium knows no variable that opens it"


def is_login(answer: Mapping[str, str]) -> bool:
    """Whether the headers of an answer are those with which Cloudflare Access sends people to a login page.

    Signs: those that MLCommons' downloader (r2-downloader, check_auth_required) looks for.
    """
    return bool(
        _LOGIN.search(answer.get("Location", ""))
        or "cf_authorization" in answer.get("WWW-Authenticate", "").lower()
        or "cf-access-required" in answer
        or "cf_appsession=" in answer.get("Set-Cookie", "").lower()
    )


def _choices(address: str) -> Iterable[Mapping[str, str]]:
    host = urlsplit(address).hostname or ""
    return next((choices for name, choices in TOKENS.items() if f".{host}".endswith(f".{name}")), ())
