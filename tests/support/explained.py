"""Explanations of packed operands."""

import tilewright as tw


def stored(rows, columns, dtype, letter):
    return tw.spec((rows, columns), dtype, (columns, 1) if letter == "n" else (1, rows))


def explained(m, n, k, dtype="bf16", layout="nt", gpu="H200", **options):
    return tw.explain(stored(m, k, dtype, layout[0]), stored(k, n, dtype, layout[1]), gpu=gpu, **options)
