"""The tests that wait for deadlines, signals or processes: `tools/measure_flaky.py` runs them again and again."""

from __future__ import annotations

# What waits for deadlines, signals or other processes: `tools/measure_flaky.py` runs these beside a busy process.
TIMED = {
    "accept/test_accept_command.py", "bench/test_children.py", "bench/test_command.py", "bench/test_multi_worker.py",
    "bench/test_pytest_plugin.py", "bench/test_real_trouble.py", "bench/test_run.py", "bench/test_telemetry.py",
    "fleet/test_emit_mpi.py",
    "fleet/test_emit_slurm.py", "fleet/test_run.py", "fleet/test_slurm_real.py", "host/test_processes.py", "host/test_watched.py",
    "render/test_size_and_speed.py", "collect/workers/test_gpu_health.py", "collect/workers/test_stress_programs.py",
    "collect/workers/test_sample_nvml.py", "rehearse/test_command.py", "fix/test_fix_command.py", "fix/test_killed.py",
    "ticket/test_ticket.py", "collect/test_broken_targets.py", "collect/test_examination.py", "collect/test_levels.py",
    "collect/test_stress_interrupted.py", "tracing/test_programs.py", "tracing/test_startup.py",
    "watching/test_program_signals.py", "watching/test_thread_states.py", "watching/test_gpu_signals.py",
    "watching/test_job_control.py", "watching/test_launched_program.py", "watching/test_watch_command.py", "host/test_streamed.py",
}  # fmt: skip
