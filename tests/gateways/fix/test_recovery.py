"""Kills and restarts: no report is lost or doubled, and no order is executed twice."""

import random
import resource
from pathlib import Path

import pytest

from serl.exchange.errors import ConfigError
from serl.gateways.fix.codec import encode
from serl.gateways.fix.resends import Resends
from serl.gateways.fix.store import OUTBOUND, SEQUENCES, SNAPSHOT, SessionStore
from tests.gateways.fix.client import Fields, FixClient, timestamp
from tests.gateways.fix.server_fixture import PASSWORD, Gateway, launch, start_gateway, write_accounts
from tests.server_fixture import Served, free_endpoint, start_exchange
from tests.server_fixture import launch as launch_exchange


class Survivor:
    """A FIX client that comes back after each end of the connection, and keeps what it received by number."""

    def __init__(self, login: str) -> None:
        self.login = login
        self.messages: dict[int, Fields] = {}
        self.sent: list[tuple[str, tuple[tuple[int, object], ...]]] = []  # by MsgSeqNum - 1
        self.seq = 1
        self.resent = False
        self.client: FixClient | None = None

    @property
    def expected(self) -> int:
        number = 1
        while number in self.messages:
            number += 1
        return number

    def connect(self, port: int) -> None:
        """Logs on, asks for what is missing, resends what the gateway asks for, until both sides have everything."""
        self.client = client = FixClient(port, self.login, PASSWORD, seq=self.seq)
        client.strict = False
        self.send("A", (98, 0), (108, 30), (554, PASSWORD))
        while self.read()["35"] != "A":
            pass
        self.settle()

    def settle(self) -> None:
        """Returns once nothing is missing on either side."""
        for attempt in range(50):
            if max(self.messages) >= self.expected:
                self.send("2", (7, self.expected), (16, 0))
            name = f"settled {attempt}"
            self.send("1", (112, name))
            while self.read().get("112") != name:
                if self.resent:  # the request was among what the gateway missed, and is not resent
                    self.resent = False
                    self.send("1", (112, name))
            if max(self.messages) < self.expected:
                return
        raise AssertionError("messages are still missing")

    def send(self, kind: str, *pairs: tuple[int, object]) -> None:
        assert self.client is not None
        self.sent.append((kind, pairs))
        self.client.seq = self.seq
        self.seq += 1
        self.client.send(kind, *pairs)

    def order(self, name: str, side: int = 1, price: str = "50") -> None:
        self.send("D", (11, name), (55, "AMZN"), (54, side), (60, timestamp()), (38, 3), (40, 2), (44, price), (59, 1))

    def read(self) -> Fields:
        """The next message; numbers that come again must be the same messages."""
        assert self.client is not None
        fields = self.client._read()
        if fields is None:
            raise ConnectionResetError
        assert fields["35"] not in "3j", fields
        number = int(fields["34"])
        if fields["35"] == "4":
            for filled in range(number, int(fields["36"])):
                self.messages.setdefault(filled, fields)
        elif number in self.messages and fields.get("43") == "Y":
            assert self.messages[number].get("17") in (fields.get("17"), None)
            self.messages[number] = fields
        else:
            self.messages[number] = fields
        if fields["35"] == "2":
            self.resend(int(fields["7"]))
        return fields

    def resend(self, begin: int) -> None:
        assert self.client is not None
        self.resent = True
        for number in range(begin, self.seq):
            kind, pairs = self.sent[number - 1]
            if kind in "DFG":
                self.client.send(kind, *pairs, seq=number, t43="Y", t122=timestamp())
            else:
                self.client.send("4", (123, "Y"), (36, number + 1), seq=number, t43="Y", t122=timestamp())

    @property
    def reports(self) -> list[Fields]:
        """The ExecutionReports, in order."""
        return [fields for _, fields in sorted(self.messages.items()) if fields["35"] == "8"]

    def close(self) -> None:
        """Logs out."""
        self.send("5")
        while self.read()["35"] != "5":
            pass
        assert self.client is not None
        self.client.close()


def restart(gateway: Gateway, exchange: Served, folder: Path) -> Gateway:
    gateway.kill()
    return launch(exchange.endpoint, folder / "accounts.yaml", folder / "store")


