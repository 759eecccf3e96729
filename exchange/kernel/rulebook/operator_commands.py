"""What operators and the exchange itself command; a phase begins."""

from serl.exchange.compiling import inner, int64
from serl.exchange.kernel import constants as k
from serl.exchange.kernel.events import begin_answer, reject_command
from serl.exchange.kernel.rows import CommandRow
from serl.exchange.kernel.rulebook.active_order import ROOM, leave_continuous, phase_of
from serl.exchange.kernel.rulebook.auction import activate_closing_orders, is_collecting
from serl.exchange.kernel.rulebook.balance_checks import deposit
from serl.exchange.kernel.rulebook.capacity import has_room_for_pegs
from serl.exchange.kernel.rulebook.orders import schedule_triggers
from serl.exchange.kernel.rulebook.settings import set_account, set_rule, update_special_rules
from serl.exchange.kernel.state import State
from serl.exchange.records import ALL_SYMBOLS, Rows


@inner
def begin_operator_command(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """HALT, RESUME, PHASE, UNCROSS, TIME, RULE, ACCOUNT, PURGE, DEPOSIT, END_DAY."""
    kind, symbol, flags = int64(command.kind), int64(command.symbol), int64(command.flags)
    own = kind == k.ACCOUNT and flags == k.SETTING_SELF_TRADE and command.order_id == command.participant
    if not state.operator[command.participant] and not own:
        return reject_command(state, command, events, count, k.REASON_NOT_PERMITTED), k.DONE
    everywhere = kind == k.END_DAY or kind == k.TIME or kind == k.ACCOUNT or kind == k.DEPOSIT
    everywhere = everywhere or (kind == k.PURGE and symbol == ALL_SYMBOLS)
    if symbol >= state.halted.size and not everywhere:
        return reject_command(state, command, events, count, k.REASON_UNKNOWN_SYMBOL), k.DONE
    if kind == k.TIME:
        return count, k.DONE
    if kind == k.END_DAY:
        state.counters.stage = k.STAGE_CANCEL
        return count, k.DONE
    if (kind == k.SET_PHASE and flags > k.CLOSED) or (kind == k.HALT and flags > k.HALT_REASON_MAX):
        return reject_command(state, command, events, count, k.REASON_BAD_FLAGS), k.DONE
    if kind == k.PURGE:
        return _purge(state, command, events, count)
    if kind == k.DEPOSIT:
        return _deposit(state, command, events, count), k.DONE
    if _holds_auction(state, command) and state.halted[symbol]:
        return reject_command(state, command, events, count, k.REASON_HALTED), k.DONE
    if kind == k.UNCROSS and not is_collecting(phase_of(state, symbol)):
        return reject_command(state, command, events, count, k.REASON_WRONG_PHASE), k.DONE
    if (kind == k.RULE and not set_rule(state, command)) or (kind == k.ACCOUNT and not set_account(state, command)):
        return reject_command(state, command, events, count, k.REASON_BAD_SETTING), k.DONE
    state.counters.stage = k.STAGE_TRIGGERS
    if kind == k.ACCOUNT:
        if flags == k.SETTING_KILLED and command.price_ticks != 0:
            state.counters.stage = k.STAGE_CANCEL
            return count, k.DONE
        event = begin_answer(state, command, events, count, k.SET)
        event.price_ticks = command.price_ticks
        event.flags = flags
        return count + 1, k.DONE
    schedule_triggers(state, symbol)
    if kind == k.RULE:
        update_special_rules(state, symbol)
        event = begin_answer(state, command, events, count, k.SET)
        event.price_ticks = command.price_ticks
        event.flags = flags
        return count + 1, k.DONE
    if kind == k.HALT or kind == k.RESUME:
        return _set_halt(state, command, events, count), k.DONE
    state.counters.auction_ticks = state.counters.auction_first_ticks = state.counters.auction_lots = 0
    state.counters.stage = k.STAGE_UNCROSS if _holds_auction(state, command) else k.STAGE_PHASE
    return count, k.DONE


@inner
def _holds_auction(state: State, command: CommandRow) -> bool:
    """Whether a command is an auction, or ends a phase with one."""
    if command.kind != k.SET_PHASE:
        return command.kind == k.UNCROSS
    return is_collecting(phase_of(state, int64(command.symbol))) and (
        command.flags == k.CONTINUOUS or command.flags == k.CLOSED
    )


@inner
def _purge(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """Checks a PURGE; the stage that follows cancels."""
    if command.flags > 2:
        return reject_command(state, command, events, count, k.REASON_BAD_FLAGS), k.DONE
    if not 0 <= command.order_id < state.accounts.shape[0]:
        return reject_command(state, command, events, count, k.REASON_BAD_SETTING), k.DONE
    state.counters.stage = k.STAGE_CANCEL
    return count, k.DONE


@inner
def _deposit(state: State, command: CommandRow, events: Rows, count: int) -> int:
    """Checks a DEPOSIT and carries it out."""
    reason = deposit(state, command)
    if reason != 0:
        return reject_command(state, command, events, count, reason)
    event = begin_answer(state, command, events, count, k.SET)
    event.price_ticks = command.price_ticks
    event.qty_lots = command.qty_lots
    return count + 1


@inner
def _set_halt(state: State, command: CommandRow, events: Rows, count: int) -> int:
    """HALT and RESUME."""
    symbol, halts = int64(command.symbol), command.kind == k.HALT
    why = int64(command.flags) if halts else 0
    state.halted[symbol], state.symbols[symbol].halt_reason = halts, why
    event = begin_answer(state, command, events, count, k.HALTED if halts else k.RESUMED)
    event.flags = why
    return count + 1


@inner
def enter_phase(state: State, command: CommandRow, events: Rows, count: int) -> tuple[int, int]:
    """The new phase begins: (new count, DONE, EVENTS_FULL or GROW)."""
    symbol = int64(command.symbol)
    if command.kind == k.SET_PHASE:
        if phase_of(state, symbol) == k.CONTINUOUS and command.flags != k.CONTINUOUS:
            if not has_room_for_pegs(state, symbol):
                return count, k.GROW
            leave_continuous(state, symbol)
        state.symbols[symbol].phase = command.flags
        update_special_rules(state, symbol)
        if command.flags == k.CLOSING:
            count, status = activate_closing_orders(state, command, events, count, symbol)
            if status != k.DONE:
                return count, status
    if count + ROOM > events.size:
        return count, k.EVENTS_FULL
    price, lots = state.counters.auction_first_ticks, state.counters.auction_lots
    phase = phase_of(state, symbol)
    event = begin_answer(state, command, events, count, k.PHASED)
    event.price_ticks = price
    event.qty_lots = lots
    event.flags = phase
    return count + 1, k.DONE
