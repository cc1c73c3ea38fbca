# Cluster API Provider OLVM. `make help` lists the targets.

# Everything is built without cgo: no C compiler is needed, and the tools share the build cache with our own code.
export CGO_ENABLED := 0
# The version in binaries and images.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.1.0-dev)
LDFLAGS := -X github.com/capolvm/cluster-api-provider-olvm/internal/version.Version=$(VERSION)

TOOLS := go run ./hack/tools
# go build that says how far it is. The program that says so is compiled first, in ten seconds if no processor is busy.
BUILD := while sleep 10; do echo "compiling what shows how far it is"; done & beat=$$!; go build -o /dev/null ./hack/build; \
  built=$$?; kill $$beat; test $$built = 0 && go run ./hack/build
# Dex is built with cgo; its test says so where there is no C compiler.
TOOLS_OIDC := $(if $(shell command -v cc),tools-oidc)

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "; print "Usage: make TARGET\n"} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Run the whole product once on this machine; KEEP=1 stays up until Ctrl-C, NODES=real has real kubelets, as root
	@echo "demo: compiling the demo itself; the first time takes a few minutes"
	@$(BUILD) -o bin/.built/ ./hack/demo ./cmd/manager ./cmd/ovirtsim
	@exec bin/.built/demo $(if $(KEEP),-keep) $(if $(NODES),-nodes=$(NODES))

# Tests run programs, which go test does not see when it looks for an earlier result: each test is run anew.
TEST = go run ./hack/test $(TESTFLAGS)
# Suites wait more than they compute: six at once keep two processors busy.
TEST_ARGS = -count=1 -parallel 8 -p $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); echo $$((n > 6 ? n : 6)))
# None of these runs alone at the end, when the others have ended.
LONGEST = -first ./internal/olvmctl/lifecycle,./e2e,./controllers,./e2e/reliability,./cmd/olvmctl,./e2e/security,./e2e/release

.PHONY: test
test: tools tools-clusterctl tools-prometheus ## Run the tests that each change needs: minutes, without root (go test -short)
	@$(TEST) -modules .,hack/conformance,e2e/specs $(LONGEST) -- $(TEST_ARGS) -short -timeout 30m ./...

.PHONY: test-all
test-all: ## Run all tests; as root, with the Debian packages of .ci/packages
	@$(MAKE) --keep-going --no-print-directory test-suites test-opentofu test-terraform test-specs

# The packages that test-suites tests.
SUITES ?= ./...
comma := ,

.PHONY: test-suites
# Nothing runs beside the nodes and the network services: what they run shares the processors with them.
test-suites: tools tools-clusterctl tools-prometheus tools-ipam tools-dns $(TOOLS_OIDC) tools-oci tools-operator tools-cosign tools-tofu node-images ## Run all tests of SUITES (./...)
	@$(TEST) -modules .$(if $(filter ./...,$(SUITES)),$(comma)hack/conformance) -alone ./e2e/nodes,./e2e/guestnet -- \
	  $(TEST_ARGS) -timeout 90m $(SUITES)

.PHONY: test-nodes
test-nodes: tools node-images ## Make clusters of simulated machines: real systemd, cloud-init, kubeadm, kubelet; as root, with debootstrap
	@$(TEST) -- $(TEST_ARGS) -timeout 90m ./e2e/nodes

.PHONY: test-security
test-security: tools ## Replay attacks of tenants, engines and guests; docs/operate/security.md has the table
	@$(TEST) -- $(TEST_ARGS) -short -timeout 30m ./e2e/security ./render ./internal/engine ./internal/enginepool \
	  ./internal/terraform ./internal/bootstrap ./internal/redact ./internal/workload ./controllers/... ./cmd/...

.PHONY: test-opentofu
# The executor that is found first is the Terraform on PATH; this is the other one.
test-opentofu: tools tools-clusterctl tools-tofu ## Run what drives the executor with OpenTofu, which is built
	@CAPOLVM_TERRAFORM="$$($(TOOLS) -path tofu/tofu)" $(TEST) -- $(TEST_ARGS) -short -timeout 60m \
	  ./internal/terraform ./internal/tfprovider ./e2e/reliability ./e2e/security ./e2e

.PHONY: test-terraform
test-terraform: tools-terraformoldest tools-terraformnewest ## Run the provider's tests with the oldest and the newest Terraform, which are built
	@for version in oldest newest; do \
	  CAPOLVM_TERRAFORM="$$($(TOOLS) -path terraform$$version/terraform)" $(TEST) -- $(TEST_ARGS) -short -timeout 60m \
	    ./internal/terraform ./internal/tfprovider || exit; \
	done

