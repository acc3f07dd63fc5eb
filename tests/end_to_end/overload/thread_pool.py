"""A service as many are written: a thread accepts connections into a queue without a bound, and four
threads serve them in order, for 20 ms each, whether their client is still there or not.

Prints its port once it listens.
"""

import queue
import socket
import threading
import time

WORKERS = 4
SERVICE_S = 0.02
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"


def serve(waiting):
    while True:
        client = waiting.get()
        try:
            client.recv(65536)
            time.sleep(SERVICE_S)
            client.sendall(ANSWER)
        except OSError:
            pass
        client.close()


def main():
    waiting = queue.Queue()
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    for _ in range(WORKERS):
        threading.Thread(target=serve, args=[waiting], daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        waiting.put(client)


main()
