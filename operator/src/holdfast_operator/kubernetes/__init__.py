"""Kubernetes' API: the few verbs that are needed, over httpx, with errors of our own.

kopf watches; this writes. A general client would bring a thousand modules for six verbs, and knows
server-side apply as bytes only.
"""
