"""The HTTP port of a member: control, single keys, probes, metrics (`design/4`, "HTTP").

    server ─► front ─┬─► probes, metrics          raw ASGI: asked often, cheap
                     └─► app (FastAPI, /docs) ─► routes ─► ports.MemberPort ─► the core
                                                   └─► peers: other members' own word

Nothing is decided here: the core refuses and judges (`core.requests`, `core.observing`), this
translates. Every error is a problem document (RFC 9457).
"""
