"""The objects that a Cluster consists of: one kind a file, pure functions from values to objects.

They say what is to be, all of it, every time; what was there before is no argument, but where
Kubernetes allows no change (claim templates).
"""
