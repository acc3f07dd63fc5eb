"""A target that shares no code with crawlmark: one thread, one epoll loop, arrivals stamped by the kernel.

Each read of a request carries the time at which the kernel received its last segment (SO_TIMESTAMPNS, CLOCK_REALTIME),
so that neither this program's scheduling nor crawlmark's clock is part of what is compared.
"""

import heapq
import itertools
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass

# linux/asm-generic/socket.h: SO_TIMESTAMPNS_OLD, and the type of the control message that it delivers.
SO_TIMESTAMPNS = 35
CLOSE = object()
# A client that does not read is sent no more than this, so that an endless answer costs no memory here.
UNSENT_BYTES = 1 << 20


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


@dataclass
class Arrival:
    """One request, as the kernel and this program saw it."""

    at: int
    """Received by the kernel, ns since the epoch."""
    id: int
    connection: int
    turn: int
    """How many requests its connection had carried before."""
    bytes: int
    replied: int | None = None
    """When the last byte of the answer was handed to the kernel, ns since the epoch."""
    status: int | None = None


@dataclass
class Peer:
    socket: socket.socket
    number: int
    turn: int = 0
    pending: bytes = b""
    stamp: int = 0
    unsent: bytes = b""


def answer(status=200, body=b"ok", headers=(), chunked=False):
    """The bytes of one whole answer."""
    lines = [f"HTTP/1.1 {status} X", *headers]
    if chunked:
        half = len(body) // 2
        lines.append("Transfer-Encoding: chunked")
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:]) if part) + b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


class Target:
    """Serves on a free loopback port while it is entered.

    `behave(arrival, target)` returns the steps of an answer: pairs of a delay in seconds, counted from the step before, and
    bytes, or CLOSE. It runs on the target's thread.
    """

    def __init__(self, behave, host="127.0.0.1"):
        self.behave = behave
        self.arrivals = []
        self.bytes_written = 0
        self.connections = 0
        self._host = host
        self._steps = []
        self._order = itertools.count()
        self._peers = {}
        self._over = False
        self._deaf = False

    def __enter__(self):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it, so that the first bytes of a connection are stamped as well.
        self._listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._listener.bind((self._host, 0))
        self._listener.listen(4096)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._epoll = select.epoll()
        self._epoll.register(self._listener.fileno(), select.EPOLLIN)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over = True
        self._thread.join(10)
        for peer in list(self._peers.values()):
            peer.socket.close()
        self._listener.close()

    @property
    def url(self):
        return f"http://{self._host}:{self.port}/{{id}}"

    def die(self):
        """Stops listening and resets every connection. Call from `behave`."""
        self._deaf = True

    def replies(self):
        return [arrival for arrival in self.arrivals if arrival.replied is not None]

    def _serve(self):
        while True:
            # What came before the end was announced is still read: it is part of what is compared.
            over = self._over
            wait = 0.0 if over else 0.05
            if self._steps:
                wait = min(wait, max(0.0, (self._steps[0][0] - now_ns()) / 1e9))
            events = self._epoll.poll(wait)
            if over and not events:
                return
            for fd, event in events:
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._peers:
                    if event & select.EPOLLOUT:
                        self._flush(self._peers[fd])
                    if fd in self._peers and event & ~select.EPOLLOUT:
                        self._read(self._peers[fd])
            while self._steps and self._steps[0][0] <= now_ns():
                _, _, peer, arrival, steps = heapq.heappop(self._steps)
                self._play(peer, arrival, steps)
            if self._deaf and self._listener.fileno() != -1:
                self._listener.close()
                for peer in list(self._peers.values()):
                    peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self._leave(peer)

    def _accept(self):
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            self._peers[accepted.fileno()] = Peer(accepted, self.connections)
            self.connections += 1
            self._epoll.register(accepted.fileno(), select.EPOLLIN)

    def _leave(self, peer):
        self._peers.pop(peer.socket.fileno(), None)
        peer.socket.close()

    def _read(self, peer):
        try:
            data, control, _, _ = peer.socket.recvmsg(65536, 256)
        except BlockingIOError:
            return
        except OSError:
            data, control = b"", []
        if not data:
            self._leave(peer)
            return
        stamp = now_ns()
        for level, kind, value in control:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = struct.unpack("qq", value[:16])
                stamp = seconds * 1_000_000_000 + nanoseconds
        peer.pending += data
        while (end := peer.pending.find(b"\r\n\r\n")) >= 0:
            head, peer.pending = peer.pending[: end + 4], peer.pending[end + 4 :]
            path = head.split(b" ", 2)[1].decode()
            digits = path.rsplit("/", 1)[-1]
            arrival = Arrival(stamp, int(digits) if digits.isdigit() else -1, peer.number, peer.turn, len(head))
            peer.turn += 1
            self.arrivals.append(arrival)
            self._play(peer, arrival, iter(self.behave(arrival, self)))

    def _play(self, peer, arrival, steps):
        """Plays the steps that are due; the next one that is not goes to the timers."""
        held = getattr(steps, "held", None)
        if held is None:
            steps = Steps(steps)
        else:
            self._do(peer, arrival, held)
            steps.held = None
        for delay, what in steps:
            if delay > 0:
                steps.held = what
                heapq.heappush(self._steps, (now_ns() + int(delay * 1e9), next(self._order), peer, arrival, steps))
                return
            self._do(peer, arrival, what)
        if arrival.status is not None and arrival.replied is None:
            arrival.replied = now_ns()

    def _do(self, peer, arrival, what):
        if peer.socket.fileno() == -1:
            return
        if what is CLOSE:
            self._leave(peer)
            return
        if what[:9] == b"HTTP/1.1 " and what[9:10] != b"1":
            arrival.status = int(what[9:12])
        if len(peer.unsent) > UNSENT_BYTES:
            return
        self.bytes_written += len(what)
        peer.unsent += what
        self._flush(peer)

    def _flush(self, peer):
        try:
            while peer.unsent:
                peer.unsent = peer.unsent[peer.socket.send(peer.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._leave(peer)
            return
        self._epoll.modify(peer.socket.fileno(), select.EPOLLIN | (select.EPOLLOUT if peer.unsent else 0))


class Steps:
    """The steps of an answer that are left, and the one that waits for its time."""

    def __init__(self, steps):
        self._steps = steps
        self.held = None

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._steps)
