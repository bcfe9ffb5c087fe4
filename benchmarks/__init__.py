"""Speed: `make bench`, or `python -m benchmarks`.

Every number is measured beside a baseline in the same run; what matters is their ratio.
"""
