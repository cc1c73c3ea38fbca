module github.com/capolvm/cluster-api-provider-olvm/hack/tools/csi

go 1.26.0

require github.com/kubernetes-csi/external-attacher/v4 v4.12.0
