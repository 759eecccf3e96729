"""Commands, events, reasons and the like as plain integers, which compiled code takes for constants."""

from serl.exchange.records import (
    COLLECTING,
    CommandFlag,
    CommandKind,
    EventFlag,
    EventKind,
    HaltReason,
    Peg,
    Phase,
    Queue,
    Reason,
    Rule,
    SelfTrade,
    Setting,
    Side,
    Term,
    TimeInForce,
)  # fmt: skip

POST_ONLY = int(CommandFlag.POST_ONLY)
MARKET = int(CommandFlag.MARKET)
TERMED = int(CommandFlag.TERMS)
REDUCE_ONLY = int(CommandFlag.REDUCE_ONLY)
HIDE = int(CommandFlag.HIDDEN)
ALL_OR_NONE = int(CommandFlag.ALL_OR_NONE)

NEW = int(CommandKind.NEW)
CANCEL = int(CommandKind.CANCEL)
REDUCE = int(CommandKind.REDUCE)
REPLACE = int(CommandKind.REPLACE)
MASS_CANCEL = int(CommandKind.MASS_CANCEL)
END_DAY = int(CommandKind.END_DAY)
HALT = int(CommandKind.HALT)
RESUME = int(CommandKind.RESUME)
PRINT = int(CommandKind.PRINT)
TERM = int(CommandKind.TERM)
RULE = int(CommandKind.RULE)
SET_PHASE = int(CommandKind.PHASE)
UNCROSS = int(CommandKind.UNCROSS)
TIME = int(CommandKind.TIME)
ACCOUNT = int(CommandKind.ACCOUNT)
PURGE = int(CommandKind.PURGE)

HALT_REASON_MAX = int(max(HaltReason))

RESTING = int(EventFlag.RESTING)
AUCTION = int(EventFlag.AUCTION)
HIDDEN = int(EventFlag.HIDDEN)
MAKER = int(EventFlag.MAKER)

ACCEPTED = int(EventKind.ACCEPTED)
REJECTED = int(EventKind.REJECTED)
CANCELLED = int(EventKind.CANCELLED)
REDUCED = int(EventKind.REDUCED)
REPLACED = int(EventKind.REPLACED)
PRINTED = int(EventKind.PRINT)
HALTED = int(EventKind.HALTED)
RESUMED = int(EventKind.RESUMED)
MASS_CANCELLED = int(EventKind.MASS_CANCELLED)
DAY_ENDED = int(EventKind.DAY_ENDED)
SET = int(EventKind.SET)
TRIGGERED = int(EventKind.TRIGGERED)
PHASED = int(EventKind.PHASED)
FILL = int(EventKind.FILL)
RESTED = int(EventKind.RESTED)

PRIMARY = int(Peg.PRIMARY)
MID = int(Peg.MID)

CONTINUOUS = int(Phase.CONTINUOUS)
CLOSING = int(Phase.CLOSING)
CLOSED = int(Phase.CLOSED)
VOLATILITY = int(Phase.VOLATILITY)
OPENING = int(Phase.OPENING)
PRE_OPEN = int(Phase.PRE_OPEN)
FIRST_COLLECTING, LAST_COLLECTING = COLLECTING[0], COLLECTING[-1]

HIDDEN_QUEUE = int(Queue.HIDDEN)
MIN_QTY_QUEUE = int(Queue.MIN_QTY)
STOP_QUEUE = int(Queue.STOP)
INACTIVE_QUEUE = int(Queue.INACTIVE)
DISPLAYED_QUEUE = int(Queue.DISPLAYED)

