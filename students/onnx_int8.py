"""Rewrites a fused graph so that its tables and matrix products are 8-bit integers, part by part.

Weights have one scale a column, chosen for the least squared error; activations one scale a tensor, found while it runs
(dynamic) or beforehand (static). Tables of pieces have one scale a row, or one for every 64 values with 4 bits.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, helper

from students.onnx_graph import CONTRIB, Graph, attributes

FACTORS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Shares of the largest value that are tried as the largest that is represented."""
BLOCK = 64
"""Values to a scale, with 4 bits."""
EMBEDDINGS, HEAD = "embeddings", "head"

Ranges = Mapping[str, tuple[float, float]]
"""Least and greatest value of activations, by name of the tensor."""


@dataclass(frozen=True, kw_only=True)
class Int8:
    """How a graph is quantised."""

    ranges: Ranges | None = None
    """Of the activations that `activations` names. None: found anew for each batch (dynamic)."""
    embedding_bits: int = 8
    """Of the table of pieces: 4 or 8, or 32 to leave it as it is."""
    weight_bits: int = 8
    """7 for processors whose 8-bit products overflow."""
    exclude: Collection[str] = field(default_factory=frozenset)
    """Parts, as `parts` names them, that stay in fp32."""


def parts(graph: Graph) -> dict[str, list[NodeProto]]:
    """The nodes that can be quantised, by the part of the model: embeddings, layer 0 attention, layer 0 feed-forward...

    The last linear map gives the outputs and stays as it is: it is tiny, and its errors are those of the outputs.
    """
    found: dict[str, list[NodeProto]] = {}
    layer, products = -1, 0
    for node in _quantisable(graph):
        if node.op_type == "Attention":
            layer, products = layer + 1, 0
        elif node.op_type != "Gather":
            products += 1
        found.setdefault(_part(node, layer, products), []).append(node)
    return found


def activations(graph: Graph, exclude: Collection[str] = ()) -> list[str]:
    """Names of the tensors that are quantised while the model runs."""
    chosen = (node for name, nodes in parts(graph).items() if name not in exclude for node in nodes)
    return list(dict.fromkeys(node.input[0] for node in chosen if node.op_type != "Gather"))


def to_int8(model: ModelProto, how: Int8) -> ModelProto:
    """The model, changed in place."""
    graph = Graph(model)
    for name, nodes in parts(graph).items():
        for node in nodes if name not in how.exclude else ():
            if node.op_type == "Gather":
                _table(graph, node, how.embedding_bits)
            elif node.op_type == "Attention":
                _attention(graph, node, how)
            else:
                _product(graph, node, how)
    return graph.tidy()


def _quantisable(graph: Graph) -> list[NodeProto]:
    linear = [node for node in graph.of_type("Attention", "MatMul", "Gemm") if graph.is_weight(node.input[1])]
    tables = [node for node in graph.of_type("Gather") if _is_table(graph, node)]
    chosen = {id(node) for node in (*linear[:-1], *tables)}
    return [node for node in graph.nodes if id(node) in chosen]


def _is_table(graph: Graph, node: NodeProto) -> bool:
    """A table of pieces: those of segments are too small to matter."""
    table = graph.weight(node.input[0])
    return table is not None and table.ndim == 2 and len(table) > 16 and not graph.is_weight(node.input[1])


def _part(node: NodeProto, layer: int, products: int) -> str:
    if layer < 0:
        return EMBEDDINGS
    if node.op_type == "Gemm" or products > 3:
        return HEAD
    return f"layer {layer} {'attention' if products < 2 else 'feed-forward'}"


def _table(graph: Graph, node: NodeProto, bits: int) -> None:
    """Look rows up as integers: GatherBlockQuantized."""
    table = graph.array(node.input[0])
    if bits == 32:
        return
    # Two values of 4 bits share a byte.
    bits = 8 if table.shape[1] % 2 else bits
    block = BLOCK if bits == 4 else 1 << max(4, (table.shape[1] - 1).bit_length())
    values, scales = quantise_rows(table, bits=bits, block=block)
    if bits == 4:
        values = values[:, 0::2] | values[:, 1::2] << 4
    names = [graph.add_weight(f"{node.input[0]}_{kind}{bits}", value) for kind, value in (("q", values), ("s", scales))]
    options = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    inputs = [names[0], node.input[1], names[1]]
    graph.replace(
        node, [helper.make_node("GatherBlockQuantized", inputs, list(node.output), domain=CONTRIB, **options)]
    )


