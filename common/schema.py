"""Records as JSON: read back as the dataclasses they were written from, and refused by name where they are not."""

import dataclasses
import json
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from common.errors import UserError, unknown_name

Kind = TypeVar("Kind")


def read_record(kind: type[Kind], path: Path, *, version: int) -> Kind:
    """The record in the file `path` as the dataclass `kind`, whose schema has that version.

    Raises:
        UserError: not JSON, another schema version, an unknown or a missing field; the message names file and field.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a readable record: {error}") from error
    if not isinstance(value, dict) or "schema_version" not in value:
        raise UserError(f"{path} is not a record: a JSON object with schema_version was expected")
    if value["schema_version"] != version:
        raise UserError(
            f"{path} has record schema {value['schema_version']}, this version reads {version}: run the command again"
        )
    record = _decode(kind, value, str(path))
    assert isinstance(record, kind)
    return record


def _decode(kind: Any, value: Any, where: str) -> Any:
    """`value` from JSON as `kind`: dataclasses, tuples, dicts and unions with None, recursively."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, value, where)
    if origin is tuple:
        _expect(isinstance(value, list), "a list", value, where)
        return tuple(_decode(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if origin is dict:
        _expect(isinstance(value, dict), "an object", value, where)
        return {key: _decode(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin in (types.UnionType, typing.Union):
        inner = next(argument for argument in arguments if argument is not type(None))
        return None if value is None else _decode(inner, value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is not Any:
        _expect(isinstance(value, kind), kind.__name__, value, where)
    return value


def _decode_dataclass(kind: type, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), "an object", value, where)
    fields = {entry.name: entry for entry in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    for name in value:
        if name not in fields:
            raise UserError(f"{where}: {unknown_name('field', name, fields)}")
    for name, entry in fields.items():
        required = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        if required and name not in value:
            raise UserError(f"{where}: field {name!r} is missing")
    return kind(**{name: _decode(hints[name], item, f"{where}.{name}") for name, item in value.items()})


def _expect(condition: bool, expected: str, value: Any, where: str) -> None:
    if not condition:
        raise UserError(f"{where}: expected {expected}, found {type(value).__name__} {str(value)[:60]!r}")
