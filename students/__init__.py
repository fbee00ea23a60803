"""Every small architecture, and its making."""

import common as common  # first of all: it sets what torch and transformers read once, when they are imported
