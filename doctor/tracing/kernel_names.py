"""What the name of a kernel tells: the precision it computes in, whether it multiplies matrices, or only turns them.

Names of cuBLAS, cuDNN, CUTLASS and XLA; which of them use tensor cores:
https://github.com/openxla/xprof/blob/master/xprof/utils/kernel_stats_utils.cc
"""

from __future__ import annotations

import re
from functools import lru_cache

SIXTEEN, TF32, FLOAT32, FLOAT64 = "16 bit", "TF32", "float32", "float64"
# m16n8k16 is an instruction for 16 bit alone; 884 and 1688 also for TF32. Fewer than 16 bit count as 16.
_SIXTEEN = re.compile(
    r"bf16|f16|fp16|half(?!warp)|bfloat|hgemm|hmma|h884|h1688|h16816|s884|16816|161616|e4m3|e5m2|fp8|i8816|i16832|imma"
)
_TF32 = re.compile(r"tf32|s1688|tensorop_s?1688")
_FLOAT64 = re.compile(r"double|f64|dgemm|fp64")
_FLOAT32 = re.compile(r"sgemm|scudnn|sgemv|simt_s|f32|fp32|float")
_NVJET = re.compile(r"nvjet_(?:sm\d+_)?([a-z])")  # of cuBLASLt: the first letter is the operands' type
_NVJET_TYPES = {"h": SIXTEEN, "t": SIXTEEN, "q": SIXTEEN, "o": SIXTEEN, "s": TF32, "d": FLOAT64}
_PRODUCT = re.compile(r"gemm|winograd|wgrad|dgrad|fprop|scudnn|nvjet|xmma|conv(?!er[st])")
_TURNED = re.compile(
    r"nchwtonhwc|nhwctonchw|nchw2nhwc|nhwc2nchw|transpose|swapdimension1and2|shuffleintensor3|shufflingop"
)
# Of TensorFlow's: one atomic addition for each element of a gradient, where the biases do not fit into shared memory.
# On an H200, a layer of 8192 in bfloat16: 3.8 ms for 4096 rows; in float32 0.14 ms (docs/results/h200.md).
# https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/core/kernels/bias_op_gpu.cu.cc
_FALLBACK = re.compile(r"biasgradn(hwc|chw)_naive")


@lru_cache(maxsize=4096)
def precision(name: str) -> str:
    """The precision of a kernel's operands; empty where its name does not tell, as those of XLA's fusions."""
    lowered = name.lower()
    if found := _NVJET.search(lowered):
        return _NVJET_TYPES.get(found[1], "")
    for kind, pattern in ((SIXTEEN, _SIXTEEN), (TF32, _TF32), (FLOAT64, _FLOAT64), (FLOAT32, _FLOAT32)):
        if pattern.search(lowered):
            return kind
    return ""


@lru_cache(maxsize=4096)
def is_product(name: str) -> bool:
    """Whether a kernel is a matrix product or a convolution: what tensor cores are for."""
    return not is_layout(name) and bool(_PRODUCT.search(name.lower()))


@lru_cache(maxsize=4096)
def is_layout(name: str) -> bool:
    """Whether a kernel only changes the layout of a tensor."""
    lowered = name.lower()
    return bool(_TURNED.search(lowered)) and not re.search(r"gemm|xmma|conv(?!er[st])|fprop|wgrad|dgrad", lowered)


@lru_cache(maxsize=4096)
def is_fallback(name: str) -> bool:
    """Whether a kernel is there for sizes that no fast one takes."""
    return bool(_FALLBACK.search(name.lower()))
