# One image for all roles: what it is started with says which. BuildKit (the default) is needed for the cache mounts.
#
#   docker build -t resemblance .
#   docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" resemblance run jobs/quickstart.toml

FROM rust:1.95-slim-bookworm AS build
# The build of the allocator needs make.
RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# Crates and compiled dependencies stay between builds; the result leaves the cache, which is no part of the image.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --features cluster,otlp --bin resemblance \
    && install -D target/release/resemblance /built/resemblance

FROM debian:bookworm-slim
# Certificate authorities, for stores and gateways behind https://.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/*
# A number, so that Kubernetes can see that it is not root (runAsNonRoot). /work is for spills and shuffles.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /work resemblance \
    && install --directory --owner=resemblance --group=resemblance /work /data
COPY --from=build /built/resemblance /usr/local/bin/resemblance
USER 10001:10001
WORKDIR /data
# scheduler; executor: what its tasks wrote, and health. Each role binds loopback. With the cluster's secret in
# RESEMBLANCE_CLUSTER_TOKEN, --bind takes an address that other machines reach; without it, that needs --allow-unauthenticated,
# and a network that only the cluster reaches.
EXPOSE 50050 50051 50053
# A role says where it answers: localhost:50050 for a scheduler, localhost:50053 for an executor. A run needs no check.
ENV RESEMBLANCE_HEALTH=""
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s \
    CMD test -z "$RESEMBLANCE_HEALTH" || resemblance health "$RESEMBLANCE_HEALTH"
# SIGTERM: a run stops so that it can go on later, an executor ends its tasks first.
STOPSIGNAL SIGTERM
ENTRYPOINT ["resemblance"]
CMD ["--help"]
