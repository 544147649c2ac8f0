"""Read ACME's sensor records: lines of numbers, separated by commas."""

from __future__ import annotations

from typing import Any

WIDTH = 16


def lines(count: int) -> list[str]:
    """Return that many records as text."""
    return [",".join(str(number * place % 97) for place in range(1, WIDTH + 1)) for number in range(count)]


def one_by_one(tf: Any, records: list[str]) -> Any:
    """Parse each record by itself."""
    dataset = tf.data.Dataset.from_tensor_slices(records)
    return dataset.map(lambda line: tf.strings.to_number(tf.strings.split(line, ","))).batch(len(records))


def in_batches(tf: Any, records: list[str]) -> Any:
    """Parse whole batches at a time."""
    dataset = tf.data.Dataset.from_tensor_slices(records).batch(len(records))
    return dataset.map(lambda batch: tf.io.decode_csv(batch, [[0.0]] * WIDTH)).map(
        lambda *columns: tf.stack(columns, 1)
    )
