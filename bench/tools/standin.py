#!/usr/bin/env python3
"""Stands in for `icecore` where a bench itself is tested: the same commands, no backup tool.

One plain TCP connection carries all bytes of all files; the server keeps them in one file for
each client and gives them back. No encryption, nothing is saved twice or checked.
    ICECORE_BIN=bench/tools/standin.py python3 bench/wan.py --rounds 1
"""

import argparse
import json
import os
import socket
import struct
import sys
import threading
from pathlib import Path

PIECE = 1 << 18


def main():
    if sys.argv[1:] == ["--version"]:
        print("standin 0 (no icecore)")
        return
    arguments = parser().parse_args()
    arguments.run(arguments)


def parser():
    top = argparse.ArgumentParser(description=__doc__)
    commands = top.add_subparsers(required=True)

    def command(name, run, *words):
        one = commands.add_parser(name)
        one.set_defaults(run=run)
        for word in words:
            one.add_argument(word, **({"action": "store_true"} if word in FLAGS else {}))

    command("server", server, "--data", "--listen", "--name", "--json")
    command("token", token, "node", "--data", "--json")
    command("enroll", enroll, "url", "token", "--agent-dir")
    command("backup", backup, "source", "--json", "--socket-buffer")
    command("restore", restore, "snapshot", "--no-sync", "--target", "--json")
    command("test", test, "--json")
    return top


FLAGS = {"--json", "--no-sync"}


def token(arguments):
    print(json.dumps({"token": arguments.node}))


def enroll(arguments):
    folder = Path(arguments.agent_dir)
    folder.mkdir(parents=True, exist_ok=True)
    host, port = arguments.url.removeprefix("https://").split(":")
    (folder / "server").write_text(json.dumps([host, int(port), arguments.token]))


def test(arguments):
    print(json.dumps({"standin": True}))


def server(arguments):
    host, port = arguments.listen.split(":")
    listener = socket.create_server((host, int(port)))
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, arguments.data), daemon=True).start()


def serve(connection, folder):
    """`put` or `get`, the client's name, then the bytes."""
    with connection.makefile("rwb") as stream:
        verb, name = stream.readline().decode().split()
        path = Path(folder, name)
        if verb == "put":
            with open(path, "wb") as file:
                copy(stream, file)
            stream.write(b"kept\n")
        else:
            with open(path, "rb") as file:
                copy(file, stream)
    connection.close()


def copy(source, sink):
    while piece := source.read(PIECE):
        sink.write(piece)


def connect(verb, buffer=None):
    host, port, name = json.loads(Path(os.environ["ICECORE_AGENT_DIR"], "server").read_text())
    connection = socket.socket()
    if buffer:
        kib = int(buffer.removesuffix("KiB"))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, kib * 1024)
    connection.connect((host, port))
    connection.sendall(f"{verb} {name}\n".encode())
    return connection


def backup(arguments):
    source = Path(arguments.source)
    connection = connect("put", arguments.socket_buffer)
    with connection.makefile("wb") as stream:
        for path in sorted(p for p in source.rglob("*") if p.is_file()):
            name = os.fsencode(path.relative_to(source))
            stream.write(struct.pack(">HQ", len(name), path.stat().st_size) + name)
            with open(path, "rb") as file:
                copy(file, stream)
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(5) == b"kept\n"
    limit = [f"socket buffer {arguments.socket_buffer}"] if arguments.socket_buffer else []
    print(json.dumps({"notes": limit}))


def restore(arguments):
    target = Path(arguments.target)
    with connect("get").makefile("rb") as stream:
        while head := stream.read(10):
            length, size = struct.unpack(">HQ", head)
            path = target / os.fsdecode(stream.read(length))
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                while size:
                    size -= file.write(stream.read(min(size, PIECE)))
    print(json.dumps({}))


if __name__ == "__main__":
    # `server token`, `agent enroll` and `net test` are two words.
    if sys.argv[1:3] in (["server", "token"], ["agent", "enroll"], ["net", "test"]):
        del sys.argv[1]
    main()
