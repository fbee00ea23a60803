"""Short names that follow from what they stand for."""

import hashlib
import json
from typing import Any


def short_key(value: Any, digits: int = 8) -> str:
    """So many hex digits over a JSON value: equal values have equal ones, in whatever order their names stand.

    >>> short_key({"a": 1, "b": [2]}) == short_key({"b": [2], "a": 1}) != short_key({"a": 1}), len(short_key(None, 12))
    (True, 12)
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:digits]
