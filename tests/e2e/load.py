"""Applications of a grid: they write all the time, and remember what was acknowledged.

Runs inside the cluster, in a pod with nothing but Python, so it uses the standard library alone:
`python3 -c SOURCE NAME HOST...`. Asked at http://127.0.0.1:9000/ (see `Desk`).

Rules of the ledger
-------------------
* Each writer is alone with its keys, and writes them again and again with growing numbers: a copy
  that was left behind is seen, as well as one that was lost.
* A write is tried until it is acknowledged, at one host after another, with the same number. One
  that was not answered may still be under way, and take effect later: its key is not written again.
* A key that has been written often enough is left alone too, and checked to the end.
* A gap is the time between two acknowledged writes of a writer: the longest is how long somebody
  could not write.
"""

from __future__ import annotations

import io
import json
import socket
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

PORT = 6379
WRITERS = 4
LIVE_KEYS = 16  # of a writer at a time
REWRITES = 8
PACE_SECONDS = 0.03
ANSWER_SECONDS = 1.0
REFUSED_SECONDS = 0.1
READ_SECONDS = 60.0
BATCH = 200


def command(*parts: bytes) -> bytes:
    """A request of the protocol."""
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def answer(stream: io.BufferedRWPair) -> bytes | None:
    """The next reply; a refusal and an end are errors."""
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise OSError("the connection ended")
    if line[:1] == b"-":
        raise OSError(line[1:].decode().strip())
    if line[:1] == b"$":
        size = int(line[1:])
        return stream.read(size + 2)[:-2] if size >= 0 else None
    return line[1:-2]


class Connection:
    """To one host."""

    def __init__(self, host: str, seconds: float) -> None:
        self._socket = socket.create_connection((host, PORT), timeout=seconds)
        self.stream = self._socket.makefile("rwb")

    def ask(self, *requests: bytes) -> list[bytes | None]:
        """Several at once."""
        self.stream.write(b"".join(requests))
        self.stream.flush()
        return [answer(self.stream) for _ in requests]

    def close(self) -> None:
        """Whatever was under way is not waited for."""
        try:
            self._socket.close()
            self.stream.close()
        except OSError:
            return


