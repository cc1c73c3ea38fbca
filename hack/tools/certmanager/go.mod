module github.com/capolvm/cluster-api-provider-olvm/hack/tools/certmanager

go 1.26.0

require github.com/cert-manager/cert-manager v1.11.5
