package terraform

import (
	"context"
	"strings"
	"testing"
)

// TestAStateThatVanishedIsAnError deletes the folder of a run. The executor may still succeed, because it had opened
// its files before.
func TestAStateThatVanishedIsAnError(t *testing.T) {
	keeper := func() *stateKeeper {
		return &stateKeeper{run: &run{Request: Request{Dir: t.TempDir()}}, ctx: context.Background()}
	}
	if err := keeper().saveFinal(true); err != nil {
		t.Errorf("a run that made nothing: %v", err)
	}

	made := keeper()
	made.recordApplied("ovirt_nic.nic1", "an ID")
	if err := made.saveFinal(true); err == nil || !strings.Contains(err.Error(), "was deleted while terraform ran") {
		t.Errorf("a run that made something: %v", err)
	}
}
