"""Reads YAML so that every complaint names file, line and column."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NoReturn

import yaml

from .topology import TopologyError


def read_text(path: Path) -> str:
    """A file's text, its line ends those of this system."""
    try:
        # utf-8-sig: editors on other systems put a byte order mark in front.
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: byte {error.start}: not UTF-8") from None


class Nodes:
    """What YAML's nodes hold, checked; `source` stands in front of every message."""

    def __init__(self, source: str) -> None:
        self.source = source

    def root(self, text: str, what: str, keys: tuple[str, ...]) -> yaml.Node:
        """The only document of a text."""
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f"{mark.line + 1}:{mark.column + 1}: " if mark else ""
            problem = error.problem or "not valid YAML"
            if "\\t" in problem:
                problem = "tab in the indentation, only spaces are valid"
            raise TopologyError(f"{self.source}:{where}{problem}") from None
        except yaml.YAMLError as error:
            raise TopologyError(f"{self.source}: {error}") from None
        except RecursionError:
            raise TopologyError(f"{self.source}: nested too deeply, {what} has a few levels") from None
        if root is None:
            raise TopologyError(f"{self.source}: empty, valid keys are {', '.join(keys)}")
        return root

    def mapping(self, node: yaml.Node, what: str, keys: tuple[str, ...] | None) -> dict[str, yaml.Node]:
        """Key to value node; unlike YAML's own loader it refuses a key that comes twice."""
        if not isinstance(node, yaml.MappingNode):
            self.fail(node, f"{what}: a mapping is expected")
        found: dict[str, yaml.Node] = {}
        for key_node, value in node.value:
            key = self.text(key_node)
            if keys is not None and key not in keys:
                self.fail(key_node, f"unknown key '{key}', valid are {', '.join(keys)}")
            if key in found:
                first = found[key].start_mark
                self.fail(key_node, f"key '{key}' twice, first on line {first.line + 1}")
            found[key] = value
        return found

    def sequence(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            self.fail(node, f"{what}: a list is expected")
        return list(node.value)

    def text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.fail(node, "a plain value is expected")
        return str(node.value)

    def integer(self, node: yaml.Node) -> int:
        text = self.text(node)
        if not re.fullmatch(r"-?[0-9]{1,18}", text):
            self.fail(node, f"'{text}' is not a whole number")
        return int(text)

    def number(self, node: yaml.Node) -> float:
        text = self.text(node)
        try:
            return float(text)
        except ValueError:
            self.fail(node, f"'{text}' is not a number")

    def fail(self, node: yaml.Node, problem: str) -> NoReturn:
        mark = node.start_mark
        raise TopologyError(f"{self.source}:{mark.line + 1}:{mark.column + 1}: {problem}")