.PHONY: test-specs
test-specs: tools ## Run the specs of Cluster API's own test suite, PROCS at once; FOCUS=text runs those whose description has it
	cd e2e/specs && go tool ginkgo --procs=$(or $(PROCS),5) --timeout=90m --no-color $(if $(FOCUS),--focus='$(FOCUS)') .

.PHONY: test-chaos
test-chaos: tools tools-ipam ## Make trouble for CHAOS (4m) while clusters scale and are upgraded; SEED=number replays a run
	go test ./e2e -run '^TestChaos$$' -count=1 -v -timeout 90m -args -chaos=$(or $(CHAOS),4m) $(if $(SEED),-seed=$(SEED))

.PHONY: node-image
node-image: ## Build the image of simulated machines: Debian, containerd and Kubernetes; as root, with debootstrap
	@go run ./hack/nodeimage

# Building Kubernetes takes longer than the tests that boot these images.
.PHONY: node-images
node-images:
	@go run ./hack/nodeimage -tests

.PHONY: bench
# Half an hour; BENCH='-machines=1,20 -steady-machines=0 -fleet-machines=0 -pool-vms=0' takes a minute.
bench: tools ## Measure what machines cost, beside a native loop and one Terraform per machine; JSON in out/bench.json
	@mkdir -p out
	go test ./e2e/bench -count=1 -v -timeout 90m -args -json=$(CURDIR)/out/bench.json $(BENCH)

.PHONY: fuzz
FUZZTIME ?= 20s
fuzz: ## Run each fuzz target for FUZZTIME (20s)
	@for package in $$(go list ./... | grep -v -e /e2e -e /controllers$$); do \
	  for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
	    echo "fuzz $$target of $${package##*olvm/}"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
	  done; \
	done

.PHONY: test-mutations
test-mutations: executor ## Change the code, one fault at a time, and list those no unit test notices; PACKAGES='render internal/tfstate' for a few
	go run ./hack/mutations $(PACKAGES)

.PHONY: test-race
test-race: tools ## Run the tests of the packages themselves with the race detector; needs a C compiler
	@CGO_ENABLED=1 $(TEST) -- $(TEST_ARGS) -short -race -timeout 60m ./api/... ./cmd/... ./controllers/... ./internal/... ./render/...

.PHONY: build
build: ## Build all commands into bin/
	go build -ldflags '-s -w $(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: release
release: ## Make the artefacts of release VERSION (v0.1.0) in out/release: for clusterctl, binaries, bills of materials, checksums
	@$(TOOLS) plane sbom
	go run ./hack/release -version $(VERSION) $(if $(IMAGE_DIGEST),-image-digest $(IMAGE_DIGEST))

.PHONY: tools
tools: ## Find or build etcd, kube-apiserver, Cluster API managers and an executor, into the cache
	@$(BUILD) ./hack/tools
	@$(TOOLS) plane executor

# tools-GROUP is a folder of hack/tools. What is built before a test is not built in the time that the test has.
tools-%:
	@$(TOOLS) $*

.PHONY: executor
executor:
	@$(TOOLS) executor

.PHONY: generate
generate: ## Generate deepcopy functions, CRDs, roles, cluster templates and the API reference
	@$(TOOLS) dev apidocs plane
	"$$($(TOOLS) -path dev/controller-gen)" object paths=./api/...
	"$$($(TOOLS) -path dev/controller-gen)" crd:crdVersions=v1 paths=./api/... output:crd:dir=config/crd/bases
	"$$($(TOOLS) -path dev/controller-gen)" rbac:roleName=capolvm-manager paths=./controllers/... output:rbac:dir=config/rbac
	go run ./hack/templates
	go run ./hack/providerdocs
	go run ./hack/rights
	go run ./hack/managerflags >docs/operate/flags.md.new && mv docs/operate/flags.md.new docs/operate/flags.md
	for module in plane oci tofu; do for kind in mod sum; do cp hack/tools/$$module/go.$$kind internal/toolchain/modules/$$module.$$kind || exit; done; done
	cp hack/tools/plane/kube-controller-manager/main.go internal/toolchain/modules/plane.kube-controller-manager.txt
	"$$($(TOOLS) -path apidocs/crd-ref-docs)" --source-path=api --config=hack/tools/apidocs/config.yaml --renderer=markdown --output-path=docs/user/api.md --max-depth=20 --log-level=ERROR
	# Types that only name a kind of text have no section of their own.
	sed -E -i.old 's/\[(Size|IPAddress|IPv4Range|IPv6Range|DomainName|MACAddress|MACAddressRange|EngineURL|PortRange|ProxyURL|ObjectName|UserName|AuthorizedKey|NamespaceName|LabelName|EngineName|EngineTag|DeviceName|InterfaceName|ContainerImage|NoProxyEntry|LabelKey|LabelValue|DataKey|EngineUUID|IssuerURL|RedirectURI)\]\(#[a-z0-9]+\)/string/g' docs/user/api.md && rm docs/user/api.md.old