def check_all(survivor: Survivor, count: int) -> None:
    """Each order was accepted once, and each report came once, in the order of the exchange."""
    while sum(fields["150"] == "0" for fields in survivor.reports) < count:
        survivor.read()
    survivor.settle()
    accepted = [fields["11"] for fields in survivor.reports if fields["150"] == "0"]
    assert sorted(accepted) == sorted(f"o{n}" for n in range(count))
    numbers = [int(fields["17"]) for fields in survivor.reports]
    assert numbers == sorted(set(numbers))


def test_a_gateway_killed_at_any_moment_loses_and_doubles_nothing(exchange: Served, tmp_path: Path) -> None:
    source = random.Random(5)
    write_accounts(tmp_path / "accounts.yaml", ["killed"])
    gateway = launch(exchange.endpoint, tmp_path / "accounts.yaml", tmp_path / "store")
    survivor, count = Survivor("killed"), 0
    for _ in range(4):
        survivor.connect(gateway.port)
        for _ in range(source.randrange(20, 60)):
            survivor.order(f"o{count}", 1 + count % 2, str(400 + count % 2))
            count += 1
        for _ in range(source.randrange(30)):
            survivor.read()
        gateway = restart(gateway, exchange, tmp_path)
    survivor.connect(gateway.port)
    check_all(survivor, count)
    survivor.close()
    assert "Traceback" not in gateway.stop()


@pytest.mark.long
def test_many_kills(exchange: Served, tmp_path: Path) -> None:
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        source = random.Random(seed)
        write_accounts(folder / "accounts.yaml", [f"killed{seed}"])
        gateway = launch(exchange.endpoint, folder / "accounts.yaml", folder / "store")
        survivor, count = Survivor(f"killed{seed}"), 0
        for _ in range(6):
            survivor.connect(gateway.port)
            orders = source.randrange(1, 300)
            for _ in range(orders):
                survivor.order(f"o{count}", 1 + count % 2, str(400 + count % 2))
                count += 1
            for _ in range(source.randrange(orders)):
                survivor.read()
            gateway = restart(gateway, exchange, folder)
        survivor.connect(gateway.port)
        check_all(survivor, count)
        survivor.close()
        assert "Traceback" not in gateway.stop()


def test_an_order_that_never_left_a_killed_gateway_is_sent_by_the_next(exchange: Served, tmp_path: Path) -> None:
    """The store has it, and the exchange does not: as after a kill between the two."""
    accounts = write_accounts(tmp_path / "accounts.yaml", ["between"])
    with start_gateway(exchange.endpoint, tmp_path, ["between"]) as gateway, gateway.client("between") as client:
        client.logon()
        client.order("o1", 1, 1, "1", symbol="MSFT")
        order_id = int(client.receive("8")["37"])
        client.logout()
    store = SessionStore(tmp_path / "store", "between")
    (first,) = [record for record in store.load() if record[0] == 1]
    rows = bytearray(first[4])
    rows[16:24] = (order_id + 1).to_bytes(8, "little")
    change = first[2][:1] + [order_id + 1, "o2"] + first[2][3:]
    store.append([1, client.seq, change, order_id + 1, bytes(rows)])
    store.close()
    gateway = launch(exchange.endpoint, accounts, tmp_path / "store")
    with gateway.client("between", seq=client.seq + 1, expected=client.expected) as again:
        again.logon()
        report = again.receive("8")
        assert (report["11"], report["37"], report["150"]) == ("o2", str(order_id + 1), "0")
    gateway.stop()


def test_an_exchange_killed_underneath(tmp_path: Path) -> None:
    endpoint, options = free_endpoint(), ("--symbols", "AMZN", "--journal", str(tmp_path / "journal"))
    first = launch_exchange(*options, endpoint=endpoint)
    with start_gateway(endpoint, tmp_path, ["alice"]) as gateway, gateway.client("alice") as client:
        client.logon()
        client.order("o1")
        assert client.receive("8")["150"] == "0"
        first.kill()
        assert first.process.stdout is not None
        first.process.stdout.close()
        client.order("o2")  # it waits for the exchange
        second = launch_exchange(*options, endpoint=endpoint)
        assert client.receive("8")["11"] == "o2"
        client.send("F", (11, "o3"), (41, "o1"), (55, "AMZN"), (54, 1), (60, timestamp()))
        report = client.receive("8")
        assert (report["150"], report["11"], report["41"]) == ("4", "o3", "o1")
        second.stop()
        assert "shutdown" in client.receive("5")["58"]
        client.send("5")
        assert client.ended()
        with gateway.client("alice", seq=client.seq, expected=client.expected) as again:
            again.send("A", (98, 0), (108, 30), (554, PASSWORD))
            assert "serl exchange start" in again.receive("5")["58"] and again.ended()


