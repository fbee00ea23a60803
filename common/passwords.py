"""Addresses of databases without the passwords in them, for whatever is printed or written down."""

import re

_IN_ADDRESS = re.compile(r"(?<=://)([^:/@\s]*):[^@\s]*@")
_AS_OPTION = re.compile(r"(?<=[?&]password=)[^&\s]*")


def without_passwords(text: str) -> str:
    """The text with *** in place of the passwords in its URLs, where SQLAlchemy and drivers look for them.

    >>> without_passwords("--storage postgresql+psycopg://ann:s3:/cret@host/studies?password=s3cret&sslmode=require")
    '--storage postgresql+psycopg://ann:***@host/studies?password=***&sslmode=require'
    """
    return _AS_OPTION.sub("***", _IN_ADDRESS.sub(r"\1:***@", text))
