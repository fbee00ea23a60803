"""Answers of models of multiple choice, and the records that their choices are read from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from tokenizers import Encoding

from common.errors import UserError
from distill.predict_answers import DIGITS, Head, Outputs
from distill.predict_fields import ID_NAMES, Rows
from distill.predict_lines import BadLineError, checked
from distill.predict_sequence import stacked
from distill.predict_texts import Text
from teacher.choice_columns import find_roles
from teacher.choice_rows import given_in
from teacher.columns import Columns, column_names
from teacher.readers import Table, json_field


class Choice(Head):
    """One of several choices, by softmax of a score each."""

    rows: ClassVar[Literal["texts", "windows", "choices"]] = "choices"

    def answers(
        self, texts: Sequence[Text], encodings: Sequence[Encoding], outputs: Sequence[Outputs]
    ) -> list[dict[str, Any]]:
        """choice, its place from 0; answer, the choice itself; and the probability of each."""
        return [self._answer(text, stacked([output])[0, :, 0]) for text, output in zip(texts, outputs, strict=True)]

    def _answer(self, text: Text, scores: np.ndarray) -> dict[str, Any]:
        powers = np.exp(scores - scores.max())
        probabilities = [round(value, DIGITS) for value in (powers / powers.sum()).tolist()]
        best = int(scores.argmax())
        return {"choice": best, "answer": (text.own or text.choices)[best], "probabilities": probabilities}

    def columns(self) -> list[str]:
        return ["choice", "answer", "probability"]

    def cells(self, answer: Mapping[str, Any]) -> list[Any]:
        return [answer["choice"], answer["answer"], answer["probabilities"][answer["choice"]]]


class ChoiceRows(Rows):
    """Records with a context or question and its choices."""

    nested: ClassVar[bool] = True

    def settle(self, table: Table) -> Columns:
        """Raises UserError where columns of choices, or of what they go with, are not there."""
        names = column_names(table, header=True)
        lists = [name for place, name in enumerate(names) if any(row[place][:1] in ("[", "{") for row in table.records)]
        table.nested.update(dict.fromkeys(lists, 0))
        self._roles = find_roles(table, self._reading.asked(), answers=False)
        self._id = self._reading.id_column or next((name for name in names if name.lower() in ID_NAMES), None)
        if self._id is not None and self._id not in names:
            raise UserError(f"{self.path} has no column {self._id!r} (--id-column): found {', '.join(names)}")
        self.names = names
        return Columns(text=str(self._roles.context or self._roles.question), pair=None, label=None, header=True)

    def texts(self, line: int, load: Callable[[], Mapping[str, Any]]) -> Iterator[Text]:
        try:
            values = load()

            def cell(name: str) -> str:
                return checked(json_field(values.get(name)), f"column {name!r}").strip()

            given = given_in(cell, self._roles, self.faults.source, self._oddities)
            name = "" if self._id is None else cell(self._id)
            yield Text(line, given.context, None, name or None, given.texts, given.own)
        except BadLineError as error:
            self.faults.add(line, str(error))
        except UserError as error:
            self.faults.add(line, f"has a fault: {str(error).removeprefix(f'{self.faults.source}: ')}")
