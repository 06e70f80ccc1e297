"""What carries plans out: watching, observing, applying, asking, serving. It decides nothing.

kopf's watches ─► cache ─┐
members over HTTP ───────┴─► observe ─► plan (pure) ─► apply, ask ─► status
"""
