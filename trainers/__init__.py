"""The algorithm side: engine, losses, recipes, data, rewards, and the runtime that runs them on Ray; no Django here."""

import os

# Threads that wait for each other must sleep, not spin: where another process needs the CPU, a spinning thread keeps it
# from the very thread it waits for (measured: 161 s instead of 11 s for one sampling call on a busy machine). OpenMP
# reads this when torch is loaded, so it is set before anything here can load it.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
