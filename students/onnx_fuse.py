"""Makes an exported graph quick: attention with its three projections in one node, then ONNX Runtime's own fusions.

Exact: nothing here changes what is computed, but for the order in which numbers are added. A layer norm with its
residual is left in two nodes: ONNX Runtime 1.32 has one for both, SkipLayerNormalization, which takes 240 microseconds
for 128 x 312 numbers on one thread where the two take 40. The residual is added by "Sum", which no optimiser fuses.
"""

import logging
from collections import Counter

import numpy as np
from onnx import ModelProto, NodeProto, helper

from students.onnx_folder import need
from students.onnx_graph import CONTRIB, Graph, attributes

_BY_POSITION = ("LayerNormalization", "Sum", "Gelu", "BiasGelu", "FastGelu")
"""Operators that treat each position by itself; so do "MatMul" and "Add" with a constant."""
_COUNTED = ("LayerNormalization", "Gelu")
"""Operators of ONNX itself that a whole pattern has become."""


def fuse(model: ModelProto) -> ModelProto:
    """The same model with fused operators."""
    graph = Graph(model)
    _turn_weights(graph)
    for node in graph.of_type("MultiHeadAttention"):
        _drop_reshapes(graph, node)
        _merge_projections(graph, node)
    graph = Graph(_runtime_fusions(graph.tidy()))
    for node in graph.of_type("LayerNormalization"):
        _sum_at_once(graph, node)
    graph = Graph(graph.tidy())
    _keep_first_position(graph)
    graph = Graph(graph.tidy())
    _ask_for_first_position(graph)
    return graph.tidy()


def fused_counts(model: ModelProto) -> dict[str, int]:
    """Operators of ONNX Runtime's own in a model, and layer norms and GELUs, with their counts."""
    chosen = (node.op_type for node in model.graph.node if node.domain == CONTRIB or node.op_type in _COUNTED)
    return dict(sorted(Counter(chosen).items()))


def _turn_weights(graph: Graph) -> None:
    """Constants as products take them: exporters leave those that several layers share to be transposed in each."""
    for node in graph.of_type("Transpose"):
        if graph.is_weight(node.input[0]):
            order = attributes(node)["perm"]
            name = f"{node.input[0]}_{''.join(map(str, order))}"
            graph.redirect(node.output[0], graph.add_weight(name, graph.array(node.input[0]).transpose(order)))


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
        **{name: options[name] for name in ("num_heads", "scale")},
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
    """ONNX Runtime's transformer optimiser: GELU of all kinds, with its bias."""
    optimizer = need("onnxruntime.transformers.optimizer")
    options = need("onnxruntime.transformers.fusion_options").FusionOptions("bert")
    options.enable_skip_layer_norm = options.enable_bias_skip_layer_norm = False
    logger = logging.getLogger()
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)
        return optimizer.optimize_by_fusion(model, "bert", optimization_options=options).model
    finally:
        logger.setLevel(level)


def _sum_at_once(graph: Graph, norm: NodeProto) -> None:
    """One node for the residual and the bias before a layer norm."""
    residual = graph.producer(norm.input[0], "Add")
    if residual is None or any(graph.is_weight(name) for name in residual.input):
        return
    terms: list[str] = []
    for name in residual.input:
        bias = graph.producer(name, "Add")
        alone = bias is not None and graph.reader(name, "Add") is residual
        terms += bias.input if bias is not None and alone and any(map(graph.is_weight, bias.input)) else [name]
    graph.replace(residual, [helper.make_node("Sum", terms, list(residual.output))])


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


def _ask_for_first_position(graph: Graph) -> None:
    """Let an attention of which only the first position is read compute one query alone.

    Not one whose weights other layers have too: they would be in the file twice.
    """
    for node in graph.of_type("Attention"):
        pick, source = graph.reader(node.output[0], "Gather"), node.input[0]
        if pick is None or not pick.output[0].endswith("_first") or graph.producer(f"{source}_first") is None:
            continue
        if len(graph.readers(node.input[1])) > 1:
            continue
        parts, names = [], []
        for letter, source_name in (("q", f"{source}_first"), ("k", source), ("v", source)):
            weight, bias = (
                graph.add_weight(f"{name}_{letter}", np.split(graph.array(name), 3, axis=-1)["qkv".index(letter)])
                for name in node.input[1:3]
            )
            product, total = f"{node.output[0]}_{letter}_product", f"{node.output[0]}_{letter}"
            parts.append(helper.make_node("MatMul", [source_name, weight], [product]))
            parts.append(helper.make_node("Add", [product, bias], [total]))
            names.append(total)
        mixed = helper.make_node(
            "MultiHeadAttention", [*names, "", node.input[3]], list(pick.output), domain=CONTRIB, **attributes(node)
        )
        graph.replace(node, parts)
        graph.replace(pick, [mixed])


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
