"""`python -m saddlescope` is the command line."""

from saddlescope.cli import main

main()
