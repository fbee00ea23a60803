"""Everything that makes a teacher."""

import common as common  # first of all: it sets what torch and transformers read once, when they are imported
