"""Makes an exported graph quick: attention with its three projections in one node, then ONNX Runtime's own fusions.

Exact: nothing here changes what is computed, but for the order in which numbers are added.
"""

import logging
from collections import Counter

import numpy as np
from onnx import ModelProto, NodeProto, helper

from students.onnx_folder import need
from students.onnx_graph import CONTRIB, Graph, attributes

_BY_POSITION = ("LayerNormalization", "SkipLayerNormalization", "Gelu", "BiasGelu", "FastGelu")
"""Operators that treat each position by itself; so do "MatMul" and "Add" with a constant."""


def fuse(model: ModelProto) -> ModelProto:
    """The same model with fused operators."""
    graph = Graph(model)
    for node in graph.of_type("MultiHeadAttention"):
        _drop_reshapes(graph, node)
        _merge_projections(graph, node)
    graph = Graph(_runtime_fusions(graph.tidy()))
    _keep_first_position(graph)
    return graph.tidy()


def fused_counts(model: ModelProto) -> dict[str, int]:
    """Operators of ONNX Runtime's own in a model, with their counts."""
    return dict(sorted(Counter(node.op_type for node in model.graph.node if node.domain == CONTRIB).items()))


def _drop_reshapes(graph: Graph, node: NodeProto) -> None:
    """Let what follows an attention read it as it is: heads are split and joined again in between."""
    reshapes, name = [], node.output[0]
    while (after := graph.reader(name, "Reshape")) is not None:
        reshapes.append(after)
        name = after.output[0]
    if len(reshapes) == 2:
        graph.redirect(name, node.output[0])


def _merge_projections(graph: Graph, node: NodeProto) -> None:
    """Make one Attention of a MultiHeadAttention and the projections to queries, keys and values before it."""
    projections = [_projection(graph, name) for name in node.input[:3]]
    sources = {projection[0] for projection in projections if projection is not None}
    if None in projections or len(sources) > 1:
        return
    weights, biases = ([projection[index] for projection in projections if projection] for index in (1, 2))
    merged = [
        graph.add_weight("+".join(names), np.concatenate([graph.array(name) for name in names], axis=-1))
        for names in (weights, biases)
    ]
    options = attributes(node)
    new = helper.make_node(
        "Attention",
        [*sources, *merged, node.input[4]],
        list(node.output),
        domain=CONTRIB,
        num_heads=options["num_heads"],
        scale=options["scale"],
    )
    graph.replace(node, [new])


def _projection(graph: Graph, name: str) -> tuple[str, str, str] | None:
    """Input, weight and bias of the linear map that gives `name`, whose heads were split and joined again."""
    while (before := graph.producer(name, "Reshape", "Transpose")) is not None:
        name = before.input[0]
    add = graph.producer(name, "Add")
    if add is None:
        return None
    for product, bias in (add.input, reversed(add.input)):
        node = graph.producer(product, "MatMul")
        if node is not None and graph.is_weight(node.input[1]) and graph.is_weight(bias):
            return node.input[0], node.input[1], bias
    return None


def _runtime_fusions(model: ModelProto) -> ModelProto:
    """ONNX Runtime's transformer optimiser: layer norms with their residuals and biases, GELU with its bias."""
    optimizer, options = need("onnxruntime.transformers.optimizer"), need("onnxruntime.transformers.fusion_options")
    logger = logging.getLogger()
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        return optimizer.optimize_by_fusion(model, "bert", optimization_options=options.FusionOptions("bert")).model
    finally:
        logger.setLevel(level)


def _keep_first_position(graph: Graph) -> None:
    """Where a head looks at the first position alone, compute what follows the last attention for that one alone."""
    for pick in graph.of_type("Gather"):
        index = graph.weight(pick.input[1])
        if index is None or index.size != 1 or int(index) != 0 or attributes(pick).get("axis") != 1:
            continue
        first = graph.add_weight("first_position", np.array([0], dtype=np.int64))
        narrow = _read_only_by(graph, pick)
        for node in narrow.values():
            for place, name in enumerate(node.input):
                if name and name not in narrow and not graph.is_weight(name):
                    graph.after(name, "Gather", [name, first], [f"{name}_first"], axis=1)
                    node.input[place] = f"{name}_first"


def _read_only_by(graph: Graph, pick: NodeProto) -> dict[str, NodeProto]:
    """Nodes that treat positions one by one and that only `pick` and one another read, by their output."""
    found: dict[str, NodeProto] = {pick.output[0]: pick}
    for node in reversed(graph.nodes):
        readers = graph.readers(node.output[0])
        if readers and all(reader.output[0] in found for reader in readers) and _treats_positions_alone(graph, node):
            found[node.output[0]] = node
    del found[pick.output[0]]
    return found


def _treats_positions_alone(graph: Graph, node: NodeProto) -> bool:
    constant = node.op_type in ("MatMul", "Add") and any(graph.is_weight(name) for name in node.input)
    return constant or node.op_type in _BY_POSITION
