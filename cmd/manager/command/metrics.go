package command

import (
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capolvm/cluster-api-provider-olvm/controllers/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/controllers/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// init registers the metrics of this project with those of controller-runtime. One endpoint serves both.
func init() {
	metrics.Registry.MustRegister(inventory.Collectors()...)
	metrics.Registry.MustRegister(machine.Collectors()...)
	metrics.Registry.MustRegister(workspace.Collectors()...)
	metrics.Registry.MustRegister(terraform.Collectors()...)
	metrics.Registry.MustRegister(engine.Collectors()...)
	metrics.Registry.MustRegister(userdataserver.Collectors()...)
	metrics.Registry.MustRegister(confinedGauge)
}
