"""All machines of the lab."""

from __future__ import annotations

from lab.broken_containers import CONTAINERS
from lab.broken_drivers import DRIVERS
from lab.broken_gpus import GPUS
from lab.broken_health import HEALTH
from lab.broken_libraries import LIBRARIES
from lab.healthy import HEALTHY
from lab.hung import HUNG
from lab.shadowed import SHADOWED

MACHINES = (*DRIVERS, *CONTAINERS, *LIBRARIES, *GPUS, *HEALTH, *HUNG, *SHADOWED, *HEALTHY)
