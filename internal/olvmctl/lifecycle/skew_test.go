package lifecycle

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// skews has one case a line: the version of the control plane, the versions of pools, the target version, the expected
// result and the reason.
const skews = `
v1.33.5 | v1.33.5 | v1.34.1 | ok | all at once
v1.33.5 | v1.33.5 | v1.33.6 | ok | a patch
v1.33.5 | v1.33.5 | v1.33.5 | ok | nothing
v1.33.5 | - | v1.35.0 | upgrade to v1.34 first | two minor versions
v1.33.5 | - | v1.33.4 | cannot downgrade | a patch back
v1.33.5 | - | v1.32.9 | cannot downgrade | a minor version back
v1.33.5 | - | v2.0.0 | more than one minor version | another major version
v1.33.5 | v1.31.0 | v1.33.5 | ok | a pool that lags catches up over two minor versions
v1.33.5 | v1.31.0 | v1.34.1 | ok | a pool that lags goes up with the control plane
v1.33.5 | v1.31.9 | v1.34.0 | ok | a pool lags by three after the control plane
v1.33.5 | v1.30.9 | v1.34.0 | first upgrade them to v1.33.5 | a pool would lag by four
v1.33.5 | v1.30.9 | v1.33.5 | ok | such a pool catches up
v1.33.5 | v1.28.0 | v1.33.6 | ok | one that lags too much already catches up
v1.33.5 | v1.33.5 v1.30.0 | v1.34.0 | MachineDeployment b | the second of two pools would lag
v1.26.0 | v1.24.9 | v1.27.0 | up to v1.26 | early kubelets lag by two
v1.25.0 | v1.24.9 | v1.26.0 | ok | early kubelets within two
v1.33.5 | v1.34.1 | v1.33.5 | ok | a pool ahead comes to the control plane's version
v1.33.5 | v1.34.1 | v1.34.1 | ok | a pool ahead is reached
v1.33.5 | v1.33.9 | v1.33.6 | ok | a pool with a newer patch
v1.33.5 | v1.33.5 | v1.34.0-rc.1 | ok | to a candidate
v1.34.0-rc.1 | v1.33.5 | v1.34.0 | ok | from a candidate to its release
v1.34.0-rc.1 | - | v1.34.0-rc.2 | ok | from a candidate to a later one
v1.34.0 | - | v1.34.0-rc.1 | cannot downgrade | from a release to its candidate
v1.33.5+1.el8 | - | v1.33.5+2.el8 | ok | a build of the same version
v1.33.5 | - | v1.33.6-rc.0 | ok | to a candidate of the next patch
v1.33.5 | - | v1.33.5-rc.1 | cannot downgrade | from a release to the candidate of its own patch
v1.34.0-beta.0 | - | v1.35.0-alpha.1 | ok | from one early version to the next
v1.33.5 | v1.34.0-rc.1 | v1.34.0 | ok | a pool ahead with a candidate
v1.33.5 | v1.30.0-rc.1 | v1.34.0 | first upgrade them to v1.33.5 | a pool with a candidate would lag by four
v1.34.1 | v1.33.5 | v1.33.9 | cannot downgrade | back to what a pool has
v1.33.5 | v1.35.0 | v1.34.0 | ok | a pool ahead by two comes back to what the control plane gets
v1.28.0 | v1.25.9 | v1.28.5 | ok | kubelets of v1.25 lag by three since v1.28
v1.27.5 | v1.25.0 | v1.28.0 | ok | they come to lag by three
v1.28.0 | v1.25.9 | v1.29.0 | up to v1.28 | they would lag by four
v1.26.0 | v1.24.9 | v1.26.3 | ok | early kubelets lag by two still
v1.33.5 v1.32.9 | - | v1.34.0 | from v1.32.9 to v1.34.0 | a rollout of the control plane that has not ended
v1.33.5 v1.32.9 | - | v1.33.5 | ok | such a rollout goes on
v1.33.5 | - | new | --kubernetes-version | a version that is none
`

// TestTheSkewPolicy compares with the official policy: https://kubernetes.io/releases/version-skew-policy/.
func TestTheSkewPolicy(t *testing.T) {
	for line := range strings.Lines(strings.TrimSpace(skews)) {
		fields := strings.Split(strings.TrimSpace(line), " | ")
		check.Length(t, "fields of "+line, fields, 5)
		t.Run(fields[4], func(t *testing.T) {
			var pools []pool
			for i, version := range strings.Fields(strings.Trim(fields[1], "-")) {
				pools = append(pools, pool{"MachineDeployment " + string(rune('a'+i)), []string{version}})
			}

			err := checkVersionSkew(strings.Fields(fields[0]), pools, fields[2])
			check.Error(t, err, strings.TrimSuffix(fields[3], "ok"))
		})
	}
}
