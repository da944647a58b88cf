"""Signals as a terminal's programs have them, whatever started the tests."""

from __future__ import annotations

import signal

from coterie.processes.signals import SIGNAL_NAMES


def heed_signals() -> None:
    """Give signals that ask to stop their default handling back.

    Under `nohup make test &`, and in some CI systems, the tests inherit that some are ignored, and
    so would all processes that they start.
    """
    for number in SIGNAL_NAMES:
        if signal.getsignal(number) is signal.SIG_IGN:
            is_ctrl_c = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)
