# Cluster API Provider OLVM. `make help` lists the targets.

# Everything is built without cgo: no C compiler is needed, and the tools share the build cache with our own code.
export CGO_ENABLED := 0
# The version in binaries and images.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.1.0-dev)
LDFLAGS := -X github.com/capolvm/cluster-api-provider-olvm/internal/version.Version=$(VERSION)

UNIT_PACKAGES = $(shell go list ./... | grep -v -e /controllers$$ -e /e2e -e /internal/tfprovider$$)
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

.PHONY: test
# Nodes and what holds their addresses have deadlines of their own, which they miss on processors that others keep busy:
# nothing else runs beside them. The rest runs in two lanes, of which one computes while the other waits.
test: tools tools-clusterctl tools-ipam tools-dns $(TOOLS_OIDC) tools-oci node-images test-unit ## Run all tests
	@$(MAKE) --no-print-directory test-nodes
	@$(MAKE) --no-print-directory test-guestnet
	@$(MAKE) --no-print-directory --jobs=2 test-lane-short test-lane-long

# The API servers, etcds and Cluster API's managers of these tests spend less on garbage collection. Our own managers are
# started without it.
test-integration test-guestnet test-release test-oci test-nodes test-e2e test-security test-reliability: export GOGC := 400

.PHONY: test-lane-short test-lane-long
test-lane-short:
	@$(MAKE) test-oci
	@$(MAKE) test-conformance
	@$(MAKE) test-integration
	@$(MAKE) test-image
	@$(MAKE) test-release
	@$(MAKE) test-security
test-lane-long:
	@$(MAKE) test-reliability
	@$(MAKE) test-e2e

.PHONY: test-unit
test-unit: executor ## Run unit tests, under a minute
	go test $(UNIT_PACKAGES)

.PHONY: test-conformance
# These build and run programs, which go test does not see when it decides whether an earlier result still holds.
test-conformance: ## Let software that others wrote use the simulator; libgovirt only where it is installed
	go -C hack/conformance test ./... -count=1 -timeout 5m
	go -C e2e/specs test -run '^TestWriteRepository$$' -count=1 .

.PHONY: test-integration
test-integration: tools ## Run the controllers against a real kube-apiserver, and the Terraform provider under a real executor
	go test ./controllers ./internal/tfprovider ./e2e/plane -parallel 8 -timeout 15m

.PHONY: test-guestnet
test-guestnet: tools tools-dns $(TOOLS_OIDC) ## Run what nodes and VMs of support services do with real keepalived, haproxy, nginx, CoreDNS, sshd and Dex; as root, where they are installed
	go test ./e2e/guestnet -count=1 -timeout 10m

.PHONY: test-image
# Without KVM guestfish needs ten seconds for each start.
test-image: ## Edit an image of a node with real guestfish; where it is installed
	go test ./e2e/image -count=1 -timeout 10m

.PHONY: test-release
test-release: tools tools-clusterctl ## Install and upgrade a release with clusterctl, and render its templates
	go test ./e2e/release -count=1 -timeout 10m

.PHONY: test-oci
test-oci: tools tools-oci ## Make clusters on a fake of Oracle Cloud with the real Cluster API Provider OCI
	go test ./e2e/oci/... -count=1 -timeout 10m

.PHONY: node-image
node-image: ## Build the image of simulated machines: Debian, containerd and Kubernetes; as root, with debootstrap
	@go run ./hack/nodeimage

# Without Kubernetes in the cache this takes longer than the tests that boot these images, which have a time limit. What
# else these run is built, too.
.PHONY: node-images
node-images:
	@go run ./hack/nodeimage -tests

.PHONY: test-nodes
test-nodes: tools node-images ## Make clusters of simulated machines: real systemd, cloud-init, kubeadm, kubelet; as root, with debootstrap
	go test ./e2e/nodes -count=1 -parallel 2 -timeout 60m

.PHONY: test-e2e
test-e2e: tools tools-ipam tools-clusterctl ## Run clusters from end to end
	go test ./e2e -count=1 -parallel 8 -timeout 20m

.PHONY: test-e2e-full
# Cluster API's own specs, PROCS at once; too long for each change, so it is for nights and releases.
test-e2e-full: tools ## Run the specs of Cluster API's own test suite; FOCUS=text runs those whose description has it
	cd e2e/specs && go tool ginkgo --procs=$(or $(PROCS),5) --timeout=40m --no-color $(if $(FOCUS),--focus='$(FOCUS)') .

# Those of docs/operate/security.md that need no manager.
SECURITY_TESTS := FuzzNothingBecomesConfiguration|TestAnIDThatIsNoneIsRefused|TestAConfigurationReadsNoFiles|TestAnExecutorReachesNothing|TestKubeconfigsThatAreRefused|TestClaimsOfAGuest|TestH4|TestFairQueue|TestManyEnginesOfOneNamespaceKeepNobodyOut|TestM6|TestEachFormOfASecretIsFound|TestAnEngineThatRepeatsSecrets|TestAWorkFolderThatIsNotOurs

.PHONY: test-security
# The executor of the image is OpenTofu; the one that is found first may be another.
test-security: tools ## Replay attacks of tenants, engines and guests against real managers; docs/operate/security.md has the table
	@$(TOOLS) tofu
	go test ./e2e/security -count=1 -parallel 8 -timeout 10m
	go test ./render ./internal/engine ./internal/terraform ./internal/bootstrap ./internal/redact ./internal/workload ./internal/enginepool \
	  ./controllers/... ./cmd/... \
	  -run '^($(SECURITY_TESTS))$$' -timeout 5m

