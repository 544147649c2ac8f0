"""Read the names of error codes out of NVIDIA's headers and Python bindings."""

from __future__ import annotations

import pathlib
import re
import zipfile

_FAMILIES = {  # the file that defines the codes, and what their names look like
    "cuda.h": r"CUDA_ERROR_\w+",
    "driver_types.h": r"cudaError[A-Z]\w+",
    "cublas_api.h": r"CUBLAS_STATUS_\w+",
    "cudnn.h": r"CUDNN_STATUS_\w+",
    "cudnn_graph.h": r"CUDNN_STATUS_\w+",
    "cudnn_ops_infer.h": r"CUDNN_STATUS_\w+",
    "cufft.h": r"CUFFT_(?!SUCCESS|[A-Z]2[A-Z]\b|COMPATIBILITY|CALLBACK|CB_|FORWARD|INVERSE)[A-Z_0-9]+",
    "cusolver_common.h": r"CUSOLVER_STATUS_\w+",
    "cusparse.h": r"CUSPARSE_STATUS_\w+",
    "curand.h": r"CURAND_STATUS_\w+",
    "nvrtc.h": r"NVRTC_ERROR_\w+",
    "nvJitLink.h": r"NVJITLINK_ERROR_\w+",
    "cupti_result.h": r"CUPTI_ERROR_(?!FORCE_INT)\w+",
    "nccl.h": r"nccl(?:\w+Error|Invalid\w+|InProgress|Timeout)",
    "pynvml.py": r"NVML_ERROR_\w+",
}


def read_codes(wheel: pathlib.Path) -> set[str]:
    """Return the names of the error codes that a wheel's headers define; names of success are left out."""
    found: set[str] = set()
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            if names := _FAMILIES.get(pathlib.PurePosixPath(member).name):
                text = archive.read(member).decode("utf-8", "replace")
                found.update(re.findall(rf"^\s*({names})\s*[=,]", text, re.MULTILINE))
    return {each for each in found if not each.endswith("_SUCCESS")}
