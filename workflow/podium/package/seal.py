"""Encryption of an archive by openssl, in the form that the official pack_submission.sh makes and opens.

That script knows AES-256-CBC with a salt and a key from one round of SHA-256 (`openssl enc -aes256`); with -pbkdf2 the
key is derived as openssl itself now advises, and unpacking takes the same option. The password comes from a file or
from PODIUM_PASSWORD, and goes to openssl through a pipe: it is on no command line.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from podium.errors import BadEnvironment, BadInput

OPTIONS = {"official": (), "pbkdf2": ("-pbkdf2",)}
MAGIC = b"Salted__"  # how openssl enc begins what it encrypted
VARIABLE = "PODIUM_PASSWORD"


def password(file: Path | None) -> str:
    """The password, from the first line of a file or from the environment; raises BadInput where there is none."""
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8").split("\n")[0]
        except OSError as error:
            raise BadInput(f"cannot read {file}", "a password on the first line", str(error.strerror), "") from error
    else:
        text = os.environ.get(VARIABLE, "")
    if not text:
        where = str(file) if file else VARIABLE
        raise BadInput(
            "no password to encrypt with",
            f"--password-file FILE, or {VARIABLE}",
            f"nothing in {where}",
            "openssl rand -base64 24",
        )
    return text


def encrypt(source: Path, target: IO[bytes], form: str, secret: str) -> None:
    """Write `source` encrypted to `target`; raises BadEnvironment where openssl fails."""
    with source.open("rb") as reader, _openssl(["-e"], form, secret, reader, target) as process:
        _, said = process.communicate()
    if process.returncode:
        raise BadEnvironment(
            "openssl could not encrypt", "exit status 0", said.decode(errors="replace").strip(), "df -h"
        )


@contextlib.contextmanager
def decrypted(source: Path, secret: str) -> Iterator[IO[bytes]]:
    """The content of an encrypted archive as a stream, by whichever form of key opens it.

    Raises BadInput where none does. The stream must be read to its end.
    """
    form = next((form for form in OPTIONS if _opens(source, form, secret)), None)
    if form is None:
        raise BadInput(
            f"{source} does not open",
            "the password that it was encrypted with",
            "no gzip data by any form of key",
            "openssl enc -d -aes256 -pbkdf2 -in FILE",
        )
    with source.open("rb") as reader, _openssl(["-d"], form, secret, reader, subprocess.PIPE) as process:
        yield process.stdout
        process.stdout.close()
        if process.wait():
            raise BadInput(
                f"{source} is damaged",
                "an archive that decrypts to its end",
                process.stderr.read().decode(errors="replace").strip(),
                "fetch it again",
            )


def is_encrypted(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _opens(source: Path, form: str, secret: str) -> bool:
    """Whether the first bytes become those of gzip."""
    with source.open("rb") as reader, _openssl(["-d"], form, secret, reader, subprocess.PIPE) as process:
        first = process.stdout.read(3)
        process.kill()
    return first == b"\x1f\x8b\x08"


@contextlib.contextmanager
def _openssl(
    words: list[str], form: str, secret: str, source: IO[bytes], target: IO[bytes] | int
) -> Iterator[subprocess.Popen]:
    if shutil.which("openssl") is None:
        raise BadEnvironment(
            "no openssl", "openssl on the PATH", "nothing", "install openssl, or package.encrypt: none"
        )
    reading, writing = os.pipe()
    try:
        os.write(writing, secret.encode() + b"\n")
        os.close(writing)
        command = ["openssl", "enc", *words, "-aes256", "-md", "sha256", *OPTIONS[form], "-pass", f"fd:{reading}"]
        with subprocess.Popen(
            command, stdin=source, stdout=target, stderr=subprocess.PIPE, pass_fds=(reading,)
        ) as process:
            yield process
    finally:
        os.close(reading)
