module github.com/capolvm/cluster-api-provider-olvm/hack/tools/ignition

go 1.26.0

require github.com/coreos/ignition/v2 v2.26.0
