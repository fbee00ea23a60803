"""What options of pretraining may not be given together, and which are settings of a finished folder."""

import pytest

from common.errors import UserError
from teacher.masking import mask_pieces
from teacher.maskings import PIECES
from teacher.pretrain_config import PretrainConfig


def test_options_that_contradict_each_other_are_named() -> None:
    with pytest.raises(UserError) as caught:
        PretrainConfig(objective="ltr", masking="ngram", general_text="x", dupe_factor=0, generator_width=0.5)
    for part in ("ltr hides nothing", "--general-text is what --masking domain", "--dupe-factor 0", "no generator"):
        assert part in str(caught.value)
    with pytest.raises(UserError, match="both are pydocs: name another one with --general-text"):
        PretrainConfig(masking="domain")
    with pytest.raises(UserError, match=r"did you mean 'whole-word'\?.*did you mean 'static'"):
        PretrainConfig(masking="whole-words", masks="statics")
    assert PretrainConfig(masking="domain", corpus="x").compared_with == "pydocs"
    assert PIECES.choose is mask_pieces


def test_only_what_differs_from_the_first_version_is_a_new_setting() -> None:
    """Folders that were finished before an option came stay reusable."""
    before = PretrainConfig().settings()
    first = "accumulation batch_size cased corpus dropout learning_rate length minutes objective precision seed size"
    assert before.keys() == {*first.split(), "steps", "vocabulary"}
    # What the size of pydocs gives is what was the default for every text.
    assert before["vocabulary"] == 8000 and PretrainConfig(vocabulary=8000).settings() == before
    assert PretrainConfig(workers=3, resume=True, checkpoint_every=9).settings() == before
    given = PretrainConfig(tokenizer="minilm", text_column="body").settings()
    assert given == before | {"tokenizer": "minilm", "text_column": "body", "vocabulary": None}
    changed = PretrainConfig(objective="rtd", masks="static", generator_width=0.5).settings()
    assert changed == before | {"objective": "rtd", "masks": "static", "generator_width": 0.5}
