"""The fact of whose machine this is: a hosted notebook, a cloud's virtual machine, a Jetson."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import ModelName, Text, Version


class Hosting(Fact, frozen=True):
    """Marks of who runs the machine; empty where there is none."""

    service: Text = ""  # "Google Colab", as the table of services names it
    evidence: tuple[Text, ...] = ()
    vendor: Text = ""  # as the firmware says: "Amazon EC2", "Google", "Microsoft Corporation", "Dell Inc."
    product: ModelName = ""  # "g4dn.xlarge", "Google Compute Engine", "PowerEdge R750xa"
    l4t: Version = ""  # Jetson Linux, "36.4.0"
    jetpack: Version = ""  # "6.1+b123", where it was installed as a package
