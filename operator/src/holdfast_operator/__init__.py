"""The Kubernetes operator of Holdfast: observe, plan without side effects, apply.

The distribution's directory is called `operator` and must never become a package itself: a package
of that name on the path would shadow the standard library's.
"""

__version__ = "0.1.0"
