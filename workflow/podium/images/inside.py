"""Run inside an image by its own Python (3.6 or newer, nothing beside it): prints as JSON what is installed there."""

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

INCLUDES = (
    "/usr/include",
    "/usr/local/cuda/include",
    "/usr/include/x86_64-linux-gnu",
    "/usr/include/aarch64-linux-gnu",
)


def python_packages():
    """Every distribution on the path: its version, and its licence as it states it."""
    try:
        from importlib import metadata
    except ImportError:  # before Python 3.8
        import pkg_resources

        return {item.project_name.lower(): (item.version, "") for item in pkg_resources.working_set}
    found = {}
    for item in metadata.distributions():
        name = item.metadata["Name"]
        if name and name.lower() not in found:  # the first on the path is the one that is imported
            found[name.lower()] = (item.version, licence(item.metadata))
    return found


def licence(about):
    """`License-Expression`, else the licence's classifiers, else a short `License` (Core metadata specifications)."""
    expression = about["License-Expression"]
    if expression:
        return expression
    told = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or [] if line.startswith("License ::")]
    told = [line for line in told if line != "OSI Approved"]
    text = (about["License"] or "").strip()
    return " AND ".join(told) or (text if len(text) < 80 and "\n" not in text and text != "UNKNOWN" else "")


def system_packages():
    """Packages of Debian's or Red Hat's kind: which kind, each one's version, and the distribution (os-release(5))."""
    queries = {
        "deb": ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${db:Status-Status}\n"],
        "rpm": ["rpm", "--query", "--all", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE} installed\n"],
    }
    for kind, query in queries.items():
        lines = [line.split() for line in output(query).splitlines()]
        found = {line[0]: line[1] for line in lines if len(line) == 3 and line[2] == "installed"}
        if found:
            release = Path("/etc/os-release").read_text() if Path("/etc/os-release").exists() else ""
            named = re.search('^ID="?([a-z0-9._-]+)', release, re.MULTILINE)
            return {"kind": kind, "packages": found, "distribution": named.group(1) if named else ""}
    return {"kind": "", "packages": {}, "distribution": ""}


def conda_packages():
    """What conda has recorded below its prefix: one JSON file a package."""
    found = {}
    for prefix in (os.environ.get("CONDA_PREFIX"), "/opt/conda"):
        for path in Path(prefix or "/nowhere").glob("conda-meta/*.json"):
            about = json.loads(path.read_text())
            found[about["name"]] = about["version"]
    return found


def versions(packages):
    """CUDA, cuDNN, NCCL, ROCm and the framework, from headers, version files and packages: nothing is imported."""
    found = {}
    for name in ("torch", "tensorflow", "jax", "mxnet", "paddlepaddle"):
        if name in packages:
            found["framework"] = name + " " + packages[name][0]
            break
    cuda, rocm = Path("/usr/local/cuda/version.json"), Path("/opt/rocm/.info/version")
    if cuda.exists():
        found["cuda"] = json.loads(cuda.read_text())["cuda"]["version"]
    if rocm.exists():
        found["rocm"] = rocm.read_text().strip()
    for name, header in (("cudnn", "cudnn_version.h"), ("nccl", "nccl.h")):
        for path in (Path(place) / header for place in INCLUDES):
            if path.exists():
                numbers = dict(re.findall(f"#define {name.upper()}_([A-Z]+) +([0-9]+)", path.read_text()))
                found[name] = ".".join(
                    numbers[part] for part in ("MAJOR", "MINOR", "PATCHLEVEL", "PATCH") if part in numbers
                )
                break
    for name, label in (("nvidia-cuda-runtime", "cuda"), ("nvidia-cudnn", "cudnn"), ("nvidia-nccl", "nccl")):
        for package, (version, _) in packages.items():
            if re.match(name + r"(-cu\d+)?$", package):
                found.setdefault(label, version)
    return found


def output(command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    except OSError:
        return ""


def main():
    packages = python_packages()
    facts = {
        "python": platform.python_version(),
        "prefix": sys.prefix,
        "machine": platform.machine(),
        "packages": {name: version for name, (version, _) in packages.items()},
        "licences": {name: text for name, (_, text) in packages.items() if text},
        "system": system_packages(),
        "conda": conda_packages(),
        "versions": versions(packages),
    }
    print(json.dumps(facts))


main()
