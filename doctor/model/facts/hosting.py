"""The fact of whose machine this is: a hosted notebook, a cloud's virtual machine, a Jetson."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact


class Hosting(Fact, frozen=True):
    """Marks of who runs the machine; empty where there is none."""

    service: str = ""  # "Google Colab", as the table of services names it
    evidence: tuple[str, ...] = ()
    vendor: str = ""  # as the firmware says: "Amazon EC2", "Google", "Microsoft Corporation", "Dell Inc."
    product: str = ""  # "g4dn.xlarge", "Google Compute Engine", "PowerEdge R750xa"
    l4t: str = ""  # Jetson Linux, "36.4.0"
    jetpack: str = ""  # "6.1+b123", where it was installed as a package
