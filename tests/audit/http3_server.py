"""A server of HTTP/3 that crawlmark does not share a line with: aioquic's QUIC, answering items.

    server.py FOLDER [--idle S] [--alpn NAME] [--reset N] [--port P]

It writes its certificate to FOLDER/cert.pem, prints its port once it listens, and writes FOLDER/log.json, the
requests by path and the connections, when it gets SIGTERM and all connections are closed, or 5 seconds later. Paths: /items/N answers N; /slow/N after a second;
/limit/N alternates between 429 and 200; /goaway/N is the last request of its connection; /lost/N gets a stateless reset; with --reset N, every Nth request is reset.
"""

import argparse
import asyncio
import collections
import datetime
import ipaddress
import json
import pathlib
import signal

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import H3_ALPN, FrameType, H3Connection, encode_frame
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, ProtocolNegotiated
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

log = {"connections": 0, "requests": collections.Counter(), "body_bytes": 0, "methods": collections.Counter(), "closed": collections.Counter()}


class Server(QuicConnectionProtocol):
    http = None

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            log["connections"] += 1
        if isinstance(event, ConnectionTerminated):
            log["closed"][event.error_code] += 1
        if isinstance(event, ProtocolNegotiated) and event.alpn_protocol in H3_ALPN:
            self.http = H3Connection(self._quic)
            self.bodies = collections.Counter()
            self.heads = {}
        if self.http is None:
            return
        for happened in self.http.handle_event(event):
            if isinstance(happened, HeadersReceived):
                self.heads[happened.stream_id] = dict(happened.headers)
            if isinstance(happened, DataReceived):
                self.bodies[happened.stream_id] += len(happened.data)
                log["body_bytes"] += len(happened.data)
            if isinstance(happened, (HeadersReceived, DataReceived)) and happened.stream_ended:
                self.request(happened.stream_id)

    def request(self, stream):
        head = self.heads.pop(stream)
        path = head[b":path"].decode()
        log["requests"][path] += 1
        log["methods"][head[b":method"].decode()] += 1
        if args.reset and sum(log["requests"].values()) % args.reset == 0:
            self._quic.reset_stream(stream, 0x102)
            self.transmit()
        elif path.startswith("/lost/"):
            # As a server that has begun anew: a stateless reset (RFC 9000, 10.3).
            address = self._quic._network_paths[0].addr
            self._transport.sendto(b"\x40" + bytes(30) + self._quic._host_cids[0].stateless_reset_token, address)
        elif path.startswith("/goaway/"):
            # No request after this one (RFC 9114, 5.2).
            frame = encode_frame(FrameType.GOAWAY, encode_uint_var(stream + 4))
            self._quic.send_stream_data(self.http._local_control_stream_id, frame)
            self.answer(stream, b"200", path)
        elif path.startswith("/slow/"):
            asyncio.get_running_loop().call_later(1, self.answer, stream, b"200", path)
        elif path.startswith("/limit/") and log["requests"][path] == 1:
            self.answer(stream, b"429", path)
        else:
            self.answer(stream, b"200", path)

    def answer(self, stream, status, path):
        body = path.rsplit("/", 1)[1].encode()
        head = [(b":status", status), (b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
        if status == b"429":
            head.append((b"retry-after", b"0"))
        self.http.send_headers(stream, head)
        self.http.send_data(stream, body, end_stream=True)
        self.transmit()


def certificate(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "http3 test server")])
    day, now = datetime.timedelta(days=1), datetime.datetime.now(datetime.timezone.utc)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
    made = made.add_extension(names, critical=False).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


async def main():
    folder = pathlib.Path(args.folder)
    certificate(folder)
    settings = QuicConfiguration(is_client=False, alpn_protocols=[args.alpn], idle_timeout=args.idle)
    settings.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server = await serve("127.0.0.1", args.port, configuration=settings, create_protocol=Server)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await stop.wait()
    # What a client sent before the signal may still be in the socket: its closes come last.
    for _ in range(500):
        if sum(log["closed"].values()) >= log["connections"]:
            break
        await asyncio.sleep(0.01)
    (folder / "log.json").write_text(json.dumps(log))


reader = argparse.ArgumentParser()
reader.add_argument("folder")
reader.add_argument("--idle", type=float, default=60)
reader.add_argument("--alpn", default="h3")
reader.add_argument("--reset", type=int, default=0)
reader.add_argument("--port", type=int, default=0)
args = reader.parse_args()
asyncio.run(main())