POOL_TESTS := ^Test(Row[0-9]+|Schedule|Labels|AClaim|Rebuild|PlanOfMachinesOfAPool|CrashMatrixOfAPool)

.PHONY: test-reliability
# Six managers and their runs share the cores; more at once wait for one another.
test-reliability: tools tools-clusterctl ## Kill and cut managers, Terraform and connections at each call of a machine's life
	go test ./e2e/reliability -count=1 -parallel 8 -timeout 20m

.PHONY: test-pool
test-pool: tools tools-clusterctl ## Run what is about pools of VMs alone; the other targets of make test have it too
	go test ./internal/inventory ./cmd/olvmctl -run '$(POOL_TESTS)' -count=1
	go test ./controllers -run '$(POOL_TESTS)' -count=1 -timeout 10m
	go test ./e2e/reliability -run '$(POOL_TESTS)' -count=1 -parallel 8 -timeout 20m

.PHONY: test-chaos
test-chaos: tools tools-ipam ## Make trouble for CHAOS (4m) while clusters scale and are upgraded; SEED=number replays a run
	go test ./e2e -run '^TestChaos$$' -count=1 -v -timeout 40m -args -chaos=$(or $(CHAOS),4m) $(if $(SEED),-seed=$(SEED))

.PHONY: test-opentofu
# The executor that is found first is Terraform where it is on PATH; this is the other one.
test-opentofu: tools tools-ipam tools-clusterctl ## Run the core suite with OpenTofu, which is built where it is not there
	@$(TOOLS) tofu
	CAPOLVM_TERRAFORM="$$($(TOOLS) -path tofu/tofu)" go test ./internal/terraform ./internal/tfprovider -count=1 -parallel 8 -timeout 10m
	CAPOLVM_TERRAFORM="$$($(TOOLS) -path tofu/tofu)" go test ./e2e/reliability ./e2e -p 1 -count=1 -parallel 8 -timeout 30m

.PHONY: bench
# Half an hour; BENCH='-machines=1,20 -steady-machines=0 -fleet-machines=0 -pool-vms=0' takes a minute.
bench: tools ## Measure what machines cost, beside a native loop and one Terraform per machine; JSON in out/bench.json
	@mkdir -p out
	go test ./e2e/bench -run '^TestBenchmark$$' -count=1 -v -timeout 90m -args -json=$(CURDIR)/out/bench.json $(BENCH)

.PHONY: fuzz
FUZZTIME ?= 20s
fuzz: ## Run each fuzz target for FUZZTIME (20s)
	@for package in $$(go list ./... | grep -v -e /e2e -e /controllers$$); do \
	  for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz'); do \
	    echo "fuzz $$target of $${package##*olvm/}"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package || exit 1; \
	  done; \
	done

.PHONY: test-race
test-race: executor ## Run unit tests with the race detector; needs a C compiler
	CGO_ENABLED=1 go test -race $(UNIT_PACKAGES)

.PHONY: build
build: ## Build all commands into bin/
	go build -ldflags '-s -w $(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: release
release: ## Make the artefacts of release VERSION (v0.1.0) in out/release: for clusterctl, binaries, bills of materials, checksums
	@$(TOOLS) plane sbom
	go run ./hack/release -version $(VERSION)

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
	go run ./hack/managerflags >docs/operate/flags.md.new && mv docs/operate/flags.md.new docs/operate/flags.md
	for module in plane oci tofu; do for kind in mod sum; do cp hack/tools/$$module/go.$$kind internal/toolchain/modules/$$module.$$kind || exit; done; done
	cp hack/tools/plane/kube-controller-manager/main.go internal/toolchain/modules/plane.kube-controller-manager.txt
	"$$($(TOOLS) -path apidocs/crd-ref-docs)" --source-path=api/v1 --config=hack/tools/apidocs/config.yaml --renderer=markdown --output-path=docs/user/api.md --max-depth=20 --log-level=ERROR

.PHONY: verify
verify: generate ## Fail when generated files or go.mod are not up to date
	go mod tidy
	go -C e2e/specs mod tidy
	@git diff --exit-code -- go.mod go.sum e2e/specs/go.mod e2e/specs/go.sum api config docs internal/toolchain/modules || { echo "run make generate and go mod tidy, and commit the result" >&2; exit 1; }

.PHONY: lint
lint: ## Run the linters
	@$(TOOLS) lint actions
	"$$($(TOOLS) -path lint/golangci-lint)" run ./...
	cd hack/conformance && "$$(cd ../.. && $(TOOLS) -path lint/golangci-lint)" run ./...
	cd e2e/specs && "$$(cd ../.. && $(TOOLS) -path lint/golangci-lint)" run ./...
	@go run ./hack/layout
	"$$($(TOOLS) -path actions/actionlint)" -shellcheck= -pyflakes=

.PHONY: vuln
vuln: ## Look for known vulnerabilities that our programs can reach; asks vuln.go.dev, or VULNDB
	@$(TOOLS) vuln
	"$$($(TOOLS) -path vuln/govulncheck)" $(if $(VULNDB),-db=$(VULNDB)) ./cmd/...

.PHONY: clean
clean: ## Remove what was built in the checkout; the cache stays
	rm -rf bin out
