module github.com/capolvm/cluster-api-provider-olvm/hack/tools/providerdocs

go 1.26.0

require github.com/hashicorp/terraform-plugin-docs v0.25.0