R_KIND = int(Reason.UNKNOWN_KIND)
R_SYMBOL = int(Reason.UNKNOWN_SYMBOL)
R_SIDE = int(Reason.BAD_SIDE)
R_QTY = int(Reason.BAD_QTY)
R_PRICE = int(Reason.BAD_PRICE)
R_FLAGS = int(Reason.BAD_FLAGS)
R_ORDER = int(Reason.UNKNOWN_ORDER)
R_CROSS = int(Reason.WOULD_CROSS)
R_HALTED = int(Reason.HALTED)
R_OPERATOR = int(Reason.NOT_PERMITTED)
R_FULL = int(Reason.BOOK_FULL)
R_STALE = int(Reason.STALE_COMMAND_ID)
R_REQUESTED = int(Reason.REQUESTED)
R_IOC = int(Reason.IOC_REMAINDER)
R_FOK = int(Reason.FOK_UNFILLABLE)
R_MARKET = int(Reason.MARKET_REMAINDER)
R_MASS = int(Reason.MASS_CANCEL)
R_DAY = int(Reason.DAY_END)
R_FILLED = int(Reason.REPLACED_BELOW_FILLED)
R_SETTING = int(Reason.BAD_SETTING)
R_PHASE = int(Reason.WRONG_PHASE)
R_EXPIRED = int(Reason.EXPIRED)
R_NO_ROOM = int(Reason.NO_ROOM)
R_KILL = int(Reason.KILL)
R_REMAINDER = int(Reason.AUCTION_REMAINDER)
R_SELF_TRADE = int(Reason.SELF_TRADE)
R_NOT_REDUCING = int(Reason.NOT_REDUCING)
R_BAND = int(Reason.OUTSIDE_BAND)
R_LINKED = int(Reason.LINKED)
R_TIF = int(Reason.BAD_TIME_IN_FORCE)
R_TERMS = int(Reason.BAD_TERMS)
R_LIMIT_QTY = int(Reason.LIMIT_QTY)
R_LIMIT_NOTIONAL = int(Reason.LIMIT_NOTIONAL)
R_LIMIT_PRICE = int(Reason.LIMIT_PRICE)
R_LIMIT_ORDERS = int(Reason.LIMIT_ORDERS)
R_LIMIT_POSITION = int(Reason.LIMIT_POSITION)
R_REDUCE = int(Reason.REDUCE_ONLY)
R_KILLED = int(Reason.KILLED)
R_PURGED = int(Reason.PURGED)
R_FIXED = int(Reason.NOT_REPLACEABLE)

RULE_LOT = int(Rule.LOT)
RULE_TICK = int(Rule.TICK)
RULE_MATCHING = int(Rule.MATCHING)
RULE_ACTION = int(Rule.BAND_ACTION)
RULE_FEES = int(Rule.MAKER_MICROTICKS)

NEWEST = int(SelfTrade.NEWEST)
OLDEST = int(SelfTrade.OLDEST)
BOTH = int(SelfTrade.BOTH)
DECREMENT = int(SelfTrade.DECREMENT)

OWN = int(Setting.SELF_TRADE)
S_LOTS = int(Setting.ORDER_LOTS_MAX)
S_NOTIONAL = int(Setting.ORDER_NOTIONAL_MAX)
S_COLLAR = int(Setting.COLLAR_TICKS)
S_ORDERS = int(Setting.ORDERS_OPEN_MAX)
S_POSITION = int(Setting.POSITION_LOTS_MAX)
S_KILLED = int(Setting.KILLED)
S_OWN_FEES = int(Setting.OWN_FEES)
S_FEES = int(Setting.MAKER_MICROTICKS)

BUY = int(Side.BUY)

T_DISPLAY = int(Term.DISPLAY_LOTS)
T_MIN = int(Term.MIN_LOTS)
T_STOP = int(Term.STOP_TICKS)
T_TRAIL = int(Term.TRAIL_TICKS)
T_PEG = int(Term.PEG)
T_OFFSET = int(Term.OFFSET_TICKS)
T_EXPIRE = int(Term.EXPIRE_NS)
T_LINK = int(Term.LINK)
T_SELF = int(Term.SELF_TRADE)

DAY = int(TimeInForce.DAY)
GTC = int(TimeInForce.GTC)
IOC = int(TimeInForce.IOC)
FOK = int(TimeInForce.FOK)
AT_OPEN = int(TimeInForce.AT_OPEN)
AT_CLOSE = int(TimeInForce.AT_CLOSE)
GTT = int(TimeInForce.GTT)

# State.counter[STAGE]
STAGE_EXPIRE, STAGE_EXPIRY_TRIGGERS, STAGE_TRIGGERS, STAGE_CANCEL, STAGE_UNCROSS, STAGE_AUCTION_CANCEL, STAGE_PHASE = (
    range(1, 8)
)

DONE, EVENTS_FULL, GROW, PROCEED = range(4)
"""How a command ended: done; call again with room for events; call again after growing. PROCEED, between the two rule books: go on with it."""
