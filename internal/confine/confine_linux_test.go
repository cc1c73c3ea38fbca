package confine

import (
	"testing"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestWhatAKernelCanDeny covers the first version of Landlock that can deny each right, because a kernel rejects rules
// with unknown rights.
func TestWhatAKernelCanDeny(t *testing.T) {
	for version := 1; version <= 7; version++ {
		attr := handledRights(version, false)
		for name, right := range map[string]struct {
			denied bool
			since  int
		}{
			"execute":  {attr.HandledAccessFS&landlock.AccessFSExecute != 0, 1},
			"symlinks": {attr.HandledAccessFS&landlock.AccessFSMakeSym != 0, 1},
			"refer":    {attr.HandledAccessFS&landlock.AccessFSRefer != 0, 2},
			"truncate": {attr.HandledAccessFS&landlock.AccessFSTruncate != 0, 3},
			"bind":     {attr.HandledAccessNet&landlock.AccessNetBindTCP != 0, 4},
			"connect":  {attr.HandledAccessNet&landlock.AccessNetConnectTCP != 0, 4},
			"ioctl":    {attr.HandledAccessFS&landlock.AccessFSIoctlDev != 0, 5},
			"sockets":  {attr.Scoped&landlock.ScopeAbstractUnixSocket != 0, 6},
		} {
			if right.denied != (version >= right.since) {
				t.Errorf("version %d denies %s: %t", version, name, right.denied)
			}
		}

		check.Equal(t, "signals are denied", attr.Scoped&landlock.ScopeSignal != 0, version >= 6)
		check.Equal(t, "signals are denied although they are allowed",
			handledRights(version, true).Scoped&landlock.ScopeSignal != 0, false)
	}
}