def _attention(graph: Graph, node: NodeProto, how: Int8) -> None:
    """QAttention: integer projections, then attention in fp32."""
    weight, scale, zero = _weight(graph, node.input[1], how.weight_bits)
    source = _activation(graph, node.input[0], how.ranges)
    options = attributes(node)
    inputs = [source[0], weight, node.input[2], source[1], scale, node.input[3], source[2], zero]
    new = helper.make_node(
        "QAttention",
        inputs,
        list(node.output),
        domain=CONTRIB,
        num_heads=options["num_heads"],
        scale=options["scale"],
    )
    graph.replace(node, [new])


def _product(graph: Graph, node: NodeProto, how: Int8) -> None:
    transposed = bool(attributes(node).get("transB", 0))
    weight, scale, _ = _weight(graph, node.input[1], how.weight_bits, transposed=transposed)
    bias = list(node.input[2:])
    if how.ranges is None:
        # It quantises its input by itself, which saves a pass through memory.
        inputs = [node.input[0], weight, scale, *(["", *bias] if bias else [])]
        kind = "DynamicQuantizeMatMul"
    else:
        source = _activation(graph, node.input[0], how.ranges)
        inputs = [source[0], weight, source[1], scale, source[2], *(["", *bias] if bias else [])]
        kind = "MatMulIntegerToFloat"
    graph.replace(node, [helper.make_node(kind, inputs, list(node.output), domain=CONTRIB)])


def _activation(graph: Graph, name: str, ranges: Ranges | None) -> tuple[str, str, str]:
    """Names of an activation as uint8, of its scale and of its zero point."""
    values, scale, zero = f"{name}_uint8", f"{name}_scale", f"{name}_zero"
    if ranges is None:
        graph.after(name, "DynamicQuantizeLinear", [name], [values, scale, zero])
        return values, scale, zero
    low, high = min(ranges[name][0], 0.0), max(ranges[name][1], 0.0)
    step = (high - low) / 255 or 1.0
    graph.add_weight(scale, np.array(step, dtype=np.float32))
    graph.add_weight(zero, np.array(round(-low / step), dtype=np.uint8))
    graph.after(name, "QuantizeLinear", [name, scale, zero], [values])
    return values, scale, zero


def _weight(graph: Graph, name: str, bits: int, *, transposed: bool = False) -> tuple[str, str, str]:
    """Names of a weight (inputs, outputs) as int8, of its scales and of its zero points, all 0."""
    weight = graph.array(name)
    values, scales = quantise_columns(weight.T if transposed else weight, bits=bits)
    zero = graph.add_weight(f"zero_{len(scales)}", np.zeros(len(scales), dtype=np.int8))
    return graph.add_weight(f"{name}_int8", values), graph.add_weight(f"{name}_scales", scales), zero


def quantise_columns(weight: np.ndarray, *, bits: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """int8 values (inputs, outputs) and scales (outputs,), symmetric: weight is about values * scales."""
    values, scales = _least_error(np.ascontiguousarray(weight.T), bits)
    return np.ascontiguousarray(values.T), scales


def quantise_rows(table: np.ndarray, *, bits: int, block: int) -> tuple[np.ndarray, np.ndarray]:
    """uint8 values (rows, width) and scales (rows, blocks); a block's table is about (values - 2^(bits-1)) * scale."""
    rows, width = table.shape
    blocks = -(-width // block)
    padded = np.zeros((rows, blocks * block), dtype=np.float32)
    padded[:, :width] = table
    values, scales = _least_error(padded.reshape(rows * blocks, block), bits)
    unsigned = (values.astype(np.int16) + 2 ** (bits - 1)).astype(np.uint8)
    return np.ascontiguousarray(unsigned.reshape(rows, -1)[:, :width]), scales.reshape(rows, blocks)


def _least_error(rows: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """int8 values and a scale for each row, with the share of FACTORS that has the least squared error."""
    top = 2 ** (bits - 1) - 1
    largest = np.abs(rows).max(axis=1)
    largest[largest == 0] = 1.0
    best, error = (largest / top).astype(np.float32), np.full(len(rows), np.inf)
    for factor in FACTORS:
        scales = (factor * largest / top).astype(np.float32)
        errors = np.square(_round(rows, scales, top) * scales[:, None] - rows).sum(axis=1)
        best, error = np.where(errors < error, scales, best), np.minimum(errors, error)
    return _round(rows, best, top).astype(np.int8), best


def _round(rows: np.ndarray, scales: np.ndarray, top: int) -> np.ndarray:
    return np.clip(np.rint(rows / scales[:, None]), -top, top)
