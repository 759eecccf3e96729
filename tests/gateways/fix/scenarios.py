"""Scenarios of FIX 4.4 session behaviour as rows of steps, after volume 2 of the specification.

The numbers at the beginning of the names are those under which acceptance tests of FIX engines are commonly listed.
"""

from collections.abc import Callable
from typing import Any

from tests.gateways.fix.client import Fields, FixClient, timestamp

Step = Callable[[FixClient], None]
Row = tuple[str, list[Step]]


def logon(*pairs: tuple[int, Any], heartbeat_s: int = 30, **options: Any) -> Step:
    """Logs on."""

    def step(client: FixClient) -> None:
        answer = client.logon(*pairs, heartbeat_s=heartbeat_s, **options)
        assert (answer["98"], answer["108"]) == ("0", str(heartbeat_s)), answer

    return step


def send(kind: str, *pairs: tuple[int, Any], **options: Any) -> Step:
    """Sends a message; values may be functions, which are called then."""

    def step(client: FixClient) -> None:
        made = {name: value() if callable(value) else value for name, value in options.items()}
        client.send(kind, *((tag, value() if callable(value) else value) for tag, value in pairs), **made)

    return step


def order(cl_ord_id: str, *more: tuple[int, Any], **options: Any) -> Step:
    """Sends an order to buy 1 MSFT far from the market."""

    def step(client: FixClient) -> None:
        made = {name: value() if callable(value) else value for name, value in options.items()}
        client.order(cl_ord_id, 1, 1, "0.01", *more, symbol="MSFT", **made)

    return step


def expect(kind: str, **fields: Any) -> Step:
    """The next message is of this type and has these fields, as t58="..."; text: a part of field 58."""

    def step(client: FixClient) -> None:
        message: Fields = client.receive(kind)
        text = fields.get("text", "")
        assert text in message.get("58", ""), message
        for name, value in fields.items():
            if name != "text":
                assert message.get(name[1:]) == (None if value is None else str(value)), (name, value, message)

    return step


def ended(client: FixClient) -> None:
    """The gateway ends the connection."""
    assert client.ended()


def raw(change: Callable[[FixClient], bytes]) -> Step:
    """Sends bytes made with the client."""
    return lambda client: client.send_raw(change(client))


def lenient(client: FixClient) -> None:
    """From here on the gateway's numbers are not checked."""
    client.strict = False


def alive(client: FixClient) -> None:
    """The session works: a TestRequest is answered, and nothing came before."""
    client.send("1", (112, "alive"))
    answer = client.receive("0")
    assert answer.get("112") == "alive", answer


def skip(count: int) -> Step:
    """The client's next messages have numbers higher by this."""

    def step(client: FixClient) -> None:
        client.seq += count

    return step


def seq(number: int) -> Step:
    """The number of the client's next message."""

    def step(client: FixClient) -> None:
        client.seq = number

    return step


def damaged(find: bytes, put: bytes) -> Step:
    """A Heartbeat in whose bytes something is replaced; its number is used again."""

    def step(client: FixClient) -> None:
        data = client.message("0", seq=client.seq)
        assert find in data
        client.send_raw(data.replace(find, put, 1))

    return step


def with_fields(fields: str) -> Step:
    """A message of these fields, which begin with MsgType, with the right length and checksum. {seq} and {time} are filled in."""

    def step(client: FixClient) -> None:
        text = fields.format(seq=client.seq, time=timestamp(), login=client.login).replace("|", "\x01")
        data = f"8=FIX.4.4\x019={len(text)}\x01{text}".encode()
        client.send_raw(data + b"10=%03d\x01" % (sum(data) % 256))
        client.seq += 1

    return step


HEAD = "35=D|49={login}|56=SERL|34={seq}|52={time}|"
ORDER = "11=o|55=MSFT|54=1|60={time}|38=1|40=2|44=0.01|"


def reject(reason: int, tag: int | None = None, kind: str | None = "D") -> Step:
    """A Reject; then the session still works."""

    def step(client: FixClient) -> None:
        expect("3", t373=reason, t371=tag, t372=kind, t45=client.seq - 1)(client)
        alive(client)

    return step


