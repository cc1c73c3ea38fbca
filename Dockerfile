# The image of the manager, with OpenTofu (MPL-2.0) as its executor; it needs no network when it runs.
#   docker build -t IMAGE .
ARG GO_IMAGE=golang:1.26.8
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=v0.1.0-dev
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY hack/tools/tofu hack/tools/tofu
RUN cd hack/tools/tofu && GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X github.com/opentofu/opentofu/version.dev=no" -o /out/tofu github.com/opentofu/opentofu/cmd/tofu
COPY . .
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X github.com/capolvm/cluster-api-provider-olvm/internal/version.Version=$VERSION" -o /out/manager ./cmd/manager
RUN mkdir -p /out/empty

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/manager /manager
COPY --from=build /out/tofu /usr/local/bin/tofu
COPY --from=build --chown=65532:65532 /out/empty /var/lib/capolvm
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/manager"]
