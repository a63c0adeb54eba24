"""The fault proxy: what it breaks, and that it breaks nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from perdure.testing.proxy import FaultProxy, Traffic

PATIENCE = 60.0
A_MOMENT = 0.2


class Echo:
    """A server that sends back what it gets, and remembers it."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.got = bytearray()
        self._change = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def wait_for(self, wanted: bytes) -> bool:
        with self._change:
            return self._change.wait_for(lambda: bytes(self.got) == wanted, PATIENCE)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        try:
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()
        except OSError:
            return

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65536):
                    with self._change:
                        self.got += data
                        self._change.notify_all()
                    connection.sendall(data)
            except OSError:
                return


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[FaultProxy]:
    with FaultProxy(echo.port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[socket.socket]:
    with connected(proxy) as connection:
        ask(connection, b"hello")
        yield connection


def connected(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE)


def ask(connection: socket.socket, words: bytes) -> bytes:
    connection.sendall(words)
    return read(connection, len(words))


def read(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count and (data := connection.recv(count - len(got))):
        got += data
    return got


def ends(connection: socket.socket) -> bool:
    """Whether nothing more comes: a reset or an end, not a silence."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(A_MOMENT)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(PATIENCE)
    return False


def test_without_a_fault_everything_arrives_and_is_counted(proxy: FaultProxy) -> None:
    words = b"0123456789" * 100_000
    with connected(proxy) as client:
        threading.Thread(target=client.sendall, args=(words,)).start()
        assert read(client, len(words)) == words
    assert (proxy.traffic.connections, proxy.traffic.to_server, proxy.traffic.to_client) == (1, 1_000_000, 1_000_000)


def test_the_last_word_of_one_end_reaches_the_other(client: socket.socket) -> None:
    client.sendall(b"bye")
    client.shutdown(socket.SHUT_WR)
    assert read(client, 3) == b"bye"
    assert client.recv(1) == b""


def test_a_cut_resets_every_connection_and_new_ones_are_welcome(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    assert proxy.traffic.open == 0
    with connected(proxy) as another:
        assert ask(another, b"again") == b"again"


def test_half_open_is_silence_and_healing_lets_the_words_through(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.half_open()
    client.sendall(b"anyone?")
    assert is_silent(client)
    proxy.heal()
    assert read(client, 7) == b"anyone?"


def test_a_silence_may_have_one_direction(proxy: FaultProxy, client: socket.socket, echo: Echo) -> None:
    proxy.half_open(to_server=False)
    client.sendall(b"do it")
    assert echo.wait_for(b"hellodo it")
    assert is_silent(client)


def test_new_connections_of_a_half_open_proxy_are_accepted_and_hear_nothing(proxy: FaultProxy) -> None:
    proxy.half_open()
    with connected(proxy) as client:
        client.sendall(b"hello")
        assert is_silent(client)


def test_exactly_so_many_bytes_reach_the_server_before_the_cut(
    proxy: FaultProxy, client: socket.socket, echo: Echo
) -> None:
    proxy.cut_after(bytes_to_server=3)
    client.sendall(b"abcdef")
    assert ends(client)
    assert echo.wait_for(b"helloabc")


@pytest.mark.parametrize("count", [1, 500_000])
def test_exactly_so_many_bytes_reach_the_client_before_the_cut(
    proxy: FaultProxy, client: socket.socket, count: int
) -> None:
    proxy.cut_after(bytes_to_client=count)
    threading.Thread(target=send_and_lose, args=(client, b"x" * 1_000_000)).start()
    assert read(client, count) == b"x" * count
    assert ends(client)


def send_and_lose(client: socket.socket, words: bytes) -> None:
    try:
        client.sendall(words)
    except OSError:
        return


def test_a_question_is_answered_and_the_answer_lost(proxy: FaultProxy, client: socket.socket, echo: Echo) -> None:
    proxy.cut_after(bytes_to_client=0)
    client.sendall(b"COMMIT")
    assert ends(client)
    assert echo.wait_for(b"helloCOMMIT")


def test_a_cut_after_bytes_happens_once(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.cut_after(bytes_to_client=0)
    client.sendall(b"COMMIT")
    assert ends(client)
    with connected(proxy) as another:
        assert ask(another, b"again") == b"again"


def test_refusing_leaves_connections_alone_and_healing_listens_at_the_same_port(
    proxy: FaultProxy, client: socket.socket
) -> None:
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connected(proxy)
    assert ask(client, b"still here") == b"still here"
    proxy.heal()
    with connected(proxy) as another:
        assert ask(another, b"back") == b"back"


def test_a_delay_holds_words_back_until_it_is_over(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.delay(0.05)
    assert ask(client, b"slow") == b"slow"


def test_healing_ends_a_long_delay(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.delay(100_000, to_server=False)
    client.sendall(b"slow")
    assert is_silent(client)
    proxy.heal()
    assert read(client, 4) == b"slow"


def test_where_no_server_listens_clients_are_cut_off() -> None:
    with FaultProxy(port_of_nobody()) as proxy:
        try:
            client = connected(proxy)
        except ConnectionResetError:  # the cut was quicker than the connection
            return
        with client:
            assert ends(client)


def port_of_nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as briefly:
        return briefly.getsockname()[1]


def test_closing_twice_or_unstarted_is_no_matter(echo: Echo) -> None:
    unstarted = FaultProxy(echo.port)
    unstarted.close()
    unstarted.close()
    assert unstarted.traffic == Traffic(connections=0, open=0, to_server=0, to_client=0)


def test_closing_cuts_what_is_open(echo: Echo) -> None:
    with FaultProxy(echo.port) as proxy:
        client = connected(proxy)
        ask(client, b"hello")
    with client:
        assert ends(client)