OLD = "20000101-00:00:00"
FIRST: list[Row] = [
    ("1a a valid Logon", [logon(), alive]),
    ("1a a Logon whose number is too high", [skip(4), logon(), expect("2", t7=1, t16=0), send("4", (123, "Y"), (36, 6), seq=1, t43="Y", t122=timestamp), alive]),
    ("1a a Logon with ResetSeqNumFlag", [logon((141, "Y")), alive]),
    ("1a ResetSeqNumFlag with another number than 1", [seq(3), send("A", (98, 0), (108, 30), (554, "correct horse"), (141, "Y")), expect("5", text="MsgSeqNum (34) 1"), ended]),
    ("1c a wrong TargetCompID", [send("A", (98, 0), (108, 30), (554, "correct horse"), t56="NOBODY"), expect("5", text="TargetCompID"), ended]),
    ("1c an unknown SenderCompID", [send("A", (98, 0), (108, 30), (554, "correct horse"), t49="nobody"), expect("5", text="Password"), ended]),
    ("1c a wrong password", [send("A", (98, 0), (108, 30), (554, "wrong horse")), expect("5", text="Password"), ended]),
    ("1c no password", [send("A", (98, 0), (108, 30)), expect("5", text="Password"), ended]),
    ("1c a wrong BeginString", [lambda client: setattr(client, "begin_string", "FIX.4.2"), send("A", (98, 0), (108, 30), (554, "correct horse")), ended]),
    ("1d a negative HeartBtInt", [send("A", (98, 0), (108, -1), (554, "correct horse")), expect("5", text="HeartBtInt"), ended]),
    ("1d no HeartBtInt", [send("A", (98, 0), (554, "correct horse")), expect("5", text="tag 108"), ended]),
    ("1d encryption", [send("A", (98, 3), (108, 30), (554, "correct horse")), expect("5", text="EncryptMethod"), ended]),
    ("1d a SendingTime long ago", [send("A", (98, 0), (108, 30), (554, "correct horse"), t52=OLD), expect("5", text="SendingTime"), ended]),
    ("1e the first message is no Logon", [send("0"), ended]),
    ("1e the first message is an order", [order("o"), ended]),
    ("1e the first bytes are no message", [raw(lambda _: b"GET / HTTP/1.1\r\n\r\n"), ended]),
    ("1e the Logon has a wrong checksum", [raw(lambda client: client.message("A", (98, 0), (108, 30))[:-4] + b"999\x01"), ended]),
    ("1e no MsgSeqNum in the Logon", [send("A", (98, 0), (108, 30), (554, "correct horse"), drop=(34,)), ended]),
    ("1f NextExpectedMsgSeqNum too high", [send("A", (98, 0), (108, 30), (554, "correct horse"), (789, 99)), expect("5", text="NextExpectedMsgSeqNum"), ended]),
]  # fmt: skip
NUMBERS: list[Row] = [
    ("2a a message in sequence", [logon(), send("0"), send("0"), alive]),
    ("2b a number too high", [logon(), skip(2), send("0"), expect("2", t7=2, t16=0), send("0"), send("0", seq=2, t43="Y", t122=timestamp), send("4", (123, "Y"), (36, 6), seq=3, t43="Y", t122=timestamp), alive]),
    ("2c a number too low", [logon(), send("0", seq=1), expect("5", text="MsgSeqNum too low, expecting 2 but received 1"), ended]),
    ("2d a wrong checksum is ignored", [logon(), damaged(b"\x0110=", b"\x0110=9"), damaged(b"35=0", b"35=1"), alive]),
    ("2e a possible duplicate that has arrived is ignored", [logon(), send("0"), send("0", seq=2, t43="Y", t122=timestamp), alive]),
    ("2e so is an order", [logon(), order("o"), expect("8", t150=0), order("p", seq=2, t43="Y", t122=timestamp), alive]),
    ("2f a possible duplicate that has not arrived counts", [logon(), order("o", t43="Y", t122=timestamp), expect("8", t150=0, t11="o"), alive]),
    ("2g OrigSendingTime after SendingTime", [logon(), send("0"), send("0", seq=2, t43="Y", t122=lambda: timestamp(10)), expect("3", t373=10, t371=122), expect("5", text="SendingTime"), ended]),
    ("2h no OrigSendingTime", [logon(), send("0"), send("0", seq=2, t43="Y"), expect("3", t373=1, t371=122), alive]),
    ("2i another BeginString", [logon(), lambda client: setattr(client, "begin_string", "FIX.4.2"), send("0"), expect("5", text="BeginString"), ended]),
    ("2k another SenderCompID", [logon(), send("0", t49="other"), expect("3", t373=9, t371=49), expect("5", text="CompID"), ended]),
    ("2k another TargetCompID", [logon(), send("0", t56="other"), expect("3", t373=9, t371=56), expect("5", text="CompID"), ended]),
    ("2l no SenderCompID", [logon(), send("0", drop=(49,)), expect("3", t373=1, t371=49), expect("5"), ended]),
    ("2m a BodyLength too small is ignored", [logon(), damaged(b"9=5", b"9=4"), alive]),
    ("2m a BodyLength too large is ignored", [logon(), damaged(b"9=5", b"9=15"), alive]),
    ("2o a SendingTime long ago", [logon(), send("0", t52=OLD), expect("3", t373=10, t371=52), expect("5", text="SendingTime"), ended]),
    ("2o no SendingTime", [logon(), send("0", drop=(52,)), reject(1, 52, "0")]),
    ("2o a SendingTime that is no time", [logon(), send("0", t52="noon"), reject(6, 52, "0")]),
    ("2q a MsgType that does not exist", [logon(), send("ZZ"), reject(11, 35, "ZZ")]),
    ("2q a MsgType that is not supported", [logon(), send("6", (23, "i")), expect("j", t380=3, t372="6", t45=2), alive]),
    ("2r no MsgSeqNum", [logon(), send("0", drop=(34,)), expect("5", text="MsgSeqNum"), ended]),
    ("2t MsgType is not the third field", [logon(), with_fields("49={login}|35=0|56=SERL|34={seq}|52={time}|"), skip(-1), alive]),
    ("3b a Reject of the client", [logon(), send("3", (45, 1), (58, "no")), alive]),
    ("4b a TestRequest", [logon(), send("1", (112, "hello")), expect("0", t112="hello")]),
    ("4b a TestRequest without TestReqID", [logon(), send("1"), reject(1, 112, "1")]),
    ("5a a Logon again", [logon(), send("A", (98, 0), (108, 30)), reject(99, None, "A")]),
    ("6 a Logout", [logon(), send("5"), expect("5"), ended]),
    ("6 a Logout whose number is too high", [logon(), skip(3), send("5"), expect("5"), ended]),
]  # fmt: skip
RESENDS: list[Row] = [
    ("8a administrative messages are a gap", [logon(), send("1", (112, "a")), expect("0"), send("2", (7, 1), (16, 0)), expect("4", t34=1, t36=3, t123="Y", t43="Y"), alive]),
    ("8b application messages come again", [logon(), order("o"), expect("8", t34=2), send("1", (112, "a")), expect("0"), order("p"), expect("8", t34=4), send("2", (7, 1), (16, 0)),
        expect("4", t34=1, t36=2), expect("8", t34=2, t43="Y", t11="o"), expect("4", t34=3, t36=4), expect("8", t34=4, t43="Y", t11="p"), alive]),
    ("8c a part of them", [logon(), order("o"), expect("8"), order("p"), expect("8"), send("2", (7, 2), (16, 2)), expect("8", t34=2, t43="Y"), alive]),
    ("8d an end beyond the last", [logon(), order("o"), expect("8"), send("2", (7, 2), (16, 9999)), expect("8", t34=2, t43="Y"), alive]),
    ("8e a beginning beyond the last", [logon(), send("2", (7, 50), (16, 0)), alive]),
    ("8f an end before the beginning", [logon(), send("2", (7, 5), (16, 3)), reject(5, 7, "2")]),
    ("8g a beginning of 0", [logon(), send("2", (7, 0), (16, 0)), reject(5, 7, "2")]),
    ("8h a ResendRequest with a number too high is answered first", [logon(), skip(2), send("2", (7, 1), (16, 0)), lenient, expect("2", t7=2), expect("4", t34=1, t36=2), expect("4", t34=2, t36=3), send("4", (123, "Y"), (36, 5), seq=2, t43="Y", t122=timestamp), alive]),
    ("8i a resend at the Logon", [logon((141, "Y")), order("o"), expect("8"), send("5"), expect("5"), ended]),
    ("10a a gap fill", [logon(), send("4", (123, "Y"), (36, 20)), seq(20), alive]),
    ("10b a gap fill backwards", [logon(), send("0"), send("4", (123, "Y"), (36, 2)), reject(5, 36, "4")]),
    ("10c a gap fill whose number is too high", [logon(), skip(3), send("4", (123, "Y"), (36, 20)), expect("2", t7=2, t16=0)]),
    ("10d a gap fill whose number is too low", [logon(), send("4", (123, "Y"), (36, 20), seq=1), expect("5", text="too low"), ended]),
    ("10e the same as a possible duplicate is ignored", [logon(), send("4", (123, "Y"), (36, 20), seq=1, t43="Y", t122=timestamp), alive]),
    ("10f no NewSeqNo", [logon(), send("4", (123, "Y")), reject(1, 36, "4")]),
    ("11a a reset forwards", [logon(), send("4", (36, 20), seq=1), seq(20), alive]),
    ("11b a reset to the number that is expected", [logon(), send("4", (123, "N"), (36, 2), seq=7), alive]),
    ("11c a reset backwards", [logon(), send("0"), send("4", (36, 2), seq=9), expect("3", t373=5, t371=36), alive]),
    ("13b a reset of both sides within the session", [logon(), order("o"), expect("8"), seq(1), lenient, send("A", (98, 0), (108, 30), (141, "Y")), expect("A", t34=1, t141="Y"), alive]),
]  # fmt: skip
FIELDS: list[Row] = [
    ("14a a tag that does not exist", [logon(), order("o", (1999, "x")), reject(0, 1999)]),
    ("14a a tag 0", [logon(), with_fields(HEAD + ORDER + "0=x|"), reject(0, None)]),
    ("14a a tag that is no number", [logon(), with_fields(HEAD + ORDER + "abc=x|"), reject(0, None)]),
    ("14a a field without a tag", [logon(), with_fields(HEAD + ORDER + "abc|"), reject(0, None)]),
    ("14a a user-defined tag is ignored", [logon(), order("o", (9999, "x")), expect("8", t150=0)]),
    ("14b a required tag is missing", [logon(), order("o", drop=(60,)), reject(1, 60)]),
    ("14c a tag of other messages", [logon(), order("o", (41, "x")), reject(2, 41)]),
    ("14d a tag without a value", [logon(), order("o", (58, "")), reject(4, 58)]),
    ("14e a value that does not exist", [logon(), order("o", (54, "Z")), reject(5, 54)]),
    ("14f a quantity that is no number", [logon(), order("o", (38, "ten")), reject(6, 38)]),
    ("14f a price in another notation", [logon(), order("o", (44, "1e3")), reject(6, 44)]),
    ("14f a flag that is neither Y nor N", [logon(), send("0", t43="X"), reject(6, 43, "0")]),
    ("14g a field of the header in the body", [logon(), with_fields(HEAD + ORDER + "50=x|"), reject(14, 50)]),
    ("14h a tag twice", [logon(), order("o", (1, "a"), (1, "b")), reject(13, 1)]),
    ("14i a group with another count", [logon(), order("o", (453, 2), (448, "a"), (447, "D"), (452, 1)), reject(16, 453)]),
    ("14i a group with its count", [logon(), order("o", (453, 2), (448, "a"), (447, "D"), (452, 1), (448, "b"), (447, "D"), (452, 2)), expect("8", t150=0)]),
    ("15 header and body in another order", [logon(), with_fields("35=D|34={seq}|52={time}|56=SERL|49={login}|44=0.01|40=2|38=1|60={time}|54=1|55=MSFT|11=o|"), expect("8", t150=0)]),
    ("19a a possible resend of a known order is ignored", [logon(), order("o"), expect("8"), order("o", t97="Y"), alive]),
    ("19b a possible resend of a new order counts", [logon(), order("o", t97="Y"), expect("8", t150=0), alive]),
]  # fmt: skip
SCENARIOS = [*FIRST, *NUMBERS, *RESENDS, *FIELDS]
