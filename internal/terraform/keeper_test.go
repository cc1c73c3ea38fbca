package terraform

import (
	"context"
	"strings"
	"testing"
)

// TestAStateThatVanishedIsAnError deletes the folder of a run. The executor may still succeed, because it had its files
// open.
func TestAStateThatVanishedIsAnError(t *testing.T) {
	keeper := func() *stateKeeper {
		return &stateKeeper{run: &run{Request: Request{Dir: t.TempDir()}}, ctx: context.Background()}
	}
	if err := keeper().finish(true); err != nil {
		t.Errorf("a run that made nothing: %v", err)
	}

	made := keeper()
	made.applied("ovirt_nic.nic1", "an ID")
	if err := made.finish(true); err == nil || !strings.Contains(err.Error(), "was deleted while terraform ran") {
		t.Errorf("a run that made something: %v", err)
	}
}
