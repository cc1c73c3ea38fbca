package tfprovider

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestADriveIsChangedAtOnceUnlessItsVMIsOffOrBetweenStatuses(t *testing.T) {
	t.Parallel()

	for status, want := range map[engine.VMStatus]string{
		engine.VMDown:             "next start",
		engine.VMUnassigned:       "next start",
		engine.VMSuspended:        "next start",
		engine.VMImageLocked:      "next start",
		engine.VMUp:               "at once",
		engine.VMPaused:           "at once",
		engine.VMNotResponding:    "at once",
		engine.VMWaitForLaunch:    "wait",
		engine.VMPoweringUp:       "wait",
		engine.VMRebootInProgress: "wait",
		engine.VMMigrating:        "wait",
		engine.VMPoweringDown:     "wait",
		engine.VMSavingState:      "wait",
		engine.VMRestoringState:   "wait",
	} {
		got := "next start"
		if isBetweenStatuses(status) {
			got = "wait"
		} else if hasGuest(status) {
			got = "at once"
		}

		check.Equal(t, string(status), got, want)
	}
}
