"""What AWS Batch runs in the container: fetch the data, run the attempt, bring back what it left.

It is given to `python3 -c`, so it needs nothing but Python 3.6 and its own text. Its environment: PODIUM_DATA, the
address of a list of files ({url, path, bytes} a line) or empty where the data is mounted; PODIUM_RESULT, the address
that takes the result; PODIUM_TASKS, the processes of this node. No address needs a key: they are signed and expire.
"""

import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor

OUTPUT = "output.log"


def fetch(item):
    """One file of the data, whole or not at all."""
    path = pathlib.Path(os.environ["DATADIR"], item["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(5):
        try:
            with urllib.request.urlopen(item["url"], timeout=60) as reader, path.open("wb") as writer:
                while True:
                    piece = reader.read(1 << 20)
                    if not piece:
                        break
                    writer.write(piece)
            if path.stat().st_size == item["bytes"]:
                return
        except OSError as error:
            print("fetching", item["path"], error, file=sys.stderr)
    raise SystemExit("cannot fetch " + item["path"])


def ranks(index, tasks):
    """Who each task of this node is, in the words of torchrun (AWS Batch user guide: environment variables)."""
    node = int(os.environ.get("AWS_BATCH_JOB_NODE_INDEX", "0"))
    size = int(os.environ.get("AWS_BATCH_JOB_NUM_NODES", "1"))
    main = os.environ.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS", "127.0.0.1")
    own = (node * tasks + index, index, size * tasks, main, 29500)
    names = ("@RANK@", "@LOCAL_RANK@", "@WORLD_SIZE@", "@MASTER_ADDR@", "@MASTER_PORT@")
    return {name: str(value) for name, value in zip(names, own)}  # noqa: B905, which Python 3.6 does not know


def replaced(word, names):
    for name, value in names.items():
        word = word.replace(name, value)
    return word


def copy(stream, log):
    """What the tasks print goes to the log and to our own output, which Batch keeps."""
    for line in stream:
        log.write(line)
        log.flush()
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


def upload(work, status):
    """The folder of logs, the output and the exit status, as one archive."""
    if not os.environ.get("PODIUM_RESULT") or os.environ.get("AWS_BATCH_JOB_NODE_INDEX", "0") != os.environ.get(
        "AWS_BATCH_JOB_MAIN_NODE_INDEX", "0"
    ):
        return
    (work / "exit_status").write_text(str(status) + "\n")
    (work / "nodes").write_text(os.uname()[1] + "\n")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in (OUTPUT, "exit_status", "nodes"):
            tar.add(str(work / name), name)
        if pathlib.Path(os.environ["LOGDIR"]).is_dir():
            tar.add(os.environ["LOGDIR"], "logs")
    headers = {"Content-Type": "application/octet-stream"}  # urllib would call it a form, which servers try to read
    request = urllib.request.Request(os.environ["PODIUM_RESULT"], buffer.getvalue(), headers, method="PUT")
    urllib.request.urlopen(request, timeout=600).close()


def main():
    work = pathlib.Path(os.environ.get("TMPDIR", "/tmp"), "podium")
    for folder in (work, pathlib.Path(os.environ["LOGDIR"])):
        folder.mkdir(parents=True, exist_ok=True)
    if os.environ.get("PODIUM_DATA"):
        with urllib.request.urlopen(os.environ["PODIUM_DATA"], timeout=60) as reader:
            items = [json.loads(line) for line in reader.read().decode().splitlines()]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(fetch, items))
    tasks = int(os.environ.get("PODIUM_TASKS", "1"))
    running = []

    def stop(*_):
        # Two minutes before a spot instance is taken away, or when the job is ended: what there is, is brought back.
        for process in running:
            process.send_signal(signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    with (work / OUTPUT).open("wb") as log:
        threads = []
        for index in range(tasks):
            names = ranks(index, tasks)
            words = [replaced(word, names) for word in sys.argv[1:]]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            running.append(process)
            threads.append(threading.Thread(target=copy, args=(process.stdout, log)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        status = max(abs(process.wait()) for process in running)
    upload(work, status)
    sys.exit(status)


if __name__ == "__main__":
    main()
