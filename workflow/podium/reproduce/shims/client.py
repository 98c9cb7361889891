"""The program that foreign scripts find under the names of docker, srun and so on: it asks the broker, and no more.

Its words, environment, folder and its three standard files go over a Unix socket; the answer is the status to end with.
It runs with the bare Python of the machine and imports nothing of Podium.
"""

import json
import os
import socket
import sys
from pathlib import Path

me = Path(sys.argv[0])
request = json.dumps(
    {"words": [me.name, *sys.argv[1:]], "environment": dict(os.environ), "folder": str(Path.cwd())}
).encode()
try:
    with socket.socket(socket.AF_UNIX) as connection:
        os.chdir(me.parent)  # a socket's address may have 108 bytes
        connection.connect("broker")
        socket.send_fds(connection, [len(request).to_bytes(8, "big")], [0, 1, 2])
        connection.sendall(request)
        answer = connection.recv(16)
except OSError as error:
    print(f"podium: {me.name} is left out: no broker on this node ({error.strerror})", file=sys.stderr)
    sys.exit(0 if me.name == "sudo" else 125)
sys.exit(int(answer or b"125"))
