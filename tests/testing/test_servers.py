"""The servers that tests start: they keep their data, crash when told to, and leave nothing behind."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pymysql
import pytest
import redis

from perdure.testing.servers import (
    MariadbServer,
    PgBouncer,
    PostgresServer,
    RedisServer,
    Server,
    ServerFailed,
    ServerMissing,
    require,
    shared_mariadb,
    shared_postgres,
    shared_redis,
)
from perdure.testing.servers.binaries import PGBOUNCER
from perdure.testing.servers.existing import ExistingMysql, ExistingPostgres, ExistingRedis
from perdure.testing.servers.family import family, wait_gone

A_MOMENT = 0.3
KINDS = [PostgresServer, MariadbServer, RedisServer]


class Client:
    """Writes and reads one kind of server in few words; each client has a table of its own."""

    _number = itertools.count()

    def __init__(self, server: Server, table: str | None = None) -> None:
        self.server = server
        self.table = table or f"t{next(self._number)}"

    def write(self, value: str) -> None:
        match self.server:
            case PostgresServer() | MariadbServer():
                self.server.sql(f"CREATE TABLE IF NOT EXISTS {self._name} (v text)")
                self.server.sql(f"INSERT INTO {self._name} VALUES ('{value}')")
            case _:
                with redis.Redis.from_url(self.server.url) as connection:
                    connection.rpush(self.table, value)

    def read(self) -> list[str]:
        match self.server:
            case PostgresServer():
                return self.server.sql(f"SELECT v FROM {self._name} ORDER BY v").splitlines()
            case MariadbServer():
                return [str(row[0]) for row in self.server.sql(f"SELECT v FROM {self._name} ORDER BY v")]
            case _:
                with redis.Redis.from_url(self.server.url, decode_responses=True) as connection:
                    return connection.lrange(self.table, 0, -1)

    @property
    def _name(self) -> str:
        return f"mysql.{self.table}" if isinstance(self.server, MariadbServer) else self.table


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.__name__)
def once_started(request: pytest.FixtureRequest) -> Iterator[Server]:
    with require(request.param) as server:
        yield server


@pytest.fixture
def server(once_started: Server) -> Server:
    return once_started.start()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with require(lambda: PostgresServer(durable=False)) as server:
        yield server


def test_a_server_that_stops_and_starts_keeps_its_data_and_its_port(server: Server) -> None:
    client = Client(server)
    client.write("a")
    port = server.port
    server.stop()
    assert not server.running
    server.start()
    assert (client.read(), server.port) == (["a"], port)


def test_what_was_written_survives_a_crash(server: Server) -> None:
    client = Client(server)
    client.write("a")
    server.crash()
    assert not server.running
    server.start()
    client.write("b")
    assert client.read() == ["a", "b"]


def test_a_crash_leaves_no_process(server: Server) -> None:
    members = family(server.pid or 0)
    server.crash()
    assert wait_gone(members, 0)


def test_a_frozen_server_takes_connections_and_says_nothing_until_it_thaws(server: Server) -> None:
    client = Client(server)
    client.write("a")
    server.freeze()
    assert server.running
    with socket.create_connection(("127.0.0.1", server.port), timeout=A_MOMENT) as connection:
        connection.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            connection.recv(1)
    server.thaw()
    assert client.read() == ["a"]


def test_all_of_a_server_stands_still_when_freeze_returns(server: Server) -> None:
    """Else it would answer one more call on a busy machine, and a test of a server that hangs would find none."""
    server.freeze()
    seen = states_of(server)
    server.thaw()
    assert seen == {"T"}


def states_of(server: Server) -> set[str]:
    """What the threads of all its processes do, as the kernel says."""
    threads = [stat for pid in family(server.pid or 0) for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in threads}


def test_a_frozen_server_can_be_stopped(server: Server) -> None:
    server.freeze()
    server.stop()
    assert not server.running


def test_asking_twice_changes_nothing(server: Server) -> None:
    assert server.start() is server
    server.stop()
    server.stop()
    server.crash()
    server.freeze()
    server.thaw()
    assert not server.running


@pytest.mark.parametrize("kind", KINDS)
def test_two_servers_side_by_side_know_nothing_of_each_other(kind: type[Server]) -> None:
    with require(kind) as one, require(kind) as two:
        Client(one, "t").write("a")
        Client(two, "t").write("b")
        assert (Client(one, "t").read(), Client(two, "t").read()) == (["a"], ["b"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_its_own_goes_with_the_server_and_a_given_one_stays(kind: type[Server]) -> None:
    with require(kind) as server:
        own = server.folder
    assert not own.exists()
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        with kind(Path(place) / "kept") as server:
            Client(server, "t").write("a")
        with kind(Path(place) / "kept") as server:
            assert Client(server, "t").read() == ["a"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_hasty_server_keeps_its_data_when_it_is_stopped(kind: Callable[..., Server]) -> None:
    with require(lambda: kind(durable=False)) as server:
        Client(server, "t").write("a")
        server.stop()
        server.start()
        assert Client(server, "t").read() == ["a"]


def test_settings_are_the_servers_own() -> None:
    with require(lambda: PostgresServer(settings={"work_mem": "7MB"})) as server:
        assert server.sql("SHOW work_mem; SHOW fsync; SHOW max_connections") == "7MB\non\n100"


def test_a_setting_the_server_does_not_know_fails_with_its_words() -> None:
    server = require(lambda: RedisServer(settings={"no-such-setting": "1"}))
    with pytest.raises(ServerFailed, match="no-such-setting"):
        server.start()
    server.close()


def test_an_immediate_stop_of_postgres_is_recovered_from() -> None:
    with require(PostgresServer) as server:
        Client(server, "t").write("a")
        server.immediate()
        server.start()
        assert Client(server, "t").read() == ["a"]
        assert "not properly shut down" in server.log.read_text()


@pytest.mark.parametrize("name", ["plain", 'With "quotes" and é', "a/b?c"])
def test_a_postgres_database_is_empty_and_its_url_leads_to_it(postgres: PostgresServer, name: str) -> None:
    url = postgres.database(name)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == (name,)
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname='public'").fetchone() == (0,)
    postgres.drop(name)


def test_a_postgres_database_orders_text_by_bytes_or_as_its_collation_says(postgres: PostgresServer) -> None:
    postgres.database("by_bytes")
    require(lambda: postgres.database("by_words", collation="en-US"))
    query = "SELECT string_agg(v, '' ORDER BY v) FROM (VALUES ('b'), ('B'), ('a')) AS t (v)"
    assert [postgres.sql(query, name) for name in ("by_bytes", "by_words")] == ["Bab", "abB"]


def test_a_role_needs_its_password(postgres: PostgresServer) -> None:
    url = postgres.role("clerk", "it's a / secret")
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("clerk",)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres.address(user="clerk", password="wrong"))


def test_a_database_may_belong_to_a_role(postgres: PostgresServer) -> None:
    postgres.role("owner", "secret")
    postgres.database("owned", owner="owner")
    with psycopg.connect(postgres.address("owned", user="owner", password="secret")) as connection:
        connection.execute("CREATE TABLE t (v text)")


def test_clients_of_postgres_may_insist_on_tls_and_on_who_it_is() -> None:
    with require(lambda: PostgresServer(durable=False, tls=True)) as server:
        query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        with psycopg.connect(server.url, sslmode="verify-full", sslrootcert=str(server.certificate)) as connection:
            assert connection.execute(query).fetchone() == (True,)
        with psycopg.connect(server.url, sslmode="disable") as connection:
            assert connection.execute(query).fetchone() == (False,)


def test_a_mariadb_database_is_empty_and_takes_every_character() -> None:
    with require(lambda: MariadbServer(durable=False)) as server:
        assert server.database("d").endswith("/d")
        with pymysql.connect(host=server.host, port=server.port, user="root", database="d") as connection:
            cursor = connection.cursor()
            assert cursor.execute("SHOW TABLES") == 0
            cursor.execute("CREATE TABLE t (v text)")
            cursor.execute("INSERT INTO t VALUES ('\U0001f600')")
        server.drop("d")


def test_pgbouncer_in_transaction_mode_answers_for_postgres(postgres: PostgresServer) -> None:
    postgres.database("pooled")
    with require(lambda: PgBouncer(postgres.port)) as bouncer:
        # Prepared statements do not survive the change of server connections, so clients have to do without.
        with psycopg.connect(bouncer.address("pooled"), prepare_threshold=None) as connection:
            assert connection.execute("SELECT current_database(), 1 + 1").fetchone() == ("pooled", 2)
        bouncer.crash()
        bouncer.start()
        with psycopg.connect(bouncer.url, autocommit=True) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_missing_program_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("perdure.testing.servers.binaries._SYSTEM", ())
    with pytest.raises(ServerMissing, match="`pgbouncer` is not on this machine; install it: apt-get install pgbounc"):
        PGBOUNCER.find()


def test_a_missing_server_skips_a_test_unless_all_are_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Server:
        raise ServerMissing("sqld", "apt-get install sqld")

    monkeypatch.delenv("PERDURE_TEST_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="apt-get install sqld"):
        require(missing)
    monkeypatch.setenv("PERDURE_TEST_ALL", "1")
    with pytest.raises(ServerMissing):
        require(missing)


def test_shared_servers_are_started_once() -> None:
    for shared in (shared_postgres, shared_mariadb, shared_redis):
        assert require(shared) is shared()


def test_databases_in_an_existing_server_have_names_of_their_own(postgres: PostgresServer) -> None:
    one, two = ExistingPostgres(postgres.url), ExistingPostgres(postgres.url)
    urls = {one.database("same"), two.database("same")}
    for url in urls:
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    one.drop("same")
    two.drop("same")
    assert (len(urls), one.port) == (2, postgres.port)


def test_an_existing_mariadb_and_redis_are_used_by_their_urls() -> None:
    with require(lambda: MariadbServer(durable=False)) as server:
        existing = ExistingMysql(server.url)
        name = existing.database("d").rpartition("/")[2]
        assert (name,) in server.sql("SHOW DATABASES")
        existing.drop("d")
    assert ExistingRedis("redis://example.invalid").port == 6379


PROGRAM = """
import sys, time
from perdure.testing.servers import PostgresServer, RedisServer
servers = [PostgresServer(durable=False).start(), RedisServer().start()]
servers[0].freeze()
print(*(server.folder for server in servers), *(server.pid for server in servers), flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("end", ["exits", "is killed"])
def test_servers_end_with_the_process_that_started_them(end: str) -> None:
    require(PostgresServer)
    require(RedisServer)
    seconds = "0" if end == "exits" else "1000"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, seconds], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        words = process.stdout.readline().split()
        pids = [member for pid in words[2:] for member in family(int(pid))]
        if end == "is killed":
            process.send_signal(signal.SIGKILL)
    assert wait_gone(pids, 60)
    while any(Path(folder).exists() for folder in words[:2]):  # the guardian comes after the funeral
        time.sleep(0.01)


FORKING = """
import os, sys
from perdure.testing.servers import RedisServer
server = RedisServer().start()
if not os.fork():
    sys.exit()
os.wait()
sys.exit(not server.running)
"""


def test_a_child_that_forks_off_ends_without_our_servers() -> None:
    require(RedisServer)
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
