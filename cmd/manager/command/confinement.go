package command

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/confine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

// The modes of --confinement.
const (
	confinementAuto     = "auto"
	confinementRequired = "required"
)

// confined is whether the kernel confines the processes of a run.
var confined = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "capolvm_confined",
	Help: "Whether Landlock confines the processes of Terraform runs: terraform and its provider. 1 for yes.",
}, []string{"process"})

// checkConfinement reports in the log, in a metric and in the readiness probe whether the processes of runs are
// confined. It returns an error if they are not and must be.
func checkConfinement(mgr ctrl.Manager, executor terraform.Confinement, mode string) error {
	processes := map[string]bool{
		"terraform": executor == terraform.Landlocked,
		"provider":  confine.Version() > 0,
	}
	check, all := "confined", true

	for process, is := range processes {
		confined.WithLabelValues(process).Set(map[bool]float64{true: 1}[is])

		if !is {
			check, all = "not-confined", false
		}
	}

	const needs = "the kernel must have Landlock (Linux 5.13 or newer, with landlock among its LSMs), and the executor " +
		"must be a program, not a script"

	log := ctrl.Log.WithName("setup")

	switch {
	case all:
		log.Info("Terraform runs are confined", "by", executor)
	case mode == confinementRequired:
		return fmt.Errorf("--confinement=%s: Terraform and its provider cannot be confined here: %s", mode, needs)
	default:
		log.Error(nil, "Terraform runs are not confined", "terraform", processes["terraform"],
			"provider", processes["provider"], "needs", needs)
	}

	// The name is what /readyz?verbose shows. A manager that is not confined is ready all the same.
	if err := mgr.AddReadyzCheck(check, func(*http.Request) error { return nil }); err != nil {
		return fmt.Errorf("failed to add the readiness probe of the confinement: %w", err)
	}

	return nil
}
