"""The fact of the operator of this machine: a hosted notebook, a cloud's virtual machine, a Jetson."""

from __future__ import annotations

from tfgpu_doctor.model.facts.attempt import Fact
from tfgpu_doctor.model.redaction import ModelName, Text, Version


class Hosting(Fact, frozen=True):
    """Indicators of the machine's operator; empty if there are none."""

    service: Text = ""  # "Google Colab", the name in the table of services
    evidence: tuple[Text, ...] = ()
    vendor: Text = ""  # from the firmware: "Amazon EC2", "Google", "Microsoft Corporation", "Dell Inc."
    product: ModelName = ""  # "g4dn.xlarge", "Google Compute Engine", "PowerEdge R750xa"
    l4t: Version = ""  # Jetson Linux, "36.4.0"
    jetpack: Version = ""  # "6.1+b123", if it was installed as a package
