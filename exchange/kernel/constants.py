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
)

POST_ONLY = int(CommandFlag.POST_ONLY)
MARKET = int(CommandFlag.MARKET)
HAS_TERMS = int(CommandFlag.TERMS)
REDUCE_ONLY = int(CommandFlag.REDUCE_ONLY)
HIDE = int(CommandFlag.HIDDEN)
ALL_OR_NONE = int(CommandFlag.ALL_OR_NONE)
TO_LIMIT = int(CommandFlag.TO_LIMIT)

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

REASON_UNKNOWN_KIND = int(Reason.UNKNOWN_KIND)
REASON_UNKNOWN_SYMBOL = int(Reason.UNKNOWN_SYMBOL)
REASON_BAD_SIDE = int(Reason.BAD_SIDE)
REASON_BAD_QTY = int(Reason.BAD_QTY)
REASON_BAD_PRICE = int(Reason.BAD_PRICE)
REASON_BAD_FLAGS = int(Reason.BAD_FLAGS)
REASON_UNKNOWN_ORDER = int(Reason.UNKNOWN_ORDER)
REASON_WOULD_CROSS = int(Reason.WOULD_CROSS)
REASON_HALTED = int(Reason.HALTED)
REASON_NOT_PERMITTED = int(Reason.NOT_PERMITTED)
REASON_BOOK_FULL = int(Reason.BOOK_FULL)
REASON_STALE_COMMAND_ID = int(Reason.STALE_COMMAND_ID)
REASON_REQUESTED = int(Reason.REQUESTED)
REASON_IOC_REMAINDER = int(Reason.IOC_REMAINDER)
REASON_FOK_UNFILLABLE = int(Reason.FOK_UNFILLABLE)
REASON_MARKET_REMAINDER = int(Reason.MARKET_REMAINDER)
REASON_MASS_CANCEL = int(Reason.MASS_CANCEL)
REASON_DAY_END = int(Reason.DAY_END)
REASON_REPLACED_BELOW_FILLED = int(Reason.REPLACED_BELOW_FILLED)
REASON_BAD_SETTING = int(Reason.BAD_SETTING)
REASON_WRONG_PHASE = int(Reason.WRONG_PHASE)
REASON_EXPIRED = int(Reason.EXPIRED)
REASON_NO_ROOM = int(Reason.NO_ROOM)
REASON_KILL = int(Reason.KILL)
REASON_AUCTION_REMAINDER = int(Reason.AUCTION_REMAINDER)
REASON_SELF_TRADE = int(Reason.SELF_TRADE)
REASON_NOT_REDUCING = int(Reason.NOT_REDUCING)
REASON_OUTSIDE_BAND = int(Reason.OUTSIDE_BAND)
REASON_LINKED = int(Reason.LINKED)
REASON_BAD_TIME_IN_FORCE = int(Reason.BAD_TIME_IN_FORCE)
REASON_BAD_TERMS = int(Reason.BAD_TERMS)
REASON_LIMIT_DISPLAY = int(Reason.LIMIT_DISPLAY)
REASON_LIMIT_QTY = int(Reason.LIMIT_QTY)
REASON_LIMIT_NOTIONAL = int(Reason.LIMIT_NOTIONAL)
REASON_LIMIT_PRICE = int(Reason.LIMIT_PRICE)
REASON_LIMIT_ORDERS = int(Reason.LIMIT_ORDERS)
REASON_LIMIT_POSITION = int(Reason.LIMIT_POSITION)
REASON_REDUCE_ONLY = int(Reason.REDUCE_ONLY)
REASON_KILLED = int(Reason.KILLED)
REASON_PURGED = int(Reason.PURGED)
REASON_NOT_REPLACEABLE = int(Reason.NOT_REPLACEABLE)

RULE_LOT = int(Rule.LOT)
RULE_TICK = int(Rule.TICK)
RULE_MATCHING = int(Rule.MATCHING)
RULE_BAND_ACTION = int(Rule.BAND_ACTION)
RULE_BAND_LOW = int(Rule.BAND_LOW)
RULE_BAND_HIGH = int(Rule.BAND_HIGH)
RULE_FEES = int(Rule.MAKER_MICROTICKS)

NEWEST = int(SelfTrade.NEWEST)
OLDEST = int(SelfTrade.OLDEST)
BOTH = int(SelfTrade.BOTH)
DECREMENT = int(SelfTrade.DECREMENT)

SETTING_SELF_TRADE = int(Setting.SELF_TRADE)
SETTING_ORDER_LOTS_MAX = int(Setting.ORDER_LOTS_MAX)
SETTING_ORDER_NOTIONAL_MAX = int(Setting.ORDER_NOTIONAL_MAX)
SETTING_COLLAR_TICKS = int(Setting.COLLAR_TICKS)
SETTING_ORDERS_OPEN_MAX = int(Setting.ORDERS_OPEN_MAX)
SETTING_POSITION_LOTS_MAX = int(Setting.POSITION_LOTS_MAX)
SETTING_KILLED = int(Setting.KILLED)
SETTING_OWN_FEES = int(Setting.OWN_FEES)
SETTING_FEES = int(Setting.MAKER_MICROTICKS)

BUY = int(Side.BUY)

TERM_DISPLAY_LOTS = int(Term.DISPLAY_LOTS)
TERM_MIN_LOTS = int(Term.MIN_LOTS)
TERM_STOP_TICKS = int(Term.STOP_TICKS)
TERM_TRAIL_TICKS = int(Term.TRAIL_TICKS)
TERM_PEG = int(Term.PEG)
TERM_OFFSET_TICKS = int(Term.OFFSET_TICKS)
TERM_EXPIRE_NS = int(Term.EXPIRE_NS)
TERM_LINK = int(Term.LINK)
TERM_SELF_TRADE = int(Term.SELF_TRADE)
TERM_TOUCH_TICKS = int(Term.TOUCH_TICKS)
TERM_UPDATE_LINK = int(Term.UPDATE_LINK)
TERM_MAX = int(max(Term))

DAY = int(TimeInForce.DAY)
GTC = int(TimeInForce.GTC)
IOC = int(TimeInForce.IOC)
FOK = int(TimeInForce.FOK)
AT_OPEN = int(TimeInForce.AT_OPEN)
AT_CLOSE = int(TimeInForce.AT_CLOSE)
GTT = int(TimeInForce.GTT)

MAKER_FEES, TAKER_FEES, AUCTION_FEES = 0, 2, 4
"""Places in the fees of a symbol or account."""

# counters.stage
STAGE_EXPIRE, STAGE_EXPIRY_TRIGGERS, STAGE_TRIGGERS, STAGE_CANCEL, STAGE_UNCROSS, STAGE_AUCTION_CANCEL, STAGE_PHASE = (
    range(1, 8)
)

DONE, EVENTS_FULL, GROW, PROCEED = range(4)
"""How a command ended: done; call again with room for events; call again after growing. PROCEED, between the two rule books: go on with it."""
