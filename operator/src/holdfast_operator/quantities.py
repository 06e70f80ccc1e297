"""Kubernetes' quantities: `1500m`, `8Gi`; equal numbers may be written in many ways."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

FACTORS: Final = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{unit: Decimal(1_000) ** (i + 1) for i, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Decimal(1_024) ** (i + 1) for i, unit in enumerate("KMGTPE")},
}
FORM: Final = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")


def number(text: str) -> Decimal | None:
    """The number; None if it is no quantity."""
    found = FORM.fullmatch(text)
    return None if found is None else Decimal(found[1]) * FACTORS[found[2] or ""]
