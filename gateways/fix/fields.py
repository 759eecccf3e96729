"""Checks which fields a FIX 4.4 message may and must have, and their formats: the subject of a Reject (3).

The tables give the tag numbers of the specification (FIX 4.4 with errata 20030618, volumes 2 to 5), for the messages that the gateway reads.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from serl.gateways.fix.codec import Message, number, parse_timestamp


def _tags(ranges: str) -> frozenset[str]:
    """Parses a text like '1 11-13' as tags."""
    found: set[str] = set()
    for part in ranges.split():
        first, _, last = part.partition("-")
        found.update(map(str, range(int(first), int(last or first) + 1)))
    return frozenset(found)


HEADER = _tags("8-9 34-35 43 49-50 52 56-57 90-91 97 115-116 122 128-129 142-145 212-213 347 369 627-630")
_ENDS = HEADER | _tags("10 89 93")
_HEADER_REQUIRED = ("49", "56", "34", "52")
_DEFINED = _tags(
    "1-19 21-23 25-45 48-50 52-75 77-85 87-91 93-100 102-104 106-108 110-124 126-165 167-172 188-203 206-218 220-260 262-313 315-318 320-369 371-438 441-448 451-464 466-652 654-684 686-808 810-830 832-956"
)
_PERMITTED = {
    "0": _ENDS | _tags("112"),  # Heartbeat
    "1": _ENDS | _tags("112"),  # TestRequest
    "2": _ENDS | _tags("7 16"),  # ResendRequest
    "3": _ENDS | _tags("45 58 354-355 371-373"),  # Reject
    "4": _ENDS | _tags("36 123"),  # SequenceReset
    "5": _ENDS | _tags("58 354-355"),  # Logout
    "A": _ENDS | _tags("95-96 98 108 141 372 383-385 464 553-554 789"),  # Logon
    "D": _ENDS
    | _tags(  # NewOrderSingle
        "1 11-13 15 18 21-23 38 40 44 48 54-55 58-60 63-65 70 75 77-81 99-100 106-107 110-111 114 117 120-121 "
        "126 140 152 167-168 192-193 200-203 206-207 210-211 218 220-229 231-236 239-247 255-256 305-313 "
        "315-318 336 348-351 354-355 362-365 376-377 386 388-389 423 427 432 435-436 447-448 452-463 467-472 "
        "479-481 494 497 513 516 523-526 528-529 538-539 541-545 581-583 589-595 625 635 640 660-663 667 691 "
        "696-699 701 711 736 761-763 775 788 802-805 810 835-838 840-844 846-849 854 864-868 873-879 882-889 "
        "898 913-919 941 947"
    ),
    "F": _ENDS
    | _tags(  # OrderCancelRequest
        "1 11 22 37-38 41 48 54-55 58 60 65-66 106-107 152 167 200-202 206-207 223-228 231 239-247 255-256 "
        "305-313 315-318 348-351 354-355 362-365 376 435-436 447-448 452-463 468-472 516 523 526 541-543 581 "
        "583 586 592-595 660 667 691 711 762-763 788 802-803 810 864-868 873-879 882-889 898 913-919 941 947"
    ),
    "G": _ENDS
    | _tags(  # OrderCancelReplaceRequest
        "1 11-13 15 18 21-22 37-38 40-41 44 48 54-55 58-60 63-66 70 75 77-80 99-100 106-107 110-111 114 "
        "120-121 126 152 167-168 192-193 200-203 206-207 210-211 218 220-229 231 235-236 239-247 255-256 "
        "305-313 315-318 336 348-351 354-355 362-365 376-377 386 388-389 423 427 432 435-436 447-448 452-463 "
        "467-472 479-481 494 497 513 516 523-526 528-529 538-539 541-545 581-583 586 589-595 625 635 640 "
        "660-663 667 691 696-699 701 711 736 761-763 775 788 802-805 810 835-838 840-844 846-849 854 864-868 "
        "873-879 882-889 898 913-919 941 947"
    ),
    "H": _ENDS
    | _tags(  # OrderStatusRequest
        "1 11 22 37 48 54-55 65 106-107 167 200-202 206-207 223-228 231 239-247 255-256 305-313 315-318 "
        "348-351 362-365 435-436 447-448 452-463 470-472 523 526 541-543 583 592-595 660 667 691 711 762-763 "
        "788 790 802-803 810 864-868 873-879 882-889 898 913-919 941 947"
    ),
    "V": _ENDS
    | _tags(  # MarketDataRequest
        "22 48 55 65 106-107 146 167 200-202 206-207 223-228 231 239-257 262-267 269 286 305-313 315-318 336 "
        "348-351 362-365 386 435-436 454-463 470-472 541-543 546-547 555-556 592-625 667 691 711 739-740 "
        "762-764 810 812 815 864-868 873-879 882-889 941-942 947 955-956"
    ),
    "c": _ENDS
    | _tags(  # SecurityDefinitionRequest
        "15 22 48 55 58 65 106-107 167 200-202 206-207 223-228 231 239-257 263 305-313 315-318 320-321 336 "
        "348-351 354-355 362-365 435-436 454-463 470-472 541-543 555-556 592-625 667-668 691 711 739-740 "
        "762-764 810 827 864-879 882-889 941-942 947 955-956"
    ),
    "e": _ENDS
    | _tags(  # SecurityStatusRequest
        "15 22 48 55 65 106-107 167 200-202 206-207 223-228 231 239-257 263 305-313 315-318 324 336 348-351 "
        "362-365 435-436 454-463 470-472 541-543 555-556 592-625 667-668 691 711 739-740 762-764 810 864-879 "
        "882-889 941-942 947 955-956"
    ),
    "g": _ENDS | _tags("263 335-336 338-339 625"),  # TradingSessionStatusRequest
    "j": _ENDS | _tags("45 58 354-355 372 379-380"),  # BusinessMessageReject
    "q": _ENDS
    | _tags(  # OrderMassCancelRequest
        "11 22 48 54-55 58 60 65 106-107 167 200-202 206-207 223-228 231 239-247 255-256 305-313 315-318 336 "
        "348-351 354-355 362-365 435-436 454-463 470-472 526 530 541-543 592-595 625 667 691 762-763 810 "
        "864-868 873-879 882-889 941 947"
    ),
    "x": _ENDS
    | _tags(  # SecurityListRequest
        "15 22 48 55 58 65 106-107 167 200-202 206-207 223-228 231 239-257 263 305-313 315-318 320 336 "
        "348-351 354-355 362-365 435-436 454-463 470-472 541-543 555-556 559 592-625 667-668 691 711 739-740 "
        "762-764 788 810 864-879 882-889 898 913-919 941-942 947 955-956"
    ),
}
_REQUIRED: dict[str, tuple[str, ...]] = {
    "1": ("112",),
    "2": (
        "7",
        "16",
    ),
    "3": ("45",),
    "4": ("36",),
    "A": (
        "98",
        "108",
    ),
    "D": (
        "11",
        "55",
        "54",
        "60",
        "40",
    ),
    "F": (
        "11",
        "41",
        "55",
        "54",
        "60",
    ),
    "G": (
        "11",
        "41",
        "55",
        "54",
        "60",
        "40",
    ),
    "H": (
        "11",
        "54",
    ),
    "V": (
        "262",
        "263",
        "264",
        "267",
        "146",
    ),
    "c": (
        "320",
        "321",
    ),
    "e": (
        "324",
        "263",
    ),
    "g": (
        "335",
        "263",
    ),
    "j": (
        "372",
        "380",
    ),
    "q": (
        "11",
        "530",
        "60",
    ),
    "x": (
        "320",
        "559",
    ),
}
_REPEATED = _tags(
    "22 48 55 65 79-80 106-107 167 200-202 206-207 223-228 231 233-234 239-257 269 305-313 315-318 336 348-351 362-365 372 385 435-436 447-448 452 454-463 467 470-472 523-525 538-539 541-543 545 555-556 592-625 661 667 691 711 736 739-740 762-764 802-805 810 864-868 871-879 882-889 941-942 947 955-956"
)
"""Tags that are members of repeating groups."""
TYPES = frozenset("0123456789ABCDEFGHJKLMNPQRSTVWXYZabcdefghijklmnopqrstuvwxyz") | {
    *(f"A{letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    *(f"B{letter}" for letter in "ABCDEFGH"),
}
"""The message types of FIX 4.4."""
_FORMATS: dict[str, tuple[Callable[[str], object], str]] = {}
for _ranges, _matches, _name in (
    (
        "98 108 201 203 226 244 251 264-265 315 321 338-339 371 373 380 423 427 452 460 462 538 559 581-582 607 660-661 663 668 698 775 788 803 805 812 815 827 835-838 840-844 846-847 854 865 871 875 919",
        re.compile(r"-?\d{1,18}\Z").match,
        "an integer",
    ),
    (
        "7 9 16 34 36 45 78 90 95 146 212 232 267 348 350 354 362 364 369 383-384 386 453-454 457 539 555 604 618 621 627 630 711 789 802 804 864 870 887",
        re.compile(r"\d{1,18}\Z").match,
        "a number",
    ),
    (
        "12 38 44 80 99 110-111 140 152 192 202 210-211 218 223 227-228 231 236 245-246 252-253 316 389 435-436 469 516 612 614-615 623 640 662 697 810 849 867 869 879 882-886 898 1138",
        re.compile(r"-?(?:\d{1,18}\.?\d{0,18}|\.\d{1,18})\Z", re.ASCII).match,
        "a decimal number",
    ),
    (
        "13 21 40 54 59 63 77 81 206 263 269 317 385 388 447 468 480-481 497 525 528 530 544 589-591 613 624",
        re.compile(r".\Z").match,
        "one character",
    ),
    ("43 97 114 121 123 141 266 377 464 547", re.compile(r"[YN]\Z").match, "Y or N"),
    ("52 60 122 126 168 586 629", lambda text: parse_timestamp(text) >= 0, "a UTC timestamp"),
    (
        "64 75 193 224-225 229 240-242 247-249 254 432 541-542 611 696 701 739 866 873-874 915-917 956",
        re.compile(r"\d{8}\Z").match,
        "a date",
    ),
):
    _FORMATS |= dict.fromkeys(_tags(_ranges), (_matches, _name))
_VALUES = {
    "40": "1 2 3 4 6 7 8 9 D E G I J K L M P",
    "54": "1 2 3 4 5 6 7 8 9 A B C D E F G",
    "59": "0 1 2 3 4 5 6 7",
    "21": "1 2 3",
    "98": "0 1 2 3 4 5 6",
    "263": "0 1 2",
    "265": "0 1",
    "269": "0 1 2 3 4 5 6 7 8 9 A B C",
    "321": "0 1 2 3",
    "530": "1 2 3 4 5 6 7",
    "559": "0 1 2 3 4",
}
_PERMITTED_VALUES = {tag: frozenset(values.split()) for tag, values in _VALUES.items()}
_CHECKED = (_FORMATS.keys() | _PERMITTED_VALUES.keys()) - {"34"}
"""Tags whose values are checked here; MsgSeqNum has been read before."""
_GROUPS = {"V": (("146", "55"), ("267", "269")), "D": (("453", "448"),), "G": (("453", "448"),)}
"""By message type: tag of a group's count, and of the first field of each member."""
DISPLAY_QTY = "1138"
"""DisplayQty of later FIX versions; clients send it in place of MaxFloor."""
_USER_DEFINED = 5000
INVALID_TAG, REQUIRED_MISSING, NOT_FOR_TYPE, NO_VALUE, BAD_VALUE, BAD_FORMAT = 0, 1, 2, 4, 5, 6
COMP_ID, SENDING_TIME, INVALID_TYPE, REPEATED, WRONG_ORDER, GROUP_COUNT, OTHER = 9, 10, 11, 13, 14, 16, 99
"""SessionRejectReason (373)."""
_SHAPES_MAX, _SHAPE_TAGS_MAX = 4096, 128
#: cache, because clients send messages of only a few shapes: the tags of valid messages, and the positions of those whose values are checked
_shapes: dict[tuple[str, ...], list[tuple[int, str]]] = {}


