"""PyTorch's tensors as arrays on the same memory."""

from __future__ import annotations

from typing import Any

import torch

# What inca carries; None: NumPy has the type under a name of its own.
NAMES: dict[torch.dtype, str | None] = {
    torch.float32: None,
    torch.float16: None,
    torch.bfloat16: "bf16",
    torch.int8: None,
    torch.uint8: None,
    torch.int16: None,
    torch.int32: None,
    torch.int64: None,
}


def view(tensor: torch.Tensor) -> tuple[Any, str | None]:
    """A tensor as an array on the same memory, and the name of its type where NumPy has none.

    Raises TypeError or ValueError for what can't be used where it lies: another device, another type, strides.
    """
    if tensor.device.type != "cpu":
        raise ValueError(f"tensor on {tensor.device}: only memory of the CPU can be sent")
    if tensor.layout != torch.strided:
        raise TypeError(f"tensor of layout {tensor.layout}: only dense ones can be sent")
    if tensor.dtype not in NAMES:
        raise TypeError(f"tensor of {tensor.dtype}: {', '.join(map(str, NAMES))} are carried")
    if not tensor.is_contiguous():
        raise ValueError(f"tensor of shape {tuple(tensor.shape)} and strides {tensor.stride()} is not contiguous")
    flat = tensor.detach().view(-1)
    if tensor.dtype == torch.bfloat16:
        flat = flat.view(torch.int16)
    return flat.numpy(), NAMES[tensor.dtype]


def raw_view(tensor: torch.Tensor) -> tuple[Any, str | None]:
    """As `view`, for what is only moved: types that are not carried (float64, bool, complex ones) as their bytes."""
    if tensor.dtype in NAMES or tensor.layout != torch.strided or tensor.device.type != "cpu":
        return view(tensor)
    return view(tensor.detach().view(-1).view(torch.uint8))