class Patient:
    """To one host, as long as it takes: who was just made may not be reachable from everywhere."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._moment = threading.Event()
        self._connection: Connection | None = None

    def ask(self, *requests: bytes) -> list[bytes | None]:
        """Several at once, which may be asked again."""
        until = time.monotonic() + READ_SECONDS
        while True:
            try:
                if self._connection is None:
                    self._connection = Connection(self._host, READ_SECONDS)
                return self._connection.ask(*requests)
            except OSError:
                self.close()
                if time.monotonic() > until:
                    raise
                self._moment.wait(REFUSED_SECONDS)

    def close(self) -> None:
        """That was all."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Writer(threading.Thread):
    """One application with keys of its own."""

    def __init__(self, load: Load, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._load = load
        self._host = 0
        self._connection: Connection | None = None
        self._made = 0
        self._keys: list[str] = []
        self._times: Counter[str] = Counter()
        self.at_work = threading.Lock()
        self.number = 0
        self.acknowledged = 0
        self.kept: dict[str, int] = {}
        self.unanswered: dict[str, int] = {}
        """Given up while it was tried: it may have taken effect."""
        self.errors: Counter[str] = Counter()
        self.last = time.monotonic()
        self.longest = 0.0

    def run(self) -> None:
        """For ever."""
        while True:
            self._load.going.wait()
            with self.at_work:
                if self._load.going.is_set():
                    self._write(self._next_key())
            self._load.over.wait(PACE_SECONDS)

    def _next_key(self) -> str:
        while len(self._keys) < LIVE_KEYS:
            self._keys.append(f"users:{self.name}:{self._made}")
            self._made += 1
        return self._keys[self.number % LIVE_KEYS]

    def _write(self, key: str) -> None:
        self.number += 1
        text = command(b"SET", key.encode(), b"%d" % self.number)
        sure = True
        while not self._try(text):
            sure = False
            if not self._load.going.is_set():
                self.unanswered[key] = self.number
                self._keys.remove(key)
                return
        self.kept[key] = self.number
        self.acknowledged += 1
        now = time.monotonic()
        self.longest = max(self.longest, now - self.last)
        self.last = now
        self._times[key] += 1
        if not sure or self._times[key] >= REWRITES:
            self._keys.remove(key)

    def _try(self, text: bytes) -> bool:
        hosts = self._load.hosts
        try:
            if self._connection is None:
                self._connection = Connection(hosts[self._host % len(hosts)], ANSWER_SECONDS)
            self._connection.ask(text)
        except OSError as error:
            self.errors[str(error)[:80]] += 1
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._host += 1
            self._load.over.wait(REFUSED_SECONDS)
            return False
        return True

    def may_be(self, key: str) -> set[bytes]:
        """What may be found there."""
        numbers = {self.kept[key], self.unanswered.get(key, self.kept[key])}
        return {b"%d" % number for number in numbers}


class Load:
    """All writers, and what they know together."""

    def __init__(self, name: str, hosts: list[str]) -> None:
        self.hosts = hosts
        self.going = threading.Event()
        self.over = threading.Event()  # never; waiting for it gives the pace
        self.filled = 0
        self.writers = [Writer(self, f"{name}-{i}") for i in range(WRITERS)]

    def resume(self) -> object:
        """Write."""
        self.mark()
        self.going.set()
        return self.told()

    def pause(self) -> object:
        """Write nothing; what was under way has ended."""
        self.going.clear()
        for writer in self.writers:
            with writer.at_work:
                pass
        return self.told()

    def mark(self) -> object:
        """Gaps and errors count from here."""
        for writer in self.writers:
            writer.last = time.monotonic()
            writer.longest = 0.0
            writer.errors.clear()
        return self.told()

    def told(self) -> object:
        """How it goes; a gap that has not ended counts too."""
        now, goes = time.monotonic(), self.going.is_set()
        gaps = [max(w.longest, now - w.last if goes else 0.0) for w in self.writers]
        errors: Counter[str] = Counter()
        for writer in self.writers:
            errors.update(dict(writer.errors))
        return {
            "acknowledged": sum(w.acknowledged for w in self.writers),
            "gap": max(gaps),
            "waiting": sum(now - w.last > ANSWER_SECONDS for w in self.writers) if goes else 0,
            "errors": dict(errors),
        }

    def fill(self, count: int, size: int) -> object:
        """So many records that nobody writes again."""
        connection = Patient(self.hosts[0])
        begin, value = self.filled, b"x" * size
        for first in range(begin, begin + count, BATCH):
            numbers = range(first, min(first + BATCH, begin + count))
            pairs = ((b"fill:%d" % i, b"%d:%s" % (i, value)) for i in numbers)
            connection.ask(*(command(b"SET", key, text) for key, text in pairs))
        self.filled = begin + count
        connection.close()
        return {"filled": self.filled}

    def check(self) -> object:
        """What was acknowledged and is not there; nobody writes meanwhile."""
        went = self.going.is_set()
        self.pause()
        may_be = {key: w.may_be(key) for w in self.writers for key in w.kept}
        may_be |= {f"fill:{i}": {b"%d" % i} for i in range(self.filled)}
        lost = []
        for key, found in self._read(list(may_be)):
            number = None if found is None else found.partition(b":")[0]
            if number not in may_be[key]:
                lost.append([key, *sorted(map(str, may_be[key])), str(number)])
        if went:
            self.resume()
        return {"checked": len(may_be), "lost": lost}

    def _read(self, keys: list[str]) -> list[tuple[str, bytes | None]]:
        connection = Patient(self.hosts[0])
        found: list[tuple[str, bytes | None]] = []
        for first in range(0, len(keys), BATCH):
            part = keys[first : first + BATCH]
            told = connection.ask(*(command(b"GET", key.encode()) for key in part))
            found += zip(part, told, strict=True)
        connection.close()
        return found


class Desk(BaseHTTPRequestHandler):
    """`/told`, `/mark`, `/pause`, `/resume`, `/check`, `/fill?count=&size=`: JSON."""

    load: Load

    def do_GET(self) -> None:
        """Any of them."""
        at = urlsplit(self.path)
        given = {key: int(text) for key, text in parse_qsl(at.query)}
        try:
            body = json.dumps(getattr(self.load, at.path.strip("/"))(**given))
            code = 200
        except OSError as error:
            body, code = json.dumps(str(error)), 503
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def main() -> None:
    """Until it is killed."""
    load = Desk.load = Load(sys.argv[1], sys.argv[2:])
    for writer in load.writers:
        writer.start()
    load.resume()
    ThreadingHTTPServer(("127.0.0.1", 9000), Desk).serve_forever()


if __name__ == "__main__":
    main()
