"""Rewrites a fused graph so that its tables and matrix products are 8-bit integers, part by part.

Weights have one scale a column, chosen for the least squared error; activations one scale a tensor, found while it runs
(dynamic) or beforehand (static). Tables of pieces have one scale a row, or one for every 64 values with 4 bits.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

from students.int8_grid import BLOCK, quantise_columns, quantise_rows
from students.onnx_graph import CONTRIB, Graph, attributes

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
    chosen = {id(node) for node in _quantisable(graph)}
    projections = {id(node) for node in _projections(graph)}
    layer, products = -1, 0
    for node in graph.nodes:
        if node.op_type in ("Attention", "MultiHeadAttention"):
            layer, products = layer + 1, 0
        if id(node) not in chosen:
            continue
        if id(node) in projections:
            name = f"layer {layer + 1} attention"
        else:
            products += node.op_type in ("MatMul", "Gemm")
            name = _part(node, layer, products)
        found.setdefault(name, []).append(node)
    return found


def activations(graph: Graph, exclude: Collection[str] = ()) -> list[str]:
    """Names of the tensors that are quantised while the model runs."""
    chosen = (node for name, nodes in parts(graph).items() if name not in exclude for node in nodes)
    return list(dict.fromkeys(node.input[0] for node in chosen if node.op_type in ("Attention", "MatMul", "Gemm")))


def to_int8(model: ModelProto, how: Int8) -> ModelProto:
    """The model, changed in place."""
    graph = Graph(model)
    for name, nodes in parts(graph).items():
        for node in nodes if name not in how.exclude else ():
            if node.op_type == "Gather":
                _table(graph, node, how.embedding_bits)
            elif node.op_type == "Slice":
                _positions(graph, node, how.embedding_bits)
            elif node.op_type == "Attention":
                _attention(graph, node, how)
            else:
                _product(graph, node, how)
    return graph.tidy()


def _quantisable(graph: Graph) -> list[NodeProto]:
    linear = [node for node in graph.of_type("Attention", "MatMul", "Gemm") if graph.is_weight(node.input[1])]
    tables = [node for node in graph.of_type("Gather", "Slice") if _is_table(graph, node)]
    return [*linear[:-1], *tables]


def _projections(graph: Graph) -> list[NodeProto]:
    """The products that give queries, keys and values, where they are not part of the attention's node."""
    sums = [graph.producer(name, "Add") for node in graph.of_type("MultiHeadAttention") for name in node.input[:3]]
    found = [graph.producer(name, "MatMul") for node in sums if node is not None for name in node.input]
    return [node for node in found if node is not None]


def _is_table(graph: Graph, node: NodeProto) -> bool:
    """A table of pieces or positions: those of segments are too small to matter."""
    table = graph.weight(node.input[0])
    looked_up = node.op_type == "Slice" or not graph.is_weight(node.input[1])
    return table is not None and table.ndim == 2 and len(table) > 16 and looked_up


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
    options: dict[str, Any] = {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1}
    inputs = [names[0], node.input[1], names[1]]
    graph.replace(
        node, [helper.make_node("GatherBlockQuantized", inputs, list(node.output), domain=CONTRIB, **options)]
    )


def _positions(graph: Graph, node: NodeProto, bits: int) -> None:
    """Keep the table of positions as int8 with one scale a row; ONNX Runtime makes it fp32 again."""
    if bits == 32:
        return
    values, scales = quantise_columns(graph.array(node.input[0]).T)
    names = [
        graph.add_weight(f"{node.input[0]}_{kind}", value) for kind, value in (("int8", values.T), ("scales", scales))
    ]
    table = f"{node.input[0]}_table"
    graph.after(names[0], "DequantizeLinear", names, [table], axis=0)
    node.input[0] = table


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
    """A matrix product with its bias."""
    transposed = bool(attributes(node).get("transB", 0))
    weight, scale, _ = _weight(graph, node.input[1], how.weight_bits, transposed=transposed)
    bias, output = (list(node.input[2:]), node.output[0]) if len(node.input) > 2 else _take_bias(graph, node)
    added = ["", *bias] if bias else []
    if how.ranges is None:
        # It quantises its input by itself, which saves a pass through memory.
        inputs = [node.input[0], weight, scale, *added]
        new = helper.make_node("DynamicQuantizeMatMul", inputs, [output], domain=CONTRIB)
    else:
        values, step, zero = _activation(graph, node.input[0], how.ranges)
        inputs = [values, weight, step, scale, zero, *added]
        new = helper.make_node("MatMulIntegerToFloat", inputs, [output], domain=CONTRIB)
    graph.replace(node, [new])


def _take_bias(graph: Graph, node: NodeProto) -> tuple[list[str], str]:
    """The bias that is added to a product next, which the product then adds itself, none where there is none; and the
    name of what the product then gives.
    """
    reader = graph.reader(node.output[0], "Add", "Sum", "BiasGelu")
    biases = [name for name in reader.input if graph.is_weight(name)] if reader is not None else []
    if reader is None or len(biases) != 1 or graph.array(biases[0]).ndim != 1:
        return [], node.output[0]
    left = [name for name in reader.input if name != biases[0]]
    if reader.op_type == "BiasGelu":
        graph.replace(reader, [helper.make_node("Gelu", left, list(reader.output), domain=CONTRIB)])
    elif len(left) == 1:
        # The sum keeps its name: static ranges are known by it.
        graph.replace(reader, [])
        return biases, reader.output[0]
    else:
        graph.replace(reader, [helper.make_node("Sum", left, list(reader.output))])
    return biases, node.output[0]


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
