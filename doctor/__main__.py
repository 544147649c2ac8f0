"""`python -m tfgpu_doctor` is the command `tfgpu-doctor`."""

import sys

if not getattr(sys.flags, "safe_path", False):
    # With -m Python puts the working folder first: an inspect.py of the user's would break the doctor that is to find it.
    del sys.path[0]

from tfgpu_doctor.cli.entry import main

main()
