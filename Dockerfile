# Image of the service: serving dependencies only, not root, with the checkpoints that ship.
#
#   docker build --tag headlight .
#   docker build --build-arg TORCH=none --tag headlight .               # small, without derivatives
#   docker build --build-arg TORCH_INDEX_URL= --tag headlight:cuda .    # torch for NVIDIA GPUs
#   docker build --build-arg EXTRA="signing otel" --tag headlight .     # with signed checkpoints and traces
#
# pip uses fitting wheels from a folder wheels/ beside this file instead of downloading them.

ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_FIND_LINKS=/build \
    PIP_NO_CACHE_DIR=1 \
    PIP_ONLY_BINARY=:all: \
    PIP_PYTHON=/opt/venv/bin/python \
    PIP_REQUIRE_HASHES=1
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
WORKDIR /build
# pip stays out of the environment that is copied to the final image.
RUN python -m venv --without-pip /opt/venv
COPY requirements wheels* ./
# Only torch comes from the index of CPU builds. Every file must have a hash of the lock, so no index
# can slip in another, and no other build is taken if that index does not answer.
ARG TORCH=
ARG TORCH_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN if [ "${TORCH}" = none ]; then \
      echo "without torch"; \
    elif [ -n "${TORCH_INDEX_URL}" ]; then \
      pip install --no-compile --no-deps --retries 1 --timeout 15 --index-url "${TORCH_INDEX_URL}" --requirement torch-cpu.lock; \
    else \
      pip install --no-compile --no-deps --requirement torch-cuda.lock; \
    fi
# Any of: signing (HEADLIGHT_CHECKPOINT_KEY), otel (traces), hub (checkpoints by their names on the hub).
ARG EXTRA=
RUN if [ "${TORCH}" = none ]; then needs=; else needs=torch-needs; fi && \
    for name in serve ${needs} ${EXTRA}; do echo "--requirement ${name}.lock"; done >wanted.lock && \
    pip install --no-compile --no-deps --requirement wanted.lock && pip check
# Serving never reads headers for compilers and the tests of packages.
WORKDIR /opt/venv/lib
RUN if [ "${TORCH}" != none ]; then \
      find python3*/site-packages/torch/bin -mindepth 1 ! -name torch_shm_manager -delete && \
      rm -r python3*/site-packages/torch/include python3*/site-packages/torch/share python3*/site-packages/torch/test; \
    fi && \
    find . -type d -name tests -prune -exec rm -r {} +
# The project lies in another folder, so that images of two versions share this layer.
RUN echo /opt/headlight >"$(/opt/venv/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/headlight.pth"

FROM packages AS project
# The compiler stays out of the image. Its version is that of the base image's distribution.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /build
ENV PIP_REQUIRE_HASHES=
COPY LICENSE README.md pyproject.toml setup.py ./
COPY model model
COPY service service
# The training command needs packages that are not installed here.
# Built by a setuptools that has a hash, and not by one that pip would fetch.
ARG TORCH=
RUN pip install --require-hashes --no-compile --no-deps --requirement build.lock && \
    HEADLIGHT_TORCH="${TORCH}" pip install --no-build-isolation --no-compile --no-deps --target /opt/headlight . && \
    rm /opt/headlight/bin/headlight-train && ls /opt/headlight/model/backends/_kernels.so
# SageMaker runs an image with the word `serve`, and asks on port 8080.
# hadolint ignore=SC2016
RUN printf '#!/bin/sh\nHEADLIGHT_PORT=${HEADLIGHT_PORT:-8080} exec headlight-serve "$@"\n' >/opt/headlight/bin/serve && \
    chmod 755 /opt/headlight/bin/serve
WORKDIR /app
COPY deploy/healthcheck.py ./
COPY checkpoints checkpoints
# The second checkpoint stays out of a small image.
RUN if [ "${TORCH}" = none ]; then rm -r checkpoints/two-classes; fi
# Proves that the image works, and compiles exactly the modules that serving imports.
ENV PYTHONPYCACHEPREFIX=/opt/bytecode
RUN /opt/headlight/bin/headlight-serve --help >/dev/null && /opt/venv/bin/python -c "import os, pathlib, model; \
      found = [model.open_checkpoint(file.parent) for file in pathlib.Path('checkpoints').glob('*/config.json')]; \
      loaded = [model.load_predictor(one, device='cpu', dtype='float32') for one in found]; \
      paths = ['fused', 'explicit'] + ['gradient'] * (os.environ.get('TORCH') != 'none'); \
      [one.probe(path) for one in loaded for path in paths]"
# File modes of the build machine must not matter.
RUN chmod -R a+rX /app

# The list of all packages above, made by a tool that stays out of the image.
FROM project AS sbom
ENV PIP_PYTHON=/opt/sbom/bin/python \
    PIP_REQUIRE_HASHES=1
WORKDIR /build
RUN python -m venv --without-pip /opt/sbom && \
    pip install --no-compile --no-deps --requirement sbom.lock && \
    /opt/sbom/bin/cyclonedx-py environment --output-reproducible --of JSON --output-file sbom.cdx.json /opt/venv/bin/python

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="Headlight" \
      org.opencontainers.image.description="A small sentiment service that shows its work" \
      org.opencontainers.image.licenses="Apache-2.0" \
      headlight.sbom="/usr/share/doc/headlight/sbom.cdx.json"
# OpenBLAS would start one unused thread for each core of the host.
ENV PATH=/opt/headlight/bin:/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPYCACHEPREFIX=/opt/bytecode \
    PYTHONUNBUFFERED=1 \
    OPENBLAS_NUM_THREADS=1 \
    HEADLIGHT_HOST=0.0.0.0
RUN groupadd --gid 10001 headlight && \
    useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin headlight
WORKDIR /app
COPY --from=packages /opt/venv /opt/venv
COPY --from=project /app /app
COPY --from=project /opt/bytecode /opt/bytecode
COPY --from=project /opt/headlight /opt/headlight
COPY --from=sbom /build/sbom.cdx.json /usr/share/doc/headlight/
# What a release says of itself. These stand late, so that they change no layer.
ARG VERSION=
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}"
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=120s --retries=3 \
  CMD ["python", "-E", "-S", "/app/healthcheck.py"]
CMD ["headlight-serve"]
