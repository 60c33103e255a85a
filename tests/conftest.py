"""What holds for every test: processes that are started here can be interrupted."""

import signal

# A shell starts what it puts into the background with SIGINT ignored, and children inherit that: Ctrl-C would be tested on
# programs that cannot hear it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
