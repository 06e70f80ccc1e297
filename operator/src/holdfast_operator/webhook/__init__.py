"""Validating admission: what CEL can't say is refused before it is kept.

It fails closed: a Cluster that nobody has looked at is not taken. `ValidatingWebhookConfiguration`
is the chart's; the certificates are the operator's own (`certificates.py`).
"""
