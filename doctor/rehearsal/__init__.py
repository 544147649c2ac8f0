"""A rehearsal: the target's real TensorFlow against a simulated driver, on a machine that has no GPU."""

MACHINE_VARIABLE = "TFGPU_DOCTOR_MACHINE"  # names the file that the simulated driver reads its machine from
