"""Errors a user can act on."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user gave: commands print it as one line and exit with code 2, without a traceback.

    The message names the file, line or option, says what was expected and what to do.
    """


def unknown_name(what: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest ones that do.

    >>> str(unknown_name("student", "tiney", ["tiny", "distil"]))
    "unknown student 'tiney': did you mean 'tiny'? Known: distil, tiny"
    >>> str(unknown_name("column", "body", ["text", "label"]))
    "unknown column 'body'. Known: label, text"
    """
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    hint = f": did you mean {' or '.join(repr(match) for match in near)}?" if near else "."
    return UserError(f"unknown {what} {name!r}{hint} Known: {', '.join(known)}")
