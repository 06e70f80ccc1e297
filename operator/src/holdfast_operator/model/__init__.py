"""The resources as types: what users declare, and what the operator answers in their status.

The definitions that Kubernetes is given (`crds/`) are generated from here (`crds.py`), so that what
is documented, what is refused and what is read are one thing. A rule that CEL can say stands beside
its type, with its sentence; the others stand in `validation.py`.
"""
