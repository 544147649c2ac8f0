"""What CUPTI writes into a profile of a GPU, made up: streams, kernels, copies, and the calls of the driver on the host.

Names and statistics: https://github.com/openxla/xla/blob/main/xla/backends/profiler/gpu/cupti_collector.cc
"""

from __future__ import annotations

from made_trace import MadeEvent, MadeLine, MadePlane, Ref, Stat

STEP_MS, STEPS = 20.0, 13
SGEMM = "ampere_sgemm_128x64_tn"
HALF_GEMM = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn"
TF32_GEMM = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_kernel"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
FUSION = "loop_multiply_fusion_12"


def each_step(name: str, at_ms: float, duration_ms: float, *, every: int = 1, **stats: Stat) -> list[MadeEvent]:
    """An event in each step, or in each second one and so on."""
    return [
        MadeEvent(name, step * STEP_MS + at_ms, duration_ms, dict(stats)) for step in range(0, STEPS, every)
    ]  # fmt: skip


def kernel(name: str, at_ms: float, duration_ms: float, *, every: int = 1) -> list[MadeEvent]:
    """A kernel as XLA starts it: no shapes of tensors."""
    details = Ref("regs:64 static_shared:0 dynamic_shared:49152 grid:64,1,1 block:256,1,1 occ_pct:25")
    return each_step(name, at_ms, duration_ms, every=every, context_id="$$1", kernel_details=details)


def copy(kind: str, at_ms: float, duration_ms: float, *, host: str = "pinned", sync: bool = False) -> list[MadeEvent]:
    """A copy: MemcpyH2D, MemcpyD2H, MemcpyD2D; `host` is the memory at the host's end."""
    ends = {"MemcpyH2D": (host, "device"), "MemcpyD2H": ("device", host)}.get(kind, ("device", "device"))
    words = f"kind_src:{ends[0]} kind_dst:{ends[1]} size:4194304 dest:0 async:{int(not sync)}"
    return each_step(kind, at_ms, duration_ms, context_id="$$1", memcpy_details=Ref(words))


def gpu(*streams: list[MadeEvent], number: int = 0, capability: tuple[int, int] = (8, 0)) -> MadePlane:
    """A GPU's plane; a stream is named by its number and by what runs on it."""
    lines = [MadeLine(f"Stream #{14 + at}(Compute)", events) for at, events in enumerate(streams)]
    stats: dict[str, Stat] = {
        "device_vendor": "Nvidia", "core_count": 108, "memory_size": 42_505_273_344,
        "compute_cap_major": capability[0], "compute_cap_minor": capability[1],
    }  # fmt: skip
    return MadePlane(f"/device:GPU:{number}", lines, stats)


def host(
    call_ms: float = 2.0, *more: list[MadeEvent], worker: list[MadeEvent] | None = None, thread: str = "tf_Compute/7"
) -> list[MadePlane]:
    """A program that calls its step for so long, and does nothing else in Python but `more`."""
    python = MadeLine("python", number=1)
    calls = {"tf_function_call": Ref("notTraced-nonXla")}
    for step in range(STEPS):
        at = step * STEP_MS
        python.events += [
            MadeEvent("train_step", at, call_ms, dict(calls)),
            MadeEvent("EagerLocalExecute: __inference_train_step_106", at + 0.05, call_ms - 0.1),
            MadeEvent("FunctionRun", at + 0.1, call_ms - 0.2, {"id": 1000 + step}),
        ]
    for events in more:
        python.events += events
    runs = [
        MadeEvent("ExecutorState::Process", step * STEP_MS + 0.15, call_ms - 0.3, {"id": 1000 + step})
        for step in range(STEPS)
    ]
    return [MadePlane("/host:CPU", [python, MadeLine(thread, [*runs, *(worker or [])], number=2)])]
