"""Files of S3 and of what speaks like it: s3://BUCKET/KEY.

Endpoint, region and keys are those of the environment (AWS_ENDPOINT_URL, AWS_PROFILE, AWS_CA_BUNDLE and so on). Without
keys requests are not signed, which public buckets accept.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from podium.data.transfer import CONNECT, PIECE, SILENCE, Again, Changed, Refused, Remote

_LATER = {"SlowDown", "Throttling", "RequestTimeout", "InternalError", "ServiceUnavailable", "500", "502", "503", "504"}


def look(address: str) -> Remote:
    """Size and entity tag of an object."""
    bucket, key = split(address)
    with explained():
        facts = client().head_object(Bucket=bucket, Key=key)
    return Remote(facts["ContentLength"], ranges=True, tag=facts["ETag"])


def read(address: str, remote: Remote, start: int, stop: int) -> Iterator[bytes]:
    """Bytes `start` to before `stop` of the object that had that tag."""
    bucket, key = split(address)
    with explained():
        answer = client().get_object(Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}", IfMatch=remote.tag)
        if answer.get("ContentRange") != f"bytes {start}-{stop - 1}/{remote.bytes}":
            raise Refused(f"asked for bytes {start}-{stop - 1}/{remote.bytes}, it says {answer.get('ContentRange')!r}")
        with contextlib.closing(answer["Body"]) as body:
            while piece := body.read(PIECE):
                yield piece


@functools.cache
def client() -> Any:
    """The one client of this process (clients may be shared among threads); it leaves trying again to the engine."""
    session = boto3.Session()
    unsigned = {} if session.get_credentials() else {"signature_version": botocore.UNSIGNED}
    return session.client(
        "s3",
        config=Config(
            connect_timeout=CONNECT,
            read_timeout=SILENCE,
            retries={"total_max_attempts": 1},
            max_pool_connections=64,
            response_checksum_validation="when_required",
            **unsigned,
        ),
    )


def split(address: str) -> tuple[str, str]:
    """Bucket and key of an address."""
    parts = urlsplit(address)
    return parts.netloc, parts.path.removeprefix("/")


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn boto's errors into Refused, Changed or Again."""
    try:
        yield
    except ClientError as error:
        code, text = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        if code in ("PreconditionFailed", "412"):
            raise Changed(text) from error
        if code in _LATER:
            raise Again(f"{code}: {text}") from error
        raise Refused(f"{code}: {text}") from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise Refused(f"{error}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE") from error
    except (BotoCoreError, OSError) as error:
        raise Again(f"{type(error).__name__}: {error}") from error
