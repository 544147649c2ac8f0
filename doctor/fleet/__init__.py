"""Many machines: the report of each node, and the comparison of all nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfgpu_doctor._exports import exported

if TYPE_CHECKING:
    from tfgpu_doctor.fleet.launched import HOSTS as HOSTS
    from tfgpu_doctor.fleet.launched import INDEX as INDEX
    from tfgpu_doctor.fleet.launched import SERVICE as SERVICE
    from tfgpu_doctor.fleet.launched import WORKERS as WORKERS
    from tfgpu_doctor.fleet.tf_config import Fault as Fault
    from tfgpu_doctor.fleet.tf_config import Seen as Seen
    from tfgpu_doctor.fleet.tf_config import TfConfig as TfConfig
    from tfgpu_doctor.fleet.tf_config import TfConfigError as TfConfigError
    from tfgpu_doctor.fleet.tf_config import derive as derive
    from tfgpu_doctor.fleet.tf_config import faults as faults
    from tfgpu_doctor.fleet.tf_config import faults_among as faults_among
    from tfgpu_doctor.fleet.tf_config import faults_here as faults_here

# What other features may use.
__getattr__ = exported(
    __name__,
    {
        "HOSTS": "launched",
        "INDEX": "launched",
        "SERVICE": "launched",
        "WORKERS": "launched",
        "Fault": "tf_config",
        "Seen": "tf_config",
        "TfConfig": "tf_config",
        "TfConfigError": "tf_config",
        "derive": "tf_config",
        "faults": "tf_config",
        "faults_among": "tf_config",
        "faults_here": "tf_config",
    },
)
