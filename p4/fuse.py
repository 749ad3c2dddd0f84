"""Takes out of p4c's JSON what costs BMv2 time and does nothing.

p4c's backend moves every compound argument of a register operation into a field of its own and masks every
intermediate value. BMv2 sets a field ten times slower than it computes (docs/performance.md), and takes expressions,
registers in them too, as arguments. So, in actions:

* `assign T = E; register_write R, i, T` becomes `register_write R, i, E`, and `register_read T, R, i; use of T` becomes
  `use of R[i]`, where T is a local variable of the program that nothing else reads;
* masks that change nothing, because the value is narrower anyway or because it is cut where it is stored, go.

Nothing is moved across another effect: the order of reads and writes stays. The golden tests run packets through both
forms.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

Node = dict[str, Any]

MODULAR = {"+", "-", "*", "&", "|", "^"}


def fuse(program: Node) -> None:
    """Rewrites the program in place."""
    Fuser(program).run()


class Fuser:
    """One program's widths and actions."""

    def __init__(self, program: Node) -> None:
        self.program = program
        types = {kind["name"]: kind for kind in program["header_types"]}
        self.widths: dict[tuple[str, str], int] = {
            (header["name"], name): width
            for header in program["headers"]
            for name, width, *signed in types[header["header_type"]]["fields"]
            if isinstance(width, int) and not any(signed)
        }
        self.locals = next(kind for kind in program["header_types"] if kind["name"].startswith("scalars"))
        self.registers: dict[str, int] = {
            register["name"]: register["bitwidth"] for register in program["register_arrays"]
        }

    def run(self) -> None:
        """Simplifies all actions, then removes local variables that have gone out of use."""
        for action in self.program["actions"]:
            widths = [parameter["bitwidth"] for parameter in action["runtime_data"]]
            for primitive in action["primitives"]:
                self.unmask(primitive, widths)
        temporaries = self.temporaries()
        for action in self.program["actions"]:
            self.fuse_action(action, temporaries)
        self.remove_unused()

    # Masks.

    def unmask(self, primitive: Node, params: list[int]) -> None:
        """Takes needless masks out of a primitive's arguments."""
        cut = self.stored_bits(primitive)
        parameters = primitive["parameters"]
        for position, parameter in enumerate(parameters):
            if parameter["type"] == "expression":
                value = self.simplified(parameter["value"], params)
                if cut is not None and position == len(parameters) - 1:
                    value = self.modulo(value, cut, params)
                parameter["value"] = value

    def stored_bits(self, primitive: Node) -> int | None:
        """To how many bits the last argument is cut where it is stored."""
        target = primitive["parameters"][0] if primitive["parameters"] else {}
        if primitive["op"] == "assign" and target["type"] == "field":
            return self.widths.get((target["value"][0], target["value"][1]))
        if primitive["op"] == "register_write":
            return self.registers[target["value"]]
        return None

    def simplified(self, node: Node, params: list[int]) -> Node:
        """Without masks that are wider than what they mask."""
        if not is_operation(node):
            if node["type"] == "expression":
                inner: Node = node["value"]
                return self.simplified(inner, params)
            return node
        value: Node = node["value"]
        for side in ("left", "right", "cond"):
            if value.get(side) is not None:
                value[side] = self.simplified(value[side], params)
        if value["op"] == "&":
            left: Node = value["left"]
            right: Node = value["right"]
            for mask, kept in ((right, left), (left, right)):
                bits = all_ones(mask)
                width = self.bits(kept, params)
                if bits is not None and width is not None and width <= bits:
                    return kept
        return node

    def modulo(self, node: Node, bits: int, params: list[int]) -> Node:
        """The same modulo 2^bits, without masks that only cut to that or more.

        A shifted value keeps its mask, so that no intermediate value outgrows a word by more than a carry.
        """
        if not is_operation(node):
            return node
        value = node["value"]
        if value["op"] == "&":
            mask = all_ones(value["right"])
            is_shifted = is_operation(value["left"]) and value["left"]["value"]["op"] == "<<"
            if mask is not None and mask >= bits and not is_shifted:
                return self.modulo(value["left"], bits, params)
        if value["op"] in MODULAR:
            for side in ("left", "right"):
                value[side] = self.modulo(value[side], bits, params)
        return node

    def bits(self, node: Node, params: list[int]) -> int | None:
        """How many bits the value has at most; None if it may be negative or is not known."""
        kind, value = node["type"], node["value"]
        if kind == "hexstr":
            number = int(value, 16)
            return None if number < 0 else number.bit_length()
        if kind == "field":
            return self.widths.get((value[0], value[1]))
        if kind in ("local", "runtime_data"):
            return params[value]
        if kind == "register":
            return self.registers[value[0]]
        if not is_operation(node):
            return None
        sides = [self.bits(value[side], params) if value.get(side) is not None else None for side in ("left", "right")]
        known = [side for side in sides if side is not None]
        match value["op"]:
            case "&":
                return min(known) if known else None
            case "|" | "^":
                return max(known) if len(known) == 2 else None
            case "+":
                return max(known) + 1 if len(known) == 2 else None
            case ">>":
                return sides[0]
            case "<<" if sides[0] is not None and value["right"]["type"] == "hexstr":
                return sides[0] + int(value["right"]["value"], 16)
        return None

    # Temporaries.

    def temporaries(self) -> set[str]:
        """Local variables that are read only where the same run of primitives has set them before."""
        candidates = {name for name, *_ in self.locals["fields"]} - {
            field for field, _ in uses_outside_actions(self.program)
        }
        for action in self.program["actions"]:
            targets = jump_targets(action)
            defined: set[str] = set()
            for index, primitive in enumerate(action["primitives"]):
                if index in targets:
                    defined = set()
                candidates -= set(reads(primitive)) - defined
                target = defines(primitive)
                if target:
                    defined.add(target)
                if primitive["op"].startswith("_jump"):
                    defined = set()
        return candidates

    def fuse_action(self, action: Node, temporaries: set[str]) -> None:
        """Puts values of temporaries where they are used, in the next primitive."""
        primitives = action["primitives"]
        targets = jump_targets(action)
        index = 0
        while index < len(primitives) - 1:
            target = self.fusible(action, index, temporaries, targets)
            if target is None:
                index += 1
                continue
            substitute(primitives[index + 1], target, defined_value(primitives[index]))
            remove(action, index)
            targets = jump_targets(action)
            # What is before may now be next to its use.
            index = max(index - 1, 0)

    def fusible(self, action: Node, index: int, temporaries: set[str], targets: set[int]) -> str | None:
        """The temporary that the primitive sets and only the next one uses, where an expression may stand.

        A register may be used several times there, anything else once.
        """
        primitives = action["primitives"]
        target, user = defines(primitives[index]), primitives[index + 1]
        if target is None or target not in temporaries or index + 1 in targets:
            return None
        times = list(reads(user)).count(target)
        if times == 0 or not takes_expressions(user, target):
            return None
        if times > 1 and primitives[index]["op"] != "register_read":
            return None
        if defines(user) != target and self.read_later(action, index + 2, target, targets):
            return None
        return target

    def read_later(self, action: Node, start: int, target: str, targets: set[int]) -> bool:
        """Whether the rest of the run of primitives reads the temporary before it is set again."""
        for index in range(start, len(action["primitives"])):
            primitive = action["primitives"][index]
            if index in targets:
                return False
            if target in reads(primitive):
                return True
            if defines(primitive) == target or primitive["op"].startswith("_jump"):
                return False
        return False

    def remove_unused(self) -> None:
        """Removes local variables that nothing names any more, and pads what is left to whole bytes."""
        named = {field for field, _ in uses_outside_actions(self.program)}
        for action in self.program["actions"]:
            for primitive in action["primitives"]:
                named |= set(local_fields(primitive))
        fields = [field for field in self.locals["fields"] if field[0] in named]
        bits = sum(field[1] for field in fields)
        if bits % 8:
            fields.append(["_padding_0", 8 - bits % 8, False])
        self.locals["fields"] = fields


