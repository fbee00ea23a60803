"""What turns the one into the other, and the commands."""

import common as common  # first of all: it sets what torch and transformers read once, when they are imported
