"""How close a variant's first output is to the reference's."""
import math

import numpy as np


def sqnr_db(reference, output, keep=None):
    """10 log10(sum reference^2 / sum error^2) over all samples; keep: which positions count, or all.

    reference, output: [samples, ...]. 300 for equal arrays, -inf for an output that is not finite.
    """
    reference, error = reference.astype(np.float64), output.astype(np.float64) - reference
    if keep is not None:
        reference, error = reference[keep], error[keep]
    if not np.isfinite(error).all():
        return -math.inf
    return float(10 * np.log10(max((reference ** 2).sum(), 1e-30) / max((error ** 2).sum(), 1e-30 * max((reference ** 2).sum(), 1))))


def task(model, reference, output, keep=None):
    """What the SQNR means for the task, with its name: agreement of argmax, IoU of the text masks, or worst cosine."""
    if model.mask is not None:
        pooled = [(r[k].mean(0), o[k].mean(0)) for r, o, k in zip(reference, output, keep)]
        return 'worst cosine of mean-pooled vectors', min(cosine(r, o) for r, o in pooled)
    if model.name == 'ocr_det':
        a, b = reference > 0.3, output > 0.3
        return 'IoU of text masks', float((a & b).sum() / max((a | b).sum(), 1))
    if model.kind == 'transformer' and reference.ndim > 2:
        return 'worst cosine', min(cosine(r.ravel(), o.ravel()) for r, o in zip(reference, output))
    return 'argmax agreement', float((reference.argmax(-1) == output.argmax(-1)).mean())


def cosine(a, b):
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(a @ b / max(np.sqrt((a @ a) * (b @ b)), 1e-30))
