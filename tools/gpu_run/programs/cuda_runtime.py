"""The CUDA runtime and cuBLAS through ctypes: the products and copies of these libraries, without TensorFlow around them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3
_BF16, _COMPUTE_32F, _DEFAULT_ALGORITHM = 14, 68, -1  # CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT


class CudaError(Exception):
    """A call that failed: its name and code."""


def library(name: str) -> ctypes.CDLL:
    """The library that this process has loaded already, else that which the loader finds."""
    with open("/proc/self/maps") as maps:
        loaded = [line.split(maxsplit=5)[5].strip() for line in maps if f"/{name}" in line]
    try:
        return ctypes.CDLL(loaded[0] if loaded else name)
    except OSError as error:
        raise CudaError(f"{name} cannot be opened: {error}") from error


def checked(code: int, what: str) -> None:
    """Raise CudaError if a call returned a code."""
    if code:
        raise CudaError(f"{what} returned {code}")


class Runtime:
    """The CUDA runtime on the first GPU."""

    def __init__(self) -> None:
        self.library = library("libcudart.so.12")
        checked(self.library.cudaSetDevice(0), "cudaSetDevice")

    def allocate(self, size_bytes: int) -> ctypes.c_void_p:
        """Memory of the GPU."""
        pointer = ctypes.c_void_p()
        checked(self.library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size_bytes)), "cudaMalloc")
        return pointer

    def upload(self, array: Any) -> ctypes.c_void_p:
        """The content of a NumPy array, on the GPU."""
        pointer, size = self.allocate(array.nbytes), ctypes.c_size_t(array.nbytes)
        source = ctypes.c_void_p(array.ctypes.data)
        checked(self.library.cudaMemcpy(pointer, source, size, HOST_TO_DEVICE), "cudaMemcpy")
        return pointer

    def download(self, array: Any, source: ctypes.c_void_p) -> None:
        """Fill a NumPy array from the GPU."""
        target, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        checked(self.library.cudaMemcpy(target, source, size, DEVICE_TO_HOST), "cudaMemcpy")

    def copy(self, target: ctypes.c_void_p, source: ctypes.c_void_p, size_bytes: int) -> None:
        """Begin a copy within the GPU."""
        size, stream = ctypes.c_size_t(size_bytes), ctypes.c_void_p()
        checked(self.library.cudaMemcpyAsync(target, source, size, DEVICE_TO_DEVICE, stream), "cudaMemcpyAsync")

    def seconds(self, work: Callable[[], None], times: int) -> float:
        """The seconds of one call of `times` in a row, between two events."""
        first, last, took_ms = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (first, last):
            checked(self.library.cudaEventCreate(ctypes.byref(event)), "cudaEventCreate")
        checked(self.library.cudaEventRecord(first, ctypes.c_void_p()), "cudaEventRecord")
        for _ in range(times):
            work()
        checked(self.library.cudaEventRecord(last, ctypes.c_void_p()), "cudaEventRecord")
        checked(self.library.cudaEventSynchronize(last), "cudaEventSynchronize")
        checked(self.library.cudaEventElapsedTime(ctypes.byref(took_ms), first, last), "cudaEventElapsedTime")
        return took_ms.value / 1000 / times


class Product:
    """A square product in bfloat16, summed in float32, by cublasGemmEx."""

    def __init__(self, runtime: Runtime, one: Any, other: Any) -> None:
        self._cublas, self._handle = library("libcublas.so.12"), ctypes.c_void_p()
        checked(self._cublas.cublasCreate_v2(ctypes.byref(self._handle)), "cublasCreate")
        self._side = len(one)
        self._one, self._other, self.result = runtime.upload(one), runtime.upload(other), runtime.allocate(one.nbytes)

    def __call__(self) -> None:
        """Begin the product. cuBLAS counts by columns: other times one there is one times other by rows."""
        alpha, beta, side = ctypes.c_float(1), ctypes.c_float(0), self._side
        code = self._cublas.cublasGemmEx(
            self._handle, 0, 0, side, side, side, ctypes.byref(alpha), self._other, _BF16, side, self._one, _BF16, side,
            ctypes.byref(beta), self.result, _BF16, side, _COMPUTE_32F, _DEFAULT_ALGORITHM,
        )  # fmt: skip
        checked(code, "cublasGemmEx")