@pytest.mark.long
def test_an_exchange_that_begins_with_another_journal_has_lost_the_orders(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    with start_gateway(endpoint, tmp_path, ["alice"]) as gateway:
        with start_exchange(symbols="AMZN", endpoint=endpoint), gateway.client("alice") as client:
            client.logon()
            client.order("o1")
            client.receive("8")
            client.logout()
        with (
            start_exchange(symbols="AMZN", endpoint=endpoint),
            gateway.client("alice", seq=client.seq, expected=client.expected) as again,
        ):
            again.logon()
            lost = again.receive("8")
            assert (lost["11"], lost["150"], lost["151"]) == ("o1", "4", "0") and "another journal" in lost["58"]
            again.order("o2")
            assert again.receive("8")["150"] == "0"


@pytest.mark.long
def test_a_drop_copy_of_an_exchange_that_begins_with_another_journal(tmp_path: Path) -> None:
    """It begins with the new events, although their numbers are those of old ones."""
    endpoint, options = free_endpoint(), dict[str, dict[str, object]](copies={"drop_copy": True})
    seq = expected = 1
    with start_gateway(endpoint, tmp_path, ["alice", "copies"], **options) as gateway:
        for turn in range(2):
            with (
                start_exchange(symbols="AMZN", endpoint=endpoint),
                gateway.client("copies", seq=seq, expected=expected) as copies,
                gateway.client("alice") as alice,
            ):
                copies.logon()
                alice.strict = False
                alice.logon((141, "Y"))
                for number in range(3 - turn):
                    alice.order(f"{turn}-{number}")
                    assert copies.receive("8")["150"] == "0"
                copies.logout()
                seq, expected = copies.seq, copies.expected


def test_open_orders_survive_a_reset_of_the_numbers(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.logon()
        client.order("o1", 1, 1, "1", symbol="MSFT")
        client.order("o2", 1, 1, "1", symbol="MSFT")
        client.receive("8"), client.receive("8")
        client.send("F", (11, "o3"), (41, "o2"), (55, "MSFT"), (54, 1), (60, timestamp()))
        client.receive("8")
        client.logout()
    with gateway.client(client.login) as again:
        again.logon((141, "Y"))
        again.send("F", (11, "o4"), (41, "o1"), (55, "MSFT"), (54, 1), (60, timestamp()))
        assert again.receive("8")["150"] == "4"
        again.order("o2", 1, 1, "1", symbol="MSFT")  # a name of a finished order may be used again
        assert again.receive("8")["150"] == "0"


def test_the_end_of_a_gateway_is_a_logout(exchange: Served, tmp_path: Path) -> None:
    with start_gateway(exchange.endpoint, tmp_path, ["stopped"]) as gateway, gateway.client("stopped") as client:
        client.logon()
        gateway.process.terminate()
        assert client.receive("5")["58"] == "the gateway stops"
        client.send("5")
        assert client.ended()
        gateway.process.wait(timeout=30)
        assert gateway.process.returncode == 0


@pytest.mark.long
def test_a_store_that_another_gateway_uses(exchange: Served, tmp_path: Path) -> None:
    with start_gateway(exchange.endpoint, tmp_path, ["shared"]) as gateway, gateway.client("shared") as client:
        client.logon()
        other = launch(exchange.endpoint, tmp_path / "accounts.yaml", tmp_path / "store")
        with other.client("shared") as second:
            second.send("A", (98, 0), (108, 30), (554, PASSWORD))
            assert "another gateway" in second.receive("5")["58"] and second.ended()
        other.stop()


def test_a_store_whose_disk_is_full(exchange: Served, tmp_path: Path) -> None:
    """The session ends at once; once there is room, it goes on with all reports."""
    with start_gateway(exchange.endpoint, tmp_path, ["full"]) as gateway:
        with gateway.client("full") as client:
            client.logon()
            client.order("o1", 1, 1, "1", symbol="MSFT")
            client.receive("8")
            size = (tmp_path / "store" / "full.session").stat().st_size
            resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (size + 20, resource.RLIM_INFINITY))
            client.order("o2", 1, 1, "1", symbol="MSFT")
            assert client.ended()
        assert (tmp_path / "store" / "full.session").stat().st_size == size
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        answer = None
        while answer is None:  # until the store is closed
            with gateway.client("full", seq=client.seq, expected=client.expected) as again:
                again.send("A", (98, 0), (108, 30), (554, PASSWORD))
                answer = again._read()
                if answer is None or answer["35"] != "A":
                    answer = None
                    continue
                again.strict = False
                assert again.receive("2")["7"] == str(client.seq - 1)
                again.order("o2", 1, 1, "1", symbol="MSFT", seq=client.seq - 1, t43="Y", t122=timestamp())
                report = again.receive("8")
                assert (report["11"], report["150"]) == ("o2", "0")


@pytest.mark.long
def test_a_lockstep_exchange_is_refused(tmp_path: Path) -> None:
    with (
        start_exchange(symbols="AMZN", clock="lockstep") as served,
        start_gateway(served.endpoint, tmp_path, ["alice"]) as gateway,
        gateway.client("alice") as client,
    ):
        client.send("A", (98, 0), (108, 30), (554, PASSWORD))
        assert "lockstep" in client.receive("5")["58"] and client.ended()


def test_a_store_ends_at_its_last_whole_record(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "store", "a/b")
    assert list(store.load()) == []
    store.append([OUTBOUND, 3, 17, b"message", None])
    store.append([SEQUENCES, 5, 6])
    store.close()
    assert store.path.parent == tmp_path / "store" and store.path.stat().st_mode & 0o077 == 0
    whole = store.path.read_bytes()
    for cut in range(len(whole)):
        store.path.write_bytes(whole[:cut])
        again = SessionStore(tmp_path / "store", "a/b")
        found = list(again.load())
        assert found == [[OUTBOUND, 3, 17, b"message", None], [SEQUENCES, 5, 6]][: len(found)]
        again.append([SEQUENCES, 8, 9])
        again.close()
    damaged = bytearray(whole)
    damaged[12] ^= 1
    store.path.write_bytes(damaged)
    assert list(SessionStore(tmp_path / "store", "a/b").load()) == []


def test_a_store_gives_its_messages_by_number(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, "a")
    list(store.load())
    for number in (2, 3, 7):
        store.append([OUTBOUND, number, number, b"%d" % number, None])
    store.flush()
    assert [store.message(number) for number in range(1, 9)] == [None, b"2", b"3", None, None, None, b"7", None]
    assert (store.next_out, store.last_report) == (8, 7)
    store.reset(["state"])
    assert (store.next_in, store.next_out, store.last_report, store.message(2)) == (1, 1, 7, None)
    store.append([OUTBOUND, 1, 8, b"one", None])
    store.close()
    again = SessionStore(tmp_path, "a")
    assert [record[0] for record in again.load()] == [SNAPSHOT, OUTBOUND]
    assert (again.message(1), again.last_report, again.next_out) == (b"one", 8, 2)


def test_a_resend_request_within_a_resend(tmp_path: Path) -> None:
    """What came meanwhile is sent once as it is, and what is asked for again comes again."""
    store = SessionStore(tmp_path, "a")
    list(store.load())

    def add(*numbers: int) -> None:
        for number in numbers:
            store.append([OUTBOUND, number, 0, encode(f"35=8\x0134={number}\x0152=x\x0158={'t' * 40_000}\x01"), None])
        store.flush()

    def sent() -> list[tuple[int, bool]]:
        return [
            (int(data.split(b"\x0134=")[1].split(b"\x01")[0]), b"\x0143=Y\x01" in data) for data in resends.part("now")
        ]

    add(1, 2, 3)
    resends = Resends(store, "")
    resends.start(1, 3)
    add(4, 5)
    assert sent() == [(1, True), (2, True)]
    resends.start(2, 5)
    assert sent() == [(2, True), (3, True)]
    assert sent() == [(4, False), (5, False)] and resends
    resends.start(4, 5)
    add(6)
    assert sent() + sent() == [(4, True), (5, True), (6, False)] and not resends
    store.close()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "a.session").mkdir()
    with pytest.raises(ConfigError, match="give another --store"):
        list(SessionStore(tmp_path, "a").load())
