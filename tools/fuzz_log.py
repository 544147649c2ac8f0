"""Fuzz the log reader: atheris mutates bytes, guided by code coverage.

    pip install atheris
    python tools/fuzz_log.py -max_total_time=600 [FOLDER]     # libFuzzer's options; FOLDER keeps what reaches new code

Whatever a log contains, it is read to the end, every hit is in one of its lines, and the text of the report cannot
control a terminal. A log that violates this is written to crash-*: minimize it, and add a test with it.
"""

from __future__ import annotations

import io
import pathlib
import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["tfgpu_doctor"]):
    import msgspec

    from tfgpu_doctor.knowledge import read_knowledge
    from tfgpu_doctor.log.classification import classify
    from tfgpu_doctor.log.context import Context
    from tfgpu_doctor.log.page import render_log
    from tfgpu_doctor.log.signatures import Scanner

KNOWLEDGE = read_knowledge()
SEEDS = [row.example.encode() for row in KNOWLEDGE.log_signatures]


def read(log: bytes) -> None:
    """Read a log as the command does, and verify that the result is consistent."""
    scanner = Scanner(KNOWLEDGE.log_signatures)
    scanner.scan(io.BytesIO(log))
    for found in scanner.found.values():
        assert found.count >= len(found.hits) >= 1
        assert all(1 <= hit.line <= scanner.lines for hit in found.hits)
    report = classify(scanner.found, Context({}), KNOWLEDGE, scanner.lines, scanner.kept.texts())
    page = render_log(report)
    assert all(char.isprintable() or char == "\n" for char in page)
    assert msgspec.json.decode(msgspec.json.encode(report))["lines"] == scanner.lines


def main() -> None:
    """Start from the examples of the signatures, alone and in the formats of real logs."""
    with tempfile.TemporaryDirectory() as folder:
        for place, seed in enumerate(SEEDS):
            pathlib.Path(folder, f"{place}").write_bytes(seed)
            pathlib.Path(folder, f"{place}-wide").write_bytes(seed.decode().encode("utf-16"))
            pathlib.Path(folder, f"{place}-pair").write_bytes(b'{"log": "' + seed + b'\\n"}\r\n' + SEEDS[place - 1])
        words = "".join(
            '"' + "".join(f"\\x{byte:02x}" for byte in gate.encode()) + '"\n'
            for row in KNOWLEDGE.log_signatures
            for gate in row.gate.split("|")
        )
        pathlib.Path(folder + ".words").write_text(words)
        try:
            atheris.Setup([*sys.argv, f"-dict={folder}.words", "-max_len=20000", folder], read)
            atheris.Fuzz()
        finally:
            pathlib.Path(folder + ".words").unlink()


if __name__ == "__main__":
    main()
