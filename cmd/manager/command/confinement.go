package command

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/confine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
)

// These are the modes of --confinement.
const (
	confinementAuto     = "auto"
	confinementRequired = "required"
)

// confinedGauge reports whether the kernel confines the processes of a run.
var confinedGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "capolvm_confined",
	Help: "1 if Landlock confines this process of Terraform runs (terraform or provider), 0 if not.",
}, []string{"process"})

// reportConfinement reports the confinement of Terraform runs in the log, in a metric and in the readiness probe. It
// returns an error if a required confinement is missing.
func reportConfinement(mgr ctrl.Manager, executor terraform.Confinement, mode string) error {
	processes := map[string]bool{
		"terraform": executor == terraform.Landlocked,
		"provider":  confine.Version() >= confine.PortsVersion,
	}
	check, all := "confined", true

	for process, isConfined := range processes {
		confinedGauge.WithLabelValues(process).Set(map[bool]float64{true: 1}[isConfined])

		if !isConfined {
			check, all = "not-confined", false
		}
	}

	const needs = "the kernel must support Landlock (enabled in its list of LSMs; Linux 5.13 or newer for terraform, " +
		"6.7 or newer for provider, whose TCP ports are restricted) and the container runtime must allow it; the " +
		"executor must be a binary, not a script"

	log := ctrl.Log.WithName("setup")

	switch {
	case all:
		log.Info("Terraform runs are confined", "by", executor)
	case mode == confinementRequired:
		return fmt.Errorf(
			"--confinement=%s: not every process of a run can be confined (terraform: %t, provider: %t); %s",
			mode, processes["terraform"], processes["provider"], needs)
	default:
		log.Error(nil, "Terraform runs are not confined", "terraform", processes["terraform"],
			"provider", processes["provider"], "needs", needs)
	}

	// The probe /readyz?verbose shows the name of the check. The check always passes, because a manager without
	// confinement is still ready.
	if err := mgr.AddReadyzCheck(check, func(*http.Request) error { return nil }); err != nil {
		return fmt.Errorf("failed to add the readiness probe of the confinement: %w", err)
	}

	return nil
}
