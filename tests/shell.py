"""Processes that take Ctrl-C, even where the tests were started with it ignored."""

import sys

# Before the words that Python is to be started with.
AS_A_SHELL = [
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])",
]