.PHONY: verify
verify: generate ## Fail when generated files or go.mod are not up to date
	go mod tidy
	go -C e2e/specs mod tidy
	@git diff --exit-code -- go.mod go.sum e2e/specs/go.mod e2e/specs/go.sum api config docs internal/toolchain/modules || { echo "run make generate and go mod tidy, and commit the result" >&2; exit 1; }

# Packages that differ between systems, and whose tests compile on Windows, too. Few dependencies are compiled for them.
PORTABLE := ./internal/hostos ./internal/scratchdir ./internal/filelock ./internal/olvmctl/atomicfile

.PHONY: lint
lint: ## Run the linters
	@$(TOOLS) lint actions
	"$$($(TOOLS) -path lint/golangci-lint)" run ./...
	"$$($(TOOLS) -path lint/golangci-lint)" run --config .golangci-api.yml ./api/...
	cd hack/conformance && "$$(cd ../.. && $(TOOLS) -path lint/golangci-lint)" run ./...
	cd e2e/specs && "$$(cd ../.. && $(TOOLS) -path lint/golangci-lint)" run ./...
	@go run ./hack/layout
	GOOS=darwin GOARCH=arm64 go vet $(PORTABLE)
	GOOS=windows GOARCH=amd64 go vet $(PORTABLE)
	"$$($(TOOLS) -path actions/actionlint)" -shellcheck= -pyflakes=

.PHONY: lint-portable
lint-portable: ## Vet olvmctl for macOS, and build it for Windows; compiles all dependencies for both
	GOOS=darwin GOARCH=arm64 go vet ./cmd/olvmctl ./internal/olvmctl/...
	GOOS=windows GOARCH=amd64 go build -o /dev/null ./cmd/olvmctl
	GOOS=windows GOARCH=amd64 go vet $(PORTABLE) ./internal/olvmctl/kubeconfigfile

.PHONY: vuln
vuln: ## Look for known vulnerabilities that our programs and OpenTofu can reach; asks vuln.go.dev, or VULNDB
	@$(TOOLS) vuln
	"$$($(TOOLS) -path vuln/govulncheck)" $(if $(VULNDB),-db=$(VULNDB)) ./cmd/...
	"$$($(TOOLS) -path vuln/govulncheck)" $(if $(VULNDB),-db=$(VULNDB)) -C hack/tools/tofu github.com/opentofu/opentofu/cmd/tofu

.PHONY: vuln-image
vuln-image: ## Look for known vulnerabilities in the programs of IMAGE, as they were built; needs docker
	@$(TOOLS) vuln
	@container=$$(docker create "$(IMAGE)") && programs=$$(mktemp -d) && status=0; \
	  for program in /manager /usr/local/bin/tofu; do \
	    docker cp "$$container:$$program" "$$programs/" && \
	    "$$($(TOOLS) -path vuln/govulncheck)" $(if $(VULNDB),-db=$(VULNDB)) -mode=binary "$$programs/$${program##*/}" || status=1; \
	  done; docker rm "$$container" >/dev/null; rm -r "$$programs"; exit $$status

# The programs that build the site, below out: Python 3.11 or newer is needed, and nothing else.
SITE = out/site-programs/bin/

out/site-programs: hack/site/requirements.txt
	python3 -m venv $@
	$(SITE)pip install --quiet --require-hashes -r $<
	@touch $@

.PHONY: site
site: out/site-programs ## Build the site of the documents in out/site; a link that leads nowhere is an error
	$(SITE)mkdocs build --strict -f hack/site/mkdocs.yml

.PHONY: site-publish
# The newest release is what people find who name no version: no release candidate, and no patch of an older release.
# The shell reads SITE_VERSION from its environment, so that nothing in it is a command.
site-publish: export SITE_REF = $(value SITE_VERSION)
site-publish: out/site-programs
	@printf '%s\n' "$$SITE_REF" | grep -Eqx 'main|v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?' || \
	  { echo "set SITE_VERSION to main or a tag such as v0.1.0" >&2; exit 1; }
	newest=$$(git tag --sort=-v:refname | grep -Ex 'v[0-9]+\.[0-9]+\.[0-9]+' | head -n 1); latest=; \
	  if [ "$$SITE_REF" = "$$newest" ]; then latest=latest; fi; \
	  export PATH="$(CURDIR)/$(SITE):$$PATH"; \
	  mike deploy -F hack/site/mkdocs.yml --push --update-aliases "$$SITE_REF" $$latest && \
	  mike set-default -F hack/site/mkdocs.yml --push --allow-undefined latest

.PHONY: clean
clean: ## Remove what was built in the checkout; the cache stays
	rm -rf bin out
