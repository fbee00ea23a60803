"""Tasks of one answer a text or pair of texts, of which single texts may be longer than a model reads."""

from collections.abc import Sequence

from transformers import PreTrainedTokenizerBase

from teacher.data import Example
from teacher.tasks.base import Encoded, Task
from teacher.tasks.long_texts import encode_long


class TextTask(Task):
    """What classes, numbers and sets of labels have in common; `decode` pools the rows of a text first."""

    def encode(self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int) -> Encoded:
        """Tokenise; longer single texts as --long says."""
        if self.data.long == "truncate":
            return super().encode(examples, tokenizer, max_length)
        texts = [example.text for example in examples]
        return encode_long(
            texts, self.label_array(examples), tokenizer, max_length, long=self.data.long, stride=self.data.stride
        )
