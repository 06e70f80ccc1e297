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

# --- wheels of the project itself; third-party ones are never built here. A member's is compiled
# (docs/adr/0034), unless --build-arg COMPILED=0 says otherwise; the operator's is Python alone. ----
FROM build AS wheels
ARG COMPILED=1
RUN [ "$COMPILED" = 0 ] || { headers=; \
        [ -f "$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')/Python.h" ] || headers=python3-dev; \
        apt-get update -qq && apt-get install -qq -y --no-install-recommends gcc libc6-dev $headers >/dev/null; }
COPY LICENSE ./
COPY node/ node/
COPY operator/ operator/
RUN cd node && HOLDFAST_COMPILED=$COMPILED /build/bin/python -m hatchling build -t wheel -d /wheels/node
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation -w /wheels/operator ./node ./operator

# --- the environments: first the pinned wheels, which change seldom, then our own -----------------
FROM build AS node-environment
RUN python3 -m venv --without-pip /opt/holdfast \
    && /build/bin/pip --python /opt/holdfast/bin/python install --quiet --require-hashes \
        --only-binary :all: --no-compile -r requirements/node.txt \
    && find /opt/holdfast -name tests -type d -prune -exec rm -rf {} + \
    && /opt/holdfast/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/holdfast/lib
COPY --from=wheels /wheels/node/ /wheels/
RUN /build/bin/pip --python /opt/holdfast/bin/python install --quiet --no-deps --no-index \
        --no-compile /wheels/*.whl \
    && /opt/holdfast/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/holdfast/lib

FROM build AS operator-environment
RUN python3 -m venv --without-pip /opt/holdfast \
    && /build/bin/pip --python /opt/holdfast/bin/python install --quiet --require-hashes \
        --only-binary :all: --no-compile -r requirements/operator.txt \
    && find /opt/holdfast -name tests -type d -prune -exec rm -rf {} + \
    && /opt/holdfast/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/holdfast/lib
COPY --from=wheels /wheels/operator/ /wheels/
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
