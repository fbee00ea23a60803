"""An ONNX graph that is read backwards and rewritten, node by node."""

from collections.abc import Iterable

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

CONTRIB = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""


class Graph:
    """Looks things up in a model's graph by name, and changes it in place.

    Names of tensors are unique; "" stands for an input that is left out. Changes of nodes reach the model with `tidy`.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self._weights = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self._weights[node.output[0]] = node.attribute[0].t
        self.nodes = list(model.graph.node)
        """In an order in which they can be computed."""
        self._producers: dict[str, NodeProto] = {}
        self._readers: dict[str, list[NodeProto]] = {}
        self._index()

    def of_type(self, *kinds: str) -> list[NodeProto]:
        """Nodes of these operators, in order."""
        return [node for node in self.nodes if node.op_type in kinds]

    def producer(self, name: str, *kinds: str) -> NodeProto | None:
        """The node that computes `name`, if it is of one of these operators (of any if none is given)."""
        node = self._producers.get(name)
        return node if node is not None and (not kinds or node.op_type in kinds) else None

    def readers(self, name: str) -> list[NodeProto]:
        """Nodes that take `name`."""
        return self._readers.get(name, [])

    def reader(self, name: str, *kinds: str) -> NodeProto | None:
        """The one node that takes `name`, if it is of one of these operators; None where several take it."""
        nodes = self.readers(name)
        return nodes[0] if len(nodes) == 1 and nodes[0].op_type in kinds else None

    def weight(self, name: str) -> np.ndarray | None:
        """The constant of that name; None where there is no such constant."""
        tensor = self._weights.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def array(self, name: str) -> np.ndarray:
        """The constant of that name, which must be there."""
        return numpy_helper.to_array(self._weights[name])

    def is_weight(self, name: str) -> bool:
        return name in self._weights

    def add_weight(self, name: str, value: np.ndarray) -> str:
        """A new constant; one of that name that is there already is taken to be the same."""
        if name not in self._weights:
            self._weights[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
            self.model.graph.initializer.append(self._weights[name])
        return name

    def replace(self, old: NodeProto, new: Iterable[NodeProto]) -> None:
        """Put nodes in the place of one; what it alone needed is dropped by `tidy`."""
        place = self._place(old)
        self.nodes[place : place + 1] = new
        self._index()

    def after(self, name: str, kind: str, inputs: list[str], outputs: list[str], **options: int) -> None:
        """Put a node right after the one that computes `name`, unless its first output is there already."""
        if outputs[0] not in self._producers:
            producer = self.producer(name)
            place = 0 if producer is None else self._place(producer) + 1
            self.nodes.insert(place, helper.make_node(kind, inputs, outputs, **options))
            self._index()

    def redirect(self, name: str, to: str) -> None:
        """Let all nodes that take `name` take `to` instead."""
        for node in self.readers(name):
            for place, entry in enumerate(node.input):
                if entry == name:
                    node.input[place] = to
        self._index()

    def tidy(self) -> ModelProto:
        """The model, without nodes and constants that nothing needs."""
        needed = {output.name for output in self.model.graph.output}
        kept: list[NodeProto] = []
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.output):
                needed.update(node.input)
                kept.append(node)
        graph = self.model.graph
        weights = [tensor for tensor in graph.initializer if tensor.name in needed]
        for entries in (graph.node, graph.initializer, graph.value_info):
            del entries[:]
        graph.node.extend(reversed(kept))
        graph.initializer.extend(weights)
        if any(node.domain == CONTRIB for node in kept) and all(o.domain != CONTRIB for o in self.model.opset_import):
            self.model.opset_import.append(helper.make_opsetid(CONTRIB, 1))
        return self.model

    def _place(self, node: NodeProto) -> int:
        return next(place for place, other in enumerate(self.nodes) if other is node)

    def _index(self) -> None:
        self._producers = {name: node for node in self.nodes for name in node.output if name}
        self._readers = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                self._readers.setdefault(name, []).append(node)


def attributes(node: NodeProto) -> dict[str, object]:
    """A node's attributes by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
