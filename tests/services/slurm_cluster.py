"""A Slurm of its own on this host: munge, slurmctld, two virtual nodes with four fake GPUs each, and slurmdbd with
MariaDB where accounting is asked for. Everything lies in one folder, listens on ports that were free, and is a child of
the test.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NODES = ("n1", "n2")
GPUS = 4
MARK = "PODIUM_TEST_DAEMON"  # in the environment of each daemon, and of the step daemons that a slurmd starts
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
ACCOUNTING = ("slurmdbd", "mariadbd")


def missing(accounting: bool) -> list[str]:
    """The programs that this machine lacks."""
    found = os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin"
    return [name for name in PROGRAMS + ACCOUNTING * accounting if shutil.which(name, path=found) is None]


@dataclass
class Cluster:
    """A running cluster; `daemons` are its processes by name: munged, mariadbd, slurmdbd, slurmctld, n1, n2."""

    folder: Path
    accounting: bool
    cpus: int = 8  # that each node says it has
    daemons: dict[str, subprocess.Popen] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        return self.folder / "slurm.conf"

    def __call__(self, *words: str) -> str:
        """What a command of Slurm prints; it must end well."""
        answer = subprocess.run(words, env=self.environment(), capture_output=True, text=True, timeout=60, check=False)
        assert answer.returncode == 0, f"{words}: {answer.stderr}"
        return answer.stdout

    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.conf)}

    def start(self, name: str) -> None:
        """Start one daemon, and wait until it serves."""
        words, ready = self._daemon(name)
        with (self.folder / f"{name}.out").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                words, env=self._environment_of(name), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        wait_until(ready, 60, f"{name} serves", lambda: self.daemons[name].poll() is None)

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """End one daemon; a slurmd leaves its steps behind, as a crashed one does."""
        daemon = self.daemons.pop(name)
        daemon.send_signal(number)
        try:
            daemon.wait(timeout=20)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def kill_node(self, name: str) -> None:
        """The node is gone at once: slurmd, the step daemons, and all they started."""
        self.stop(name, signal.SIGKILL)
        for pid in _with_descendants(_marked(f"{self.folder}/{name}")):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def revive(self) -> None:
        """Every daemon serves and every node is idle, whatever a test did to them."""
        for name in ("munged", "mariadbd", "slurmdbd", "slurmctld", *NODES):
            wanted = self.accounting or name not in ("mariadbd", "slurmdbd")
            if wanted and (name not in self.daemons or self.daemons[name].poll() is not None):
                self.daemons.pop(name, None)
                self.start(name)
        for node in NODES:
            subprocess.run(
                ["scontrol", "update", f"nodename={node}", "state=resume"],
                env=self.environment(),
                capture_output=True,
                check=False,
            )
        wait_until(self._idle, 60, "all nodes are idle")

    def _idle(self) -> bool:
        return self("sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * len(NODES)

    def _environment_of(self, name: str) -> dict[str, str]:
        conf = self.folder / ("slurmdbd.conf" if name == "slurmdbd" else "slurm.conf")
        own = {"SLURM_CONF": str(conf), MARK: f"{self.folder}/{name}", "MYSQL_UNIX_PORT": f"{self.folder}/sql.sock"}
        return os.environ | own

    def _daemon(self, name: str) -> tuple[Sequence[str], Callable[[], bool]]:
        folder = self.folder
        if name == "munged":
            for stale in folder.glob("munge.*"):
                if stale.name != "munge.key":
                    stale.unlink()
            words = ["munged", "--foreground", "--force", f"--key-file={folder}/munge.key"]
            words += [f"--{part}={folder}/munge.{part[:4]}" for part in ("socket", "pid-file", "seed-file", "log-file")]
            return words, lambda: self._ends_well("munge", "-S", f"{folder}/munge.sock", "-n")
        if name == "mariadbd":
            words = ["mariadbd", "--no-defaults", "--user=root", f"--datadir={folder}/sql"]
            words += [f"--socket={folder}/sql.sock", "--skip-networking", f"--pid-file={folder}/sql.pid"]
            words += ["--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=2"]
            ask = ["mariadb", "--no-defaults", "-S", f"{folder}/sql.sock", "-e", "select 1"]
            return words, lambda: self._ends_well(*ask)
        if name == "slurmdbd":
            return ["slurmdbd", "-D"], lambda: self._ends_well("sacctmgr", "-n", "show", "cluster")
        if name == "slurmctld":
            return ["slurmctld", "-D"], lambda: self._ends_well("scontrol", "ping")
        # Snakemake's plugin takes SLURM_CONF from its jobs, whose srun then reads /etc/slurm: there it finds this
        # cluster.
        alone = ["unshare", "--mount", "sh", "-c", f"mount --bind {folder} /etc/slurm && exec slurmd -D -N {name}"]
        return alone, lambda: self._answers(name)

    def _ends_well(self, *words: str) -> bool:
        return subprocess.run(words, env=self.environment(), capture_output=True, check=False).returncode == 0

    def _answers(self, node: str) -> bool:
        state = self("sinfo", "-h", "-n", node, "-o", "%T").strip()
        return state.rstrip("*") in ("idle", "mixed", "allocated", "draining", "drained", "down") and "*" not in state


@contextlib.contextmanager
def cluster(folder: Path, accounting: bool, cpus: int = 8) -> Iterator[Cluster]:
    """A cluster in `folder` (a short path: sockets have at most 107 bytes), ended with all its jobs."""
    made = Cluster(folder, accounting, cpus)
    made.ports = dict(zip(("slurmctld", "slurmdbd", *NODES), _free_ports(2 + len(NODES)), strict=True))
    _write(made)
    try:
        if accounting:
            _make_database(made)
        made.revive()
        yield made
    finally:
        subprocess.run(["scancel", "--user=root"], env=made.environment(), capture_output=True, check=False)
        time.sleep(0.5)
        for name in (*NODES, "slurmctld", "slurmdbd", "mariadbd", "munged"):
            if name in made.daemons:
                made.stop(name)
        for name in NODES:
            for pid in _with_descendants(_marked(f"{folder}/{name}")):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def wait_until(
    true: Callable[[], bool], seconds: float, what: str, possible: Callable[[], bool] = lambda: True
) -> None:
    """Wait until something is true; fails after `seconds`, or as soon as it is not `possible` any more."""
    deadline = time.monotonic() + seconds
    while not true():
        assert possible() and time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def _make_database(made: Cluster) -> None:
    words = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={made.folder}/sql", "--skip-test-db"]
    subprocess.run([*words, "--auth-root-authentication-method=normal"], capture_output=True, check=True)
    made.start("mariadbd")
    grant = "create database acct; create user slurm@localhost identified by 'slurm'; "
    grant += "grant all on acct.* to slurm@localhost"
    subprocess.run(["mariadb", "--no-defaults", "-S", f"{made.folder}/sql.sock", "-e", grant], check=True)


def _write(made: Cluster) -> None:
    folder = made.folder
    (folder / "state").mkdir()
    Path("/etc/slurm").mkdir(exist_ok=True)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    accounting = "AccountingStorageType=accounting_storage/none"
    if made.accounting:
        accounting = f"""AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={made.ports["slurmdbd"]}
