"""Decide which texts belong into the inventory, and which of them say that something failed."""

from __future__ import annotations

import re

_TOPIC = re.compile(
    r"gpu|cuda|cudnn|cublas|cusolver|cusparse|cufft|curand|cupti|nccl|nvml|nvrtc|nvjitlink|nvlink|nvidia|nvptx|\bptx"
    r"|cubin|libdevice"
    r"|tensorrt|\bxla\b|device memory|host memory|pinned memory|unified memory|out of memory|ran out of mem|\boom\b"
    r"|allocator"
    r"|(?:could not|couldn't|failed to|failure to|unable to|cannot|trying to) (?:re)?alloc|allocation (?:fail|of)"
    r"|bytes of memory"
    r"|streamexecutor|stream executor|memory growth|device placement|memcpy|memset|kernel driver|driver version"
    r"|\bdso\b|dlopen"
    r"|dynamic library|shared library|dynamically load|autotun|convolution algorithm|rendezvous|collective|all-?reduce"
    r"|all-?gather|reduce-?scatter|all-?to-?all|communicator\b|clique|(?:visible|physical|virtual|logical|pluggable) device"
    r"|peer access|numa node|(?:stream|event)s? (?:is|was|to|did|cannot|could|wait|callback|capture|execut)"
    r"|(?:on|the|stop|start|query|record|create|destroy) (?:stream|event)\b|kernel launch"
    r"|launch (?:kernel|dim|bound|fail|config)"
    r"|launch\w* .*kernel|mixed.?precision|float16|\bfp16|compute capability|\bDNN\b|\bBLAS\b|\bFFT\b|\bRNN\b"
    r"|tensor core|thunk"
    r"|triton|platform .*(?:register|not found|initializ)|device.?ordinal|device (?:id|number|index)|convolution plan"
    r"|no algorithm|execution plan|graph capture|command buffer|device (?:spec|name|type)|assign a device|soft.?placement"
    r"|distribut\w+ strategy|MirroredStrategy|replica context|device to host|host to device|device to device",
    re.IGNORECASE,
)
_FOREIGN = re.compile(  # compilers' and other projects' own texts, which users of a GPU do not get
    r"llvm::|mlir::|StringRef|_ZN|failed to satisfy constraint|failed to parse \w+ parameter|DictionaryAttr|set Properties"
    r"|property conversion|dialect|onednn|memref|tfl\b|tflite|\btfrt_|xnnpack|openmp|openacc|\bDIE\b|bitcode|\bTPU"
    r"|grpc|chand="
    r"|hlo\.|\bop '|'\w+\.\w+' op|requires (?:attribute|one |source|a? ?single)"
    r"|^ ?must be .*(?:tensor|integer|vector|memref)"
    r"|SP_\w+|PJRT_|PJ_RT|Pjrt|\bJAX\b|coordination.service|protobuf|--[a-z][\w-]+=|tensor of |llvm|ROCm|rocm|HIP\b"
    r"|MIOpen|AMDGPU"
    r"|amdgpu|SYCL|OpenCL|opencl|vulkan|spirv|SPIR-V|Metal\b|\bios\b|android|nnapi|GFX|parse the|castedOp|\bPHI\b"
    r"|\bpass\b.*:"
    r"|RNNT|MHLO_|_ObjectAttr|legaliz|lowering|\bIR\b|DWARF|\.cpp\b|operand|operator|attribute `|attr\b|intrinsic"
    r"|HloOpcode|HloInstruction|ShapeUtil|hlo->|instruction->|\bbuffer_assign|BufferAssign|sharding|SPMD|spmd|LRPC|XPlane"
    r"|Attempting to deserialize|docs\.|stablehlo|StableHLO|\bHLO\b|\bhlo\b|parameter .* of function|memory.?space"
    r"|kAlternate"
    r"|hwloc|pymalloc|%sprimitive|\w+_gpu\.\w|xegpu|XnnFusion|ORC\b|section memory|weak reference|DTENSOR|DCN|Dcn"
    r"|statepoint|ELF\b"
    r"|could not allocate \w+ (?:object|entry)|AtomicCode|sPLT|Triton\w+ to|profile annotation|logical processors"
    r"|\bSME\b|BPF"
    r"|DUCC|kiss fft|nvptx|NVPTX|Module has|allocate (?:heap|memory for (?:common|GOT|IFunc))|PyMem|Json::|X509|_ssl_"
    r"|curl_|aws-"
    r"|bucket|WebP|\bTpu|mesh\b|Mesh|Thunk(?:Proto|Kind|Emitter|Filter|FromProto)|ToProto|[Tt]hunk proto|TFG\b"
    r"|[SV]GPR|agpr|morestack"
    r"|stack probe|chunk: out of|DFA out|sCAL|Synthetic|[rR]egister alloc|CPU collectives|\bXNN|Xnn|cross program"
    r"|alternate memory"
    r"|LMHLO|[iI]nfeed|[oO]utfeed|physical packages|L\d[DI]? caches|of %u core|cpuiddump|TLS not|Buffer::"
    r"|cpp_function|\bjob/\w+ string"
    r"|logical device count|xla\.compile|castedOp|partitioner|Upgrades|Crashes the|Fails the|Lowers |Removes |Makes "
    r"|Reserve physical"
    r"|Transitional|Timeout in seconds (?:before|to)|flag to|must (?:not )?be used in conjunction"
    r"|name_\w+[A-Z]\w+ .{0,3}[A-Z]{2}"
    r"|tensor is not ranked|[a-z]{4}[A-Z]\w+[a-z]{3}[A-Z]\w+[a-z][A-Z]\w+[a-z][A-Z]\w{9}|nvgpu\.|WebGPU|TritonGPU"
    r"|DotOperand"
    r"|MPI comm|gpu\.\w|[Nn]ested tuples|PjRt|Tuple case|tuple case|could not allocate (?:between|xfer)"
    r"|Could not allocate (?:between|\w*ray)"
    r"|Allocate (?:buffer|target|unsized|non-Memref)|Cannot allocate (?:a|for|unsized|buffer)|SetProgram|xDS|TfrtGpu"
    r"|quant-|_gpuMul"
    r"|unable to (?:allocate function|open shared)|XLA:CPU|XLA CPU|GpuTargetConfigProto|InfoProto|ExecutableProto"
    r"|NVVM|linalg"
    r"|memattr|v1distance|xdg-open|Command must|CSRS|MKL-DNN|input reg for|name for the internal|implicit input arg"
    r"|tma desc"
    r"|failed_to_create|GetOutputMemoryKinds|BackendConfig from Any|cpu backend|CPU backend|DT_BFLOAT16 data type on CPU"
    r"|\.h5|savedmodel|SavedModel|checkpoint|tf\.data|snapshot|GCS|gcs|\bS3\b|hadoop|\bSQL|gfile|csv|jpeg|png|wav\b"
)
_WHOLE = ("nccl", "cuda-runtime")
_BY_TOPIC = ("tensorflow", "python", "cudnn", "cublas")  # of other packages, only the error codes are kept
_FOREIGN_IN_LIBRARIES = re.compile(
    r"llvm|LLVM|mlir|MLIR|\bIR\b|libunwind|libnvptxcompiler|[Dd]emangl|bitcode|DWARF|dialect|intrinsic|\boperand\b"
    r"|pybind|zlib|__host__|#\w|NVJet"
    r"|nvrtc: error|[Ee]pilogue|tactic|causal|Subquadratic|\[nvrtc|PTX (?:\.|with )|obfuscated|Blackwell|constructor"
    r"|CUDARTAPI|RRegs"
    r"|CublasLt has|cublasLt has|in cublasLt|double precision|extensible-whole|GEMM [a-z]|address space"
    r"|\w{12,}Allocation failed|guard-safe"
    r"|[^ ]Allocation failed|- ?location Alloc|gnn_ops|superMMA|split-K|artifact|MatrixInterp|DemandedBits|nanobind"
    r"|PyArray|reader$"
    r"|gain LUT|z_math|ptx_scan|data_type: |Group     Comms|color=|cfa_register"
    r"|lambda|template|%n|\w%t|Sanitizer|NVPTX|CASK|split compilation|gpu architecture '"
)
_HELP = re.compile(  # help of flags, documentation of operations
    r"^(?:If |When |Whether |Enable|Disable|Sets? |Controls? |Specif|Maximum |Limit|Allow|Dump|Path |Print|Option|Comma.sep"
    r"|Force |Number of |Threshold|Debug option|Experimental|\(?Default|Only |Extra |Internal |Size of|Note that |Note:|\* "
    r"|- |//|# |```)"
    r"|\(default|default is|by default|set to (?:true|false|0|1) to|^\s{2,}\S|`tf\.[a-z.]+`\.$"
    r"|^[a-z_]+: (?:A|The|An|If|Whether) "
    r"|^\s*(?:key|value|name|type|summary|description): \"|-> |=> |\);$|\{$"
    r"|^\s*(?:return|if|for|else|const|static|template|void) ?\("
)
_FAILURE = re.compile(
    r"\bfail(?:s|ed|ing|ure|ures)?\b|\bcould(?: not|n'?t)|\bcan(?:not|'t| not)\b|\bunable\b|\berror(?:s|ed)?\b|\binvalid\b"
    r"|not found|no .{1,30} found|\bmissing\b|\bunsupported\b|not supported"
    r"|(?:doesn't|does not|don't|do not|isn't|is not) support"
    r"|mismatch|\bexceed|insufficient|out of memory|\bran out\b|\babort|\bmust\b|not (?:be )?available|unavailable"
    r"|not (?:been |yet )?(?:initialized|implemented|compiled|built|loaded|allowed|permitted|registered|enough|linked|enabled)"
    r"|too (?:many|old|large|small|few|big|long)|unexpected|\bunknown\b|\bunrecognized|timed? ?out|deadlock|\bstuck\b"
    r"|corrupt"
    r"|\billegal\b|no such|does(?: not|n't) (?:exist|match|have)|incompatible|\bbad\b|\bbug\b|(?:not|n't) match|is lost"
    r"|\bno (?:gpu|device|cuda|supported|valid|algorithm|working)|refused|denied|unhandled|violat|\bhang|\bbusy\b|leaks?\b"
    r"|overflow|crash|fatal|wasn't|undefined|misaligned|uncorrectable|already (?:in use|exists|been)|Check failed",
    re.IGNORECASE,
)
_NO_SENTENCE = re.compile(
    r"^[^a-z]*$|^\S+$|[{}<>\\$~^]{3}|[A-Za-z_]\w*\(\w+ \*?\w+(?:, \w+ \*?\w+)+\)|\w+<\w+(?:, [\w:]+)+>|\w::\w+<"
)


def is_failure(text: str) -> bool:
    """Return whether a text says that something failed."""
    return _FAILURE.search(text) is not None


def belongs(text: str, where: str) -> bool:
    """Return whether a text can be printed and concerns the GPU. All sentences of _WHOLE do."""
    if _NO_SENTENCE.search(text) or _HELP.search(text) or len(text.split()) < 2:
        return False
    if where not in _BY_TOPIC or _FOREIGN_IN_LIBRARIES.search(text):
        return where in _WHOLE and _FOREIGN_IN_LIBRARIES.search(text) is None
    return _TOPIC.search(text) is not None and _FOREIGN.search(text) is None
