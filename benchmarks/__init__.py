"""How fast it is: `make bench`, or `python -m benchmarks`.

Every number is measured beside a baseline in the same run, and what matters is their ratio.
"""
