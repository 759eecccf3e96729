"""What all tests share."""

import signal

# A shell ignores Ctrl-C in what it starts in the background, and so would every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