def is_operation(node: Node) -> bool:
    """Whether the node computes something."""
    return node["type"] == "expression" and isinstance(node["value"], dict) and "op" in node["value"]


def all_ones(node: Node) -> int | None:
    """k for the constant 2^k - 1."""
    if node["type"] != "hexstr":
        return None
    number = int(node["value"], 16)
    return number.bit_length() if number > 0 and number & (number + 1) == 0 else None


def local_fields(node: Any) -> Iterator[str]:
    """The local variables named anywhere in a piece of the program."""
    if isinstance(node, dict):
        for value in node.values():
            yield from local_fields(value)
    elif isinstance(node, list):
        if len(node) == 2 and isinstance(node[0], str) and node[0].startswith("scalars") and isinstance(node[1], str):
            yield node[1]
        else:
            for value in node:
                yield from local_fields(value)


def uses_outside_actions(program: Node) -> Iterator[tuple[str, str]]:
    """Local variables named anywhere but in actions, and where."""
    for key, part in program.items():
        if key != "actions":
            for field in local_fields(part):
                yield field, key


def defines(primitive: Node) -> str | None:
    """The local variable that the primitive sets."""
    if primitive["op"] in ("assign", "register_read"):
        return next(local_fields(primitive["parameters"][0]), None)
    return None


