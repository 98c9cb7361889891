"""Which files go into which text part.

Source: mlcommons/training@aa344c7f retired_benchmarks/bert/cleanup_scripts/do_gather.py.
"""

from __future__ import annotations

from collections.abc import Sequence

BLOCK_MIB = 26.92  # the benchmark's block size
NAME = "part-{:05d}-of-00500"  # 500 is a constant of the name, not a count


def groups(sizes: Sequence[int], block_mib: float) -> list[list[int]]:
    """Numbers of consecutive files, grouped so that the sizes of the raw files stay within the block where they can."""
    found: list[list[int]] = []
    total = 0
    for number, size in enumerate(sizes):
        if not found or block_mib * 1024 * 1024 < total + size:
            found.append([])
            total = 0
        found[-1].append(number)
        total += size
    return found


def tail_cut(text: str) -> str:
    """A file's text as it goes into a part: no byte order mark, every kind of line end as one character, and one less
    behind the last article.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return text[:-1] if text.endswith("\n\n") else text