class Problem(NamedTuple):
    """Why a message is rejected: SessionRejectReason, the tag ("" for none) and a text."""

    reason: int
    tag: str
    text: str


def problem_of(message: Message) -> Problem | None:
    """The first problem with the fields of a message; None if there is none."""
    fields = message.fields
    shape = (message.type, *fields)
    checks = _shapes.get(shape)
    if checks is None or len(message.pairs) != len(fields):
        if found := _tags_problem(message):
            return found
        checks = [(place, tag) for place, (tag, _) in enumerate(message.pairs) if tag in _CHECKED]
        is_flat = len(message.pairs) == len(fields) and not any(
            tag in fields for tag, _ in _GROUPS.get(message.type, ())
        )
        if is_flat and len(shape) <= _SHAPE_TAGS_MAX and len(_shapes) < _SHAPES_MAX:
            _shapes[shape] = checks
    if "" in fields.values():
        tag = next(tag for tag, value in fields.items() if not value)
        return Problem(NO_VALUE, tag, f"tag {tag}: expected a value, got none")
    pairs = message.pairs
    for place, tag in checks:
        value = pairs[place][1]
        permitted = _PERMITTED_VALUES.get(tag)
        if permitted is not None:
            if value not in permitted:
                return Problem(
                    BAD_VALUE, tag, f"tag {tag}: expected one of {', '.join(sorted(permitted))}, got {value[:40]!r}"
                )
        elif not _FORMATS[tag][0](value):
            return Problem(BAD_FORMAT, tag, f"tag {tag}: expected {_FORMATS[tag][1]}, got {value[:40]!r}")
    return None


