module github.com/capolvm/cluster-api-provider-olvm/hack/tools/actions

go 1.26.0

require github.com/rhysd/actionlint v1.7.12
