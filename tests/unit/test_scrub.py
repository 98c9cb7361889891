"""The scrub: planted secrets and names of a site, what must stay, files that stay behind, the diff for review."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as some

import synthetic
from planted import SECRETS, SITE
from podium import manifest
from podium.errors import BadInput
from podium.package import scrub
from podium.package.detect import Detectors, Names

NAMES = Names(
    hosts=("dgx-a100-017", "login.example.org", ".cluster.example.org"),
    users=("alicezhang",),
    paths=("/srv/site/podium",),
    patterns={"project": r"\bPRJ-\d{4}\b"},
    public=("one", "tests"),
)
HARMLESS = (
    "FROM nvcr.io/nvidia/pytorch:24.04-py3@sha256:" + "0123456789abcdef" * 4,
    "torch==2.13.0 nvidia-cudnn-cu12==8.9.7.29 driver 535.161.08.01",
    "cuDNN version 8.9.7.29, listening on 127.0.0.1:29500 and 0.0.0.0",
    "eos_token=self.tokenizer.eos_token, num_tokens=512, token_type_ids",
    "password=$DB_PASSWORD; secret = os.environ['SECRET']; key=lambda item: item.key",
    "secret_key = '${SECRET_KEY}'",
    "https://github.com/mlcommons/training and docker.io/library/debian:12",
    "pip install --extra-index-url https://pypi.nvidia.com/simple x",
    "self.local.internal_state.corp_size()",
    "12:34:56.789 step 100/2000 loss 0.123 std::vector<int>::size_type",
    "/workspace/bert/run.py /data/imagenet /usr/local/lib/python3.11/site-packages",
)


def in_a_tree(tmp_path, text, name="benchmarks/resnet/implementations/x/run.sh"):
    target = tmp_path / "tests" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


@pytest.mark.parametrize("kind", SECRETS)
def test_a_planted_secret_is_replaced(tmp_path, kind):
    planted = SECRETS[kind]
    target = in_a_tree(tmp_path, f"before\nx {planted} y\nafter\n")
    done = scrub.scrub(tmp_path / "tests", NAMES)
    left = target.read_text()
    value = re.split(r"[ =:@\"]+", planted.removeprefix("https://builder:"))
    value = max((part for part in value if "example" not in part), key=len)
    assert value not in left and "SCRUBBED_SECRET_1" in left
    assert left.startswith("before\n") and left.endswith("after\n")
    assert value.split("\n")[0] in done.diff
    assert value not in json.dumps(done.as_json())


@pytest.mark.parametrize("kind", SITE)
def test_a_name_of_the_site_is_replaced(tmp_path, kind):
    target = in_a_tree(tmp_path, f"first {SITE[kind]}/last\n")
    scrub.scrub(tmp_path / "tests", NAMES)
    left = target.read_text()
    assert SITE[kind] not in left and "SCRUBBED_" in left
    assert left.startswith("first ") and "last" in left


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text):
    assert Detectors(NAMES).find(text.encode()) == []


def test_the_same_value_gets_the_same_placeholder_in_every_file(tmp_path):
    one = in_a_tree(tmp_path, "10.0.0.2 10.0.0.1\n", "a.txt")
    two = in_a_tree(tmp_path, "10.0.0.1\n", "b.txt")
    scrub.scrub(tmp_path / "tests", NAMES)
    assert (one.read_text(), two.read_text()) == ("SCRUBBED_ADDRESS_2 SCRUBBED_ADDRESS_1\n", "SCRUBBED_ADDRESS_1\n")


def test_a_secret_is_found_everywhere_once_it_was_found_somewhere(tmp_path):
    token = "zZ9" + "kQ4mW7rT2pL8"
    in_a_tree(tmp_path, f'api_key = "{token}"\n', "a.py")
    bare = in_a_tree(tmp_path, f"curl -u x {token}\n", "b.txt")
    scrub.scrub(tmp_path / "tests", NAMES)
    assert token not in bare.read_text()


def test_what_is_allowed_stays(tmp_path):
    target = in_a_tree(tmp_path, "10.0.0.1 10.9.9.9 dgx-a100-017\n")
    names = Names(hosts=NAMES.hosts, allow=("10.0.0.*", "dgx-a100-017"))
    scrub.scrub(tmp_path / "tests", names)
    assert target.read_text() == "10.0.0.1 SCRUBBED_ADDRESS_1 dgx-a100-017\n"


def test_a_log_is_still_json_and_says_the_same(tmp_path):
    lines = [line.replace("train.py", "/home/bobmiller/resnet/train.py") for line in synthetic.log()]
    target = in_a_tree(tmp_path, "\n".join([*lines, "0: dgx-a100-017 step"]), "results/one/resnet/result_0.txt")
    scrub.scrub(tmp_path / "tests", NAMES)
    after = target.read_text().splitlines()
    assert "bobmiller" not in target.read_text() and "dgx" not in target.read_text()
    for old, new in zip(lines, after, strict=False):
        if old.startswith(":::MLLOG"):
            before, now = (json.loads(line.removeprefix(":::MLLOG ")) for line in (old, new))
            assert {**now, "metadata": 0} == {**before, "metadata": 0}
            assert now["metadata"]["file"].endswith("/train.py")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("deploy.pem", "x", "its name is that of a key or a licensed file"),
        ("secrets/license.dat", "x", "its name is that of a key or a licensed file"),
        ("fast.cu", "// Proprietary and Confidential\n", "it says 'Proprietary and Confidential'"),
        ("weights.bin", "\0\0 hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh", "a binary file that holds a secret"),
        ("vendor/blob.so", "x", "its name is that of a key or a licensed file"),
    ],
)
def test_keys_and_licensed_files_stay_behind(tmp_path, name, text, why):
    target = in_a_tree(tmp_path, text, name)
    done = scrub.scrub(tmp_path / "tests", NAMES, withhold=("vendor/*",))
    assert not target.exists()
    assert done.withheld == {name: why}


def test_a_file_that_may_go_goes(tmp_path):
    target = in_a_tree(tmp_path, "// Proprietary and Confidential, published by agreement\n", "fast.cu")
    scrub.scrub(tmp_path / "tests", NAMES, allowed_files=("fast.cu",))
    assert target.exists()


def test_the_name_of_a_file_that_gives_something_away_is_refused(tmp_path):
    in_a_tree(tmp_path, "x", "config_dgx-a100-017.sh")
    with pytest.raises(BadInput, match="names of files give away"):
        scrub.scrub(tmp_path / "tests", NAMES)


def test_the_diff_shows_every_replacement_and_applies(tmp_path):
    text = "a\nhost dgx-a100-017\nb\n" + SECRETS["private key"] + "\nc 10.1.1.1 and 10.1.1.2\nd"
    target = in_a_tree(tmp_path, text, "run.sh")
    done = scrub.scrub(tmp_path / "tests", NAMES)
    minus = [line[1:] for line in done.diff.splitlines() if line.startswith("-") and not line.startswith("--- run")]
    plus = [line[1:] for line in done.diff.splitlines() if line.startswith("+") and not line.startswith("+++ run")]
    unchanged = [line for line in text.split("\n") if line not in minus]
    assert sorted(minus + unchanged) == sorted(text.split("\n"))
    assert sorted(plus + unchanged) == sorted(target.read_text().split("\n"))


def test_scrubbing_twice_changes_nothing(tmp_path):
    in_a_tree(tmp_path, "\n".join([*SECRETS.values(), *SITE.values(), *HARMLESS]))
    scrub.scrub(tmp_path / "tests", NAMES)
    before = manifest.of_folder(tmp_path / "tests")
    again = scrub.scrub(tmp_path / "tests", NAMES)
    assert again.replaced == {} and manifest.of_folder(tmp_path / "tests") == before


@given(some.binary(max_size=400))
def test_any_bytes_can_be_looked_at_and_places_lie_apart(data):
    found = DETECTORS.find(data)
    assert all(data[item.start : item.stop].decode("latin-1") == item.value for item in found)
    assert all(one.stop <= other.start for one, other in zip(found, found[1:], strict=False))


DETECTORS = Detectors(NAMES)
