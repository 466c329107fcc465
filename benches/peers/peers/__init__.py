"""One small program for each peer; `run.py` starts each in a process of its own, as `python -m peers.NAME`."""
