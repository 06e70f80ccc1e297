# Two images from one file:
#
#   docker build  --target node     -t holdfast:0.1.0 .
#   buildah build --target operator -t holdfast-operator:0.1.0 --build-arg BASE=localhost/python:3.11 .
#
# Wheels are made in a stage of their own; what ships has a Python, the pinned wheels, and nothing
# that builds: no compiler, no pip, no shell script of ours. It runs as a user without rights, on a
# root file system that nothing is written to.

ARG BASE=docker.io/library/python:3.11-slim-bookworm

# --- what builds; it does not ship ------------------------------------------------------------------
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /src
COPY requirements/ requirements/
RUN python3 -m venv /build \
    && /build/bin/pip install --quiet --require-hashes --only-binary :all: -r requirements/build.txt

# --- wheels of the project itself; third-party ones are never built here -------------------------
FROM build AS wheels
COPY LICENSE ./
COPY node/ node/
COPY operator/ operator/
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation -w /wheels ./node ./operator

# --- the environments: first the pinned wheels, which change seldom, then our own -----------------
FROM build AS node-environment
RUN python3 -m venv --without-pip /opt/holdfast \
    && /build/bin/pip --python /opt/holdfast/bin/python install --quiet --require-hashes \
        --only-binary :all: --no-compile -r requirements/node.txt \
    && find /opt/holdfast -name tests -type d -prune -exec rm -rf {} + \
    && /opt/holdfast/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/holdfast/lib
COPY --from=wheels /wheels/holdfast-*.whl /wheels/
RUN /build/bin/pip --python /opt/holdfast/bin/python install --quiet --no-deps --no-index \
        --no-compile /wheels/*.whl \
    && /opt/holdfast/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/holdfast/lib

FROM build AS operator-environment
RUN python3 -m venv --without-pip /opt/holdfast \
    && /build/bin/pip --python /opt/holdfast/bin/python install --quiet --require-hashes \
        --only-binary :all: --no-compile -r requirements/operator.txt \
    && find /opt/holdfast -name tests -type d -prune -exec rm -rf {} + \
    && /opt/holdfast/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/holdfast/lib
COPY --from=wheels /wheels/holdfast-*.whl /wheels/holdfast_operator-*.whl /wheels/
RUN /build/bin/pip --python /opt/holdfast/bin/python install --quiet --no-deps --no-index \
        --no-compile /wheels/*.whl \
    && /opt/holdfast/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/holdfast/lib

# --- what runs ------------------------------------------------------------------------------------
FROM ${BASE} AS runtime
ENV PATH=/opt/holdfast/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
LABEL org.opencontainers.image.title="Holdfast" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
WORKDIR /tmp
USER 10001:10001

FROM runtime AS node
LABEL org.opencontainers.image.description="A member of a Holdfast grid"
COPY --from=node-environment /opt/holdfast /opt/holdfast
EXPOSE 6379 7379 7380 8080
ENTRYPOINT ["holdfast"]
CMD ["member"]

FROM runtime AS operator
LABEL org.opencontainers.image.description="The Kubernetes operator of Holdfast"
COPY --from=operator-environment /opt/holdfast /opt/holdfast
EXPOSE 8081 9443
ENTRYPOINT ["holdfast-operator"]
