# Two images: `api` answers requests and solves checks, without torch; `worker` plans, profiles and runs on a CPU host.
#
#   docker build --target api -t emplace-api .
#   docker build --target worker -t emplace-worker .
#
# deploy/compose.yaml and deploy/kubernetes.yaml put them together. One container with everything, on the loopback address:
#   docker run --rm --network host -v emplace:/var/lib/emplace emplace-worker serve
#
# pip's default torch is the CUDA build (several GB). For the CPU build, point pip at a wheel index that carries it:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=... --target worker -t emplace-worker .

FROM python:3.11-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
RUN python -m venv /opt/emplace
ENV PATH=/opt/emplace/bin:$PATH
WORKDIR /src
COPY requirements requirements
COPY pyproject.toml setup.py README.md LICENSE ./
COPY placement placement
COPY solver solver
COPY profiler profiler
COPY executor executor
COPY hardware hardware
COPY runtime runtime
COPY studies studies
COPY app app
COPY migrations migrations
COPY emplace emplace
RUN pip install --constraint requirements/constraints.txt '.[serve,traces]'

FROM build AS build-worker
ARG PIP_EXTRA_INDEX_URL
RUN pip install --constraint requirements/constraints.txt torch \
    && pip install --constraint requirements/constraints.txt '.[execute]' \
    && pip install --constraint requirements/constraints.txt --no-deps --requirement requirements/torchrec.txt

FROM python:3.11-slim AS base
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/emplace emplace
ENV PATH=/opt/emplace/bin:$PATH \
    EMPLACE_HOME=/var/lib/emplace \
    PYTHONUNBUFFERED=1
USER emplace
VOLUME /var/lib/emplace
ENTRYPOINT ["emplace"]

FROM base AS worker
COPY --from=build-worker /opt/emplace /opt/emplace
CMD ["worker"]

FROM base AS api
COPY --from=build /opt/emplace /opt/emplace
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import sys, urllib.request; sys.exit(urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4).status != 200)"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--no-worker"]
