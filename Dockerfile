# The image of the manager, with an executor; it needs no network when it runs.
#   docker build -t IMAGE .                                  with OpenTofu (MPL-2.0), built from its source
#   docker build -t IMAGE --build-arg EXECUTOR=terraform .   with HashiCorp's Terraform (BUSL-1.1)
ARG GO_IMAGE=golang:1.26.8@sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a
ARG BASE_IMAGE=gcr.io/distroless/static-debian12:nonroot@sha256:afa5c872c891853ca7fcf1f12c3edb23f7eeef36189728842dd51042ff57f7ab
ARG TERRAFORM_IMAGE=hashicorp/terraform:1.11.4@sha256:5820b87995595425074f881500a037b0ccd41158d0d9b44d78f5f120612f2d3d
ARG EXECUTOR=tofu

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS source
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download

FROM source AS tofu-build
ARG TARGETOS=linux
ARG TARGETARCH
COPY hack/tools/tofu hack/tools/tofu
RUN cd hack/tools/tofu && GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X github.com/opentofu/opentofu/version.dev=no" -o /out/tofu github.com/opentofu/opentofu/cmd/tofu

FROM source AS build
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=v0.1.0-dev
COPY . .
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
    -ldflags "-s -w -X github.com/capolvm/cluster-api-provider-olvm/internal/version.Version=$VERSION" -o /out/manager ./cmd/manager
RUN mkdir -p /out/empty

FROM ${TERRAFORM_IMAGE} AS terraform-image

FROM scratch AS executor-tofu
COPY --from=tofu-build /out/tofu /tofu

FROM scratch AS executor-terraform
COPY --from=terraform-image /bin/terraform /terraform

FROM executor-${EXECUTOR} AS executor

FROM ${BASE_IMAGE}
COPY --from=build /out/manager /manager
COPY --from=executor / /usr/local/bin/
COPY --from=build --chown=65532:65532 /out/empty /var/lib/capolvm
ENV PATH=/usr/local/bin
USER 65532:65532
ENTRYPOINT ["/manager"]