def _tags_problem(message: Message) -> Problem | None:
    """The first problem with a message apart from its values."""
    return (
        _order_problem([tag for tag, _ in message.pairs])
        or _unknown_tag(message)
        or _missing_tag(message)
        or _repeated_tag(message)
        or _wrong_count(message)
    )


def _unknown_tag(message: Message) -> Problem | None:
    permitted = _PERMITTED[message.type]
    for tag in message.fields:
        if tag in permitted or tag == DISPLAY_QTY:
            continue
        if tag in _DEFINED:
            return Problem(NOT_FOR_TYPE, tag, f"tag {tag} is not defined for message type {message.type}")
        if number(tag) < _USER_DEFINED or tag.startswith("0"):
            return Problem(INVALID_TAG, tag, f"expected a tag of FIX 4.4, got {tag[:20]!r}")
    return None


def _missing_tag(message: Message) -> Problem | None:
    for tag in (*_HEADER_REQUIRED, *_REQUIRED.get(message.type, ())):
        if tag not in message.fields:
            return Problem(REQUIRED_MISSING, tag, f"required tag {tag} is missing")
    return None


def _order_problem(tags: Iterable[str]) -> Problem | None:
    """Checks that header fields come before all others."""
    in_header = True
    for tag in tags:
        is_header = tag in HEADER
        if is_header and not in_header:
            return Problem(WRONG_ORDER, tag, f"tag {tag} belongs in the header")
        in_header = is_header
    return None


