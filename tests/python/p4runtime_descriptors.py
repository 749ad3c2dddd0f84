"""Compare our P4Runtime messages with the official ones of the `p4runtime` package.

usage: p4runtime_descriptors.py DESCRIPTOR_SET

Every message, field (name, number, type, label, oneof, packing, deprecation), enum value, service and method of the
packages p4.v1 and p4.config.v1 and of google.rpc.Status is compared, both ways. Prints one line per difference and a
closing line with the number of declarations compared; exits with 1 if anything differs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

from google.protobuf import descriptor_pb2  # noqa: E402
from google.rpc import status_pb2  # noqa: E402
from p4.config.v1 import p4info_pb2, p4types_pb2  # noqa: E402
from p4.v1 import p4data_pb2, p4runtime_pb2  # noqa: E402

OFFICIAL_MODULES = (p4types_pb2, p4info_pb2, p4data_pb2, p4runtime_pb2, status_pb2)
PACKAGES = {"p4.v1", "p4.config.v1", "google.rpc"}

# Fully qualified name of a declaration -> everything about it that the wire or generated code depends on.
Declarations = dict[str, tuple[object, ...]]


def add_enum(found: Declarations, scope: str, enum: descriptor_pb2.EnumDescriptorProto) -> None:
    name = f"{scope}.{enum.name}"
    found[f"enum {name}"] = ()
    for value in enum.value:
        found[f"enum value {name}.{value.name}"] = (value.number,)


def add_message(found: Declarations, scope: str, message: descriptor_pb2.DescriptorProto) -> None:
    name = f"{scope}.{message.name}"
    found[f"message {name}"] = (message.options.map_entry,)
    for field in message.field:
        # A oneof index may differ with the order of declaration; its name may not.
        oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None
        packed = field.options.packed if field.options.HasField("packed") else None
        found[f"field {name}.{field.name}"] = (
            field.number,
            descriptor_pb2.FieldDescriptorProto.Type.Name(field.type),
            descriptor_pb2.FieldDescriptorProto.Label.Name(field.label),
            field.type_name,
            oneof,
            packed,
            field.options.deprecated,
            field.proto3_optional,
        )
    for enum in message.enum_type:
        add_enum(found, name, enum)
    for nested in message.nested_type:
        add_message(found, name, nested)


def declarations(files: list[descriptor_pb2.FileDescriptorProto]) -> Declarations:
    found: Declarations = {}
    for file in files:
        if file.package not in PACKAGES:
            continue
        for message in file.message_type:
            add_message(found, file.package, message)
        for enum in file.enum_type:
            add_enum(found, file.package, enum)
        for service in file.service:
            found[f"service {file.package}.{service.name}"] = ()
            for method in service.method:
                found[f"method {file.package}.{service.name}.{method.name}"] = (
                    method.input_type,
                    method.output_type,
                    method.client_streaming,
                    method.server_streaming,
                )
    return found


def official() -> Declarations:
    files = []
    for module in OFFICIAL_MODULES:
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return declarations(files)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    ours = declarations(list(descriptor_pb2.FileDescriptorSet.FromString(Path(sys.argv[1]).read_bytes()).file))
    theirs = official()
    differences = 0
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            differences += 1
            print(f"{name}: ours {ours.get(name, 'absent')}, official {theirs.get(name, 'absent')}")
    print(f"{len(theirs)} declarations compared, {differences} differ")
    return 1 if differences or not theirs else 0


if __name__ == "__main__":
    sys.exit(main())
