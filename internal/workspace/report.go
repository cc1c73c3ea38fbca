package workspace

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// recordRun writes the end of a run into the Terraform part of a status.
func recordRun(status *infrav1.TerraformStatus, stateSecret string, run terraform.Status) *infrav1.TerraformRun {
	report := &infrav1.TerraformRun{
		Operation:      string(run.Operation),
		Result:         "Succeeded",
		StartTime:      metav1.NewTime(run.Started),
		CompletionTime: metav1.NewTime(run.Ended),
		Added:          int32(run.Summary.Added),
		Changed:        int32(run.Summary.Changed),
		Destroyed:      int32(run.Summary.Destroyed), //nolint:gosec // a handful
	}
	report.Changes, report.ChangeCount = formatListed(run.Summary.Planned)
	status.StateSecretName = stateSecret
	status.Runs++
	status.Failures++
	status.LastRun = report

	var refused *terraform.GuardError
	switch {
	case run.Err == nil:
		status.Failures = 0
	case errors.As(run.Err, &refused):
		report.Result = "Refused"
	default:
		report.Result = "Failed"
	}

	return report
}

// LatestRunEnd returns the time at which an object's last run ended, or other if it is later.
func LatestRunEnd(status *infrav1.TerraformStatus, other time.Time) time.Time {
	if status == nil || status.LastRun == nil || !status.LastRun.CompletionTime.After(other) {
		return other
	}

	return status.LastRun.CompletionTime.Time
}

// recordState records the lineage and serial of the state in the status. It refuses a state that is older than the
// recorded one, because a restored backup of the Secret lacks newer resources. It also refuses another lineage, unless
// a run may have started it to replace a deleted state.
func recordState(status *infrav1.TerraformStatus, secret string, state *tfstate.State, ran bool) error {
	if status.StateLineage != "" && status.StateLineage != state.Lineage && !ran {
		return &tfstate.InvalidError{Secret: secret, Reason: fmt.Sprintf(
			"its lineage is %s, but the manager has read lineage %s before: somebody replaced the state",
			state.Lineage, status.StateLineage)}
	}

	serial := int64(state.Serial) //nolint:gosec // one more with each change
	if status.StateLineage == state.Lineage && serial < status.StateSerial {
		return &tfstate.InvalidError{Secret: secret, Reason: fmt.Sprintf(
			"its serial is %d, but the manager has read serial %d before: somebody restored an older state",
			serial, status.StateSerial)}
	}

	status.StateSecretName = secret
	status.StateLineage = state.Lineage
	status.StateSerial = serial

	return nil
}