def reads(primitive: Node) -> Iterator[str]:
    """The local variables that the primitive reads, once per use."""
    skip = 1 if defines(primitive) else 0
    yield from local_fields(primitive["parameters"][skip:])


def defined_value(primitive: Node) -> Node:
    """What a primitive sets its target to."""
    if primitive["op"] == "register_read":
        _, register, index = primitive["parameters"]
        return {"type": "register", "value": [register["value"], unwrapped(index)]}
    return unwrapped(primitive["parameters"][1])


def unwrapped(node: Node) -> Node:
    """An argument as a part of an expression."""
    node = copy.deepcopy(node)
    if node["type"] == "runtime_data":
        return {"type": "local", "value": node["value"]}
    return node


def takes_expressions(primitive: Node, target: str) -> bool:
    """Whether BMv2 takes an expression where the primitive reads the variable."""
    match primitive["op"]:
        case "assign":
            return True
        case "register_write":
            return target not in local_fields(primitive["parameters"][0])
        case _:
            return False


def substitute(primitive: Node, target: str, value: Node) -> None:
    """Puts the value in place of the variable's only use."""
    skip = 1 if defines(primitive) else 0
    for position in range(skip, len(primitive["parameters"])):
        primitive["parameters"][position] = argument(replaced(primitive["parameters"][position], target, value))


def argument(node: Node) -> Node:
    """An expression as an argument of a primitive."""
    if is_operation(node) or node["type"] in ("register", "local"):
        return {"type": "expression", "value": node}
    return node


def replaced(node: Any, target: str, value: Node) -> Any:
    """The node with the variable replaced."""
    if isinstance(node, list):
        return [replaced(part, target, value) for part in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "field" and target in local_fields(node["value"]):
        return value
    return {key: replaced(part, target, value) for key, part in node.items()}


def jump_targets(action: Node) -> set[int]:
    """Where the action's jumps go."""
    return {int(primitive["parameters"][-1]["value"], 16) for primitive in action["primitives"] if is_jump(primitive)}


def is_jump(primitive: Node) -> bool:
    """Whether the last argument is the index of a primitive."""
    return bool(primitive["op"] in ("_jump", "_jump_if_zero"))


def remove(action: Node, index: int) -> None:
    """Removes a primitive; jumps keep their targets."""
    del action["primitives"][index]
    for primitive in action["primitives"]:
        if is_jump(primitive):
            target = primitive["parameters"][-1]
            if int(target["value"], 16) > index:
                target["value"] = hex(int(target["value"], 16) - 1)
