"""What all others stand on: errors, commands, files, progress, hardware, and the folder a model lives in."""

import os

# libgomp reads this once, when torch first loads. With active waiting, two threads on a busy machine spin against
# each other: one training step was seen to go from 0.02 s to 2 s.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# What transformers says while it loads ("weights newly initialised") is checked by us and said in the user's terms, and
# its bars for files of a second would tear ours apart. Whoever wants them sets these before.
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
