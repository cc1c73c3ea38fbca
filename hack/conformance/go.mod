module github.com/capolvm/cluster-api-provider-olvm/hack/conformance

go 1.26.0

require (
	github.com/ovirt/go-ovirt-client-log/v3 v3.0.0
	github.com/ovirt/go-ovirt-client/v3 v3.2.0
)

require (
	github.com/google/uuid v1.3.0 // indirect
	github.com/ovirt/go-ovirt v0.0.0-20220427092237-114c47f2835c // indirect
)
