"""Text to shards of pieces, as a program of its own: JSON requests on standard input, JSON answers on standard output.

`teacher.shards` runs several at once. Neither torch nor transformers is imported, so that one starts in a moment.
"""

import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from common.errors import UserError
from common.files import new_file
from teacher.encoder import TextEncoder
from teacher.pieces import encode_documents
from teacher.sentences import CUTS


def encode_shard(
    texts: Sequence[str], path: Path, encoder: TextEncoder, cut: Callable[[str], list[str]]
) -> tuple[int, int]:
    """Write the pieces of some documents to `path`, which is there as a whole or not at all.

    Returns the documents that have pieces, and the number of these.

    Raises:
        UserError: no space, or no permission to write.
    """
    pieces = encode_documents(map(cut, texts), encoder)
    with new_file(path) as stream:
        np.savez(stream, ids=pieces.ids, sentences=pieces.sentences, documents=pieces.documents)
    return len(pieces), len(pieces.ids)


def main(tokenizer_file: str, cut: str) -> None:
    """Answer requests {"texts", "path"} by {"documents", "pieces"} or {"error"} until the input ends."""
    # Ctrl-C reaches every process of a terminal; the one that asks decides, and the input ends with it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    encoder = TextEncoder(Tokenizer.from_file(tokenizer_file))
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            documents, pieces = encode_shard(request["texts"], Path(request["path"]), encoder, CUTS[cut])
            answer: dict[str, Any] = {"documents": documents, "pieces": pieces}
        except UserError as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
