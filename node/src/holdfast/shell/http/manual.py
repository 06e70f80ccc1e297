"""`/docs`: the OpenAPI document as a page for people, made here, in one piece.

A page that loads its script from somewhere else is blank where members run without a way out, and
lets somebody else run code in the browser of whoever may change the cluster. So nothing is loaded
at all: no script, no font, no picture, and the page forbids the browser to try.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What the browser may load: nothing."""
METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
SCHEMAS: Final = "#/components/schemas/"
STYLE: Final = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em }
h1 small { font-size: 50%; opacity: .7 } h2 { margin-top: 2em; border-bottom: 1px solid #8886 }
h3 { font: 600 15px ui-monospace, monospace; margin: 1.6em 0 .3em }
h3 b { display: inline-block; min-width: 5em }
table { border-collapse: collapse; margin: .4em 0 .4em 1em }
td { padding: .1em 1em .1em 0; vertical-align: top } code { font-family: ui-monospace, monospace }
"""

Document = Mapping[str, Any]


def page(document: Document) -> str:
    """The whole page."""
    about = document["info"]
    parts = [
        f"<h1>{escape(about['title'])} <small>{escape(about['version'])}</small></h1>",
        *_paragraphs(about.get("description", "")),
        '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>',
    ]
    for tag, operations in _by_tag(document).items():
        parts.append(f"<h2>{escape(tag)}</h2>")
        for path, method, operation in operations:
            parts += _operation(path, method, operation)
    parts.append("<h2>schemas</h2>")
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        parts += _schema(name, schema)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(about['title'])}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>"
    )


def _by_tag(document: Document) -> dict[str, list[tuple[str, str, Document]]]:
    """Path, method and operation, by the first tag, in the document's order."""
    found: dict[str, list[tuple[str, str, Document]]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                tag = next(iter(item[method].get("tags", ())), "other")
                found.setdefault(tag, []).append((path, method, item[method]))
    return found


def _operation(path: str, method: str, operation: Document) -> Iterator[str]:
    yield f"<h3><b>{method.upper()}</b>{escape(path)}</h3>"
    yield from _paragraphs(operation.get("description") or operation.get("summary", ""))
    rows = [
        (each["name"], each["in"], each.get("description", ""))
        for each in operation.get("parameters", ())
    ]
    body = operation.get("requestBody")
    if body is not None:
        rows.append(("body", _content(body), body.get("description", "")))
    rows += [
        (status, _content(answer), answer.get("description", ""))
        for status, answer in operation.get("responses", {}).items()
    ]
    yield from _table(rows)


def _content(part: Document) -> str:
    """The media types of a body, and their schemas where these have a name."""
    return ", ".join(
        f"{media} {_type(about.get('schema', {}))}".strip()
        for media, about in part.get("content", {}).items()
    )


def _schema(name: str, schema: Document) -> Iterator[str]:
    yield f'<h3 id="{escape(name)}">{escape(name)}</h3>'
    yield from _paragraphs(schema.get("description", ""))
    yield from _table(
        [
            (field, _type(about), about.get("description", ""))
            for field, about in schema.get("properties", {}).items()
        ]
    )


def _type(schema: Document) -> str:
    """What a value is, in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(SCHEMAS)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(filter(None, map(_type, schema[word])))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "")


def _table(rows: list[tuple[str, str, str]]) -> Iterator[str]:
    if rows:
        yield "<table>"
        for name, kind, text in rows:
            yield (
                f"<tr><td><code>{escape(name)}</code></td><td>{escape(kind)}</td>"
                f"<td>{escape(text)}</td></tr>"
            )
        yield "</table>"


def _paragraphs(text: str) -> Iterator[str]:
    for part in text.strip().split("\n\n"):
        if part:
            yield f"<p>{escape(part)}</p>"