def _repeated_tag(message: Message) -> Problem | None:
    if len(message.pairs) == len(message.fields):
        return None
    seen: set[str] = set()
    for tag, _ in message.pairs:
        if tag in seen and tag not in _REPEATED:
            return Problem(REPEATED, tag, f"tag {tag} appears more than once")
        seen.add(tag)
    return None


def _wrong_count(message: Message) -> Problem | None:
    for count_tag, first_tag in _GROUPS.get(message.type, ()):
        if count_tag in message.fields:
            found = sum(tag == first_tag for tag, _ in message.pairs)
            if number(message.fields[count_tag]) != found:
                text = f"tag {count_tag}: expected the number of its members, {found}, got {message.fields[count_tag]}"
                return Problem(GROUP_COUNT, count_tag, text)
    return None


def duplicate_problem(message: Message) -> Problem | None:
    """Checks that a possible duplicate has OrigSendingTime, not later than the new SendingTime; a SequenceReset need not have it."""
    if not message.poss_dup or message.type == "4":
        return None
    original = message.fields.get("122")
    if original is None:
        return Problem(REQUIRED_MISSING, "122", "required tag 122 is missing")
    if parse_timestamp(original) > parse_timestamp(message.fields["52"]):
        return Problem(SENDING_TIME, "122", "SendingTime accuracy problem")
    return None
