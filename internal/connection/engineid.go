package connection

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// EngineID says which engine objects are on. It joins what protects, such as addresses, virtual router IDs and limits:
// an engine has several names, and says itself which installation it is. It grants nothing, because a hostile engine
// can say the ID of another one: sessions and credentials belong to a URL and its CA.
type EngineID struct {
	// Host and port of a URL of the engine; "" if none is known.
	Host string
	// Installation is the engine's own ID; "" if it is not known.
	Installation string
}

// EngineOf returns the engine that a cluster names.
func EngineOf(c *infrav1.OLVMCluster) EngineID { return ClusterEngine(c).ID() }

// hostOf returns host and port of a URL, or all of it if it is none.
func hostOf(serverURL string) string {
	base, err := engine.BaseURL(serverURL)
	if err != nil {
		return serverURL
	}

	return strings.ToLower(strings.TrimSuffix(base.Host, ":443"))
}

// Is reports whether both are the same engine, as far as is known.
func (e EngineID) Is(other EngineID) bool {
	return e.Host != "" && e.Host == other.Host || e.Installation != "" && e.Installation == other.Installation
}

// WithInstallation returns the engine with what it says of itself now, if it says something.
func (e EngineID) WithInstallation(installation string) EngineID {
	e.Installation = cmp.Or(installation, e.Installation)

	return e
}

// Key is one text for all names of an engine, as far as it has said which it is.
func (e EngineID) Key() string {
	if e.Installation != "" {
		return e.Installation
	}

	return e.Host
}

// EngineOfMachine returns the engine on which the VM of a machine is.
func EngineOfMachine(m *infrav1.OLVMMachine) EngineID {
	if m.Status.OLVM == nil {
		return EngineID{}
	}

	return EngineID{Installation: m.Status.OLVM.EngineID}
}

// Has reports whether what an object names counts as this engine in a namespace. An object of another namespace counts
// if the engine accepted its credentials: anybody can write down the URL of an engine.
func (e EngineID) Has(c Engine, namespace string) bool {
	return c.recordedID().Is(e) || c.Key.Namespace == namespace && c.ID().Is(e)
}

// Identify returns what the engine of a cluster says of itself. The session may have begun before the cluster recorded
// its last event: the engine is asked for that event once in each session.
func Identify(ctx context.Context, session *engine.Client, of Engine) (engine.Identity, error) {
	seen, err := session.Identity(ctx)
	if err != nil || of.Recorded == nil || of.Recorded.LastEvent == nil || of.Recorded.EngineID != seen.Installation {
		return seen, err
	}

	last := of.Recorded.LastEvent
	if session.HasSeenEvent(last.ID, last.Time.Time) {
		return seen, nil
	}

	return session.FetchIdentity(ctx, last.ID, last.Time.Time)
}

// CheckEngine returns a *blocker.Error if an engine is another one than that on which the VMs of a cluster are: the one
// that the cluster has recorded, else the one that its machine has; or if it is the same engine at an earlier time. VMs
// that such an engine does not have would look as if they were gone.
func CheckEngine(of Engine, ofMachine string, seen engine.Identity) error {
	const field = "spec.olvmOvirtAPIServer.serverURL"

	recorded := cmp.Or(of.recordedID().Installation, ofMachine)
	accepted := of.Annotations[infrav1.AcceptEngineAnnotation]

	if recorded != "" && seen.Installation != recorded && (seen.Installation == "" || accepted != seen.Installation) {
		return blocker.New(infrav1.EngineChangedReason, field,
			"%s is engine %s, but the VMs are on engine %s; nothing is changed. Correct serverURL. If the engine was "+
				"installed again with the same VMs, set the annotation %s=%s", of.Server.ServerURL,
			seen.Installation, recorded, infrav1.AcceptEngineAnnotation, seen.Installation)
	}

	if !IsRestored(of, seen) {
		return nil
	}

	last := of.Recorded.LastEvent
	accept := fmt.Sprintf("%s/%d", seen.Installation, last.ID)

	if accepted == accept {
		return nil
	}

	return blocker.New(infrav1.EngineRestoredReason, field,
		"engine %s has forgotten event %d: its database was restored to an earlier time, so it does not know VMs "+
			"made later; nothing is changed. Restore its latest state. To keep this state, stop or import the VMs "+
			"that it does not know, and set the annotation %s=%s",
		seen.Installation, last.ID, infrav1.AcceptEngineAnnotation, accept)
}

// IsRestored reports whether an engine is the recorded one at an earlier time than was seen, whether or not that is
// accepted. seen is what Identify returned.
func IsRestored(of Engine, seen engine.Identity) bool {
	recorded := of.Recorded
	if recorded == nil || recorded.LastEvent == nil || recorded.EngineID != seen.Installation {
		return false
	}

	return recorded.LastEvent.Gone || seen.Forgot
}
