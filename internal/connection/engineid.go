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

// EngineID identifies an engine across objects. An engine has several names, but reports the ID of its installation. It
// keeps objects on one engine from using the same addresses and virtual router IDs, and counts limits per engine. An
// EngineID grants no access, because a hostile engine can report another one's ID. Sessions and credentials therefore
// belong to a URL and its CA.
type EngineID struct {
	// Host is the host and port of a URL of the engine, or "" if unknown.
	Host string
	// Installation is the engine's own ID, or "" if unknown.
	Installation string
}

// GetEngineID returns the identity of a cluster's engine.
func GetEngineID(c *infrav1.OLVMCluster) EngineID { return ClusterEngine(c).ID() }

// parseHost returns the host and port of a URL. It returns an invalid URL unchanged.
func parseHost(serverURL string) string {
	base, err := engine.ParseBaseURL(serverURL)
	if err != nil {
		return serverURL
	}

	return strings.ToLower(strings.TrimSuffix(base.Host, ":443"))
}

// IsSame reports whether both are known to be the same engine.
func (e EngineID) IsSame(other EngineID) bool {
	return e.Host != "" && e.Host == other.Host || e.Installation != "" && e.Installation == other.Installation
}

// WithInstallation returns e with this installation, unless it is empty.
func (e EngineID) WithInstallation(installation string) EngineID {
	e.Installation = cmp.Or(installation, e.Installation)

	return e
}

// Key returns one key for all names of an engine. Until the engine has reported its installation, the key is its host.
func (e EngineID) Key() string {
	if e.Installation != "" {
		return e.Installation
	}

	return e.Host
}

// GetMachineEngineID returns the engine of a machine's VM.
func GetMachineEngineID(m *infrav1.OLVMMachine) EngineID {
	if m.Status.OLVM == nil {
		return EngineID{}
	}

	return EngineID{Installation: m.Status.OLVM.EngineID}
}

// IsUsedBy reports whether an object uses the engine e, from the view of a namespace. An object of another namespace
// counts only if the engine accepted its credentials, because anybody can write the URL of an engine.
func (e EngineID) IsUsedBy(c Engine, namespace string) bool {
	return c.recordedID().IsSame(e) || c.Key.Namespace == namespace && c.ID().IsSame(e)
}

// LoadIdentity returns the identity reported by a cluster's engine. The session may be older than the cluster's last
// recorded event. In that case LoadIdentity looks for the event in the engine, once per session.
func LoadIdentity(ctx context.Context, session *engine.Client, of Engine) (engine.Identity, error) {
	seen, err := session.LoadIdentity(ctx)
	if err != nil || of.Recorded == nil || of.Recorded.LastEvent == nil || of.Recorded.EngineID != seen.Installation {
		return seen, err
	}

	last := of.Recorded.LastEvent
	if session.HasSeenEvent(last.ID, last.Time.Time) {
		return seen, nil
	}

	return session.FetchIdentity(ctx, last.ID, last.Time.Time)
}

// CheckEngine returns a *blocker.Error if seen is not the engine of the cluster's VMs, or is the same engine at an
// earlier time. VMs would look deleted on such an engine. The engine of the VMs is the one recorded by the cluster, or
// ofMachine if the cluster has no record.
func CheckEngine(of Engine, ofMachine string, seen engine.Identity) error {
	const field = "spec.olvmOvirtAPIServer.serverURL"

	recorded := cmp.Or(of.recordedID().Installation, ofMachine)
	accepted := of.Annotations[infrav1.AcceptEngineAnnotation]

	if recorded != "" && seen.Installation != recorded && (seen.Installation == "" || accepted != seen.Installation) {
		return blocker.New(infrav1.EngineChangedReason, field,
			"%s is engine %s, but the VMs are on engine %s. The controller changes nothing. Correct serverURL. If "+
				"the engine was reinstalled with the same VMs, set the annotation %s=%s", of.Server.ServerURL,
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
		"engine %s no longer has event %d: its database was restored to an earlier time, so later VMs are unknown to "+
			"it. The controller changes nothing. Restore the engine's latest state. To keep this state, stop or "+
			"import the unknown VMs, and set the annotation %s=%s",
		seen.Installation, last.ID, infrav1.AcceptEngineAnnotation, accept)
}

// IsRestored reports whether an engine is the recorded one at an earlier time, even if an annotation accepts it. seen
// is a result of LoadIdentity.
func IsRestored(of Engine, seen engine.Identity) bool {
	recorded := of.Recorded
	if recorded == nil || recorded.LastEvent == nil || recorded.EngineID != seen.Installation {
		return false
	}

	return recorded.LastEvent.Gone || seen.Forgot
}