AccountingStoragePass={folder}/munge.sock"""
        (folder / "slurmdbd.conf").write_text(
            f"""DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={made.ports["slurmdbd"]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=slurm
StorageLoc=acct
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
"""
        )
        (folder / "slurmdbd.conf").chmod(0o600)
    nodes = "\n".join(
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={made.ports[name]} CPUs={made.cpus} "
        f"RealMemory=64000 Gres=gpu:{GPUS} State=UNKNOWN"
        for name in NODES
    )
    made.conf.write_text(
        f"""ClusterName=podium
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={made.ports["slurmctld"]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=8
KillWait=2
MessageTimeout=5
SchedulerParameters=bf_interval=1,sched_interval=2,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
{accounting}
{nodes}
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE DefaultTime=30 State=UP
"""
    )
    for number in range(GPUS):
        os.mknod(folder / f"gpu{number}", 0o666 | 0o020000, os.makedev(1, 3))  # as good as /dev/null
    (folder / "gres.conf").write_text(f"NodeName=n[1-2] Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _marked(value: str) -> list[int]:
    """The processes that have this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={value}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def _with_descendants(pids: Sequence[int]) -> list[int]:
    """These processes, their children, and theirs: what a step daemon started does not have its environment."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.name))
    found = list(pids)
    for pid in found:  # grows while it is gone through
        found += children.get(pid, [])
    return found
