"""One small program for each peer. `run.py` starts each program as a separate process `python -m peers.NAME`."""
