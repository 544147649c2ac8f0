"""What makes a GPU of Windows available in WSL."""

from __future__ import annotations

# The update restarts WSL's one virtual machine, which all distributions share: to end one of them is not enough.
INSTALL_IN_WINDOWS = (
    "Install the NVIDIA driver in Windows (not inside WSL). Then run `wsl --update` in PowerShell, and `wsl --shutdown`, which "
    "ends every distribution with all that runs in it, Docker Desktop's too: save your work first."
)
