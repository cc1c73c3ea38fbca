module github.com/hashicorp/terraform/internal/backend/remote-state

go 1.23.3
