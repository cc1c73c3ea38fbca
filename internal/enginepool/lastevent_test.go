package enginepool

import (
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// sessionWith returns a session with an engine.
func sessionWith(t *testing.T, sim *ovirtsim.Server) *engine.Client {
	t.Helper()
	session, err := engine.New(engine.Config{
		URL: sim.URL(), Username: sim.Username(), Password: sim.Password(), CA: sim.CA(),
	})
	check.Error(t, err, "")

	return session
}

// makeEvents makes an engine log some events.
func makeEvents(t *testing.T, session *engine.Client, count int) {
	t.Helper()

	dc, err := session.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	cluster, err := session.FindCluster(t.Context(), dc, "Default")
	check.Error(t, err, "")

	for range count {
		_, err := session.CreateVM(t.Context(), &engine.VM{
			Name: "vm-" + uuid.NewString(), Cluster: engine.NewRef(cluster.ID),
			Template: engine.NewRef(engine.BlankTemplateID),
		}, nil)
		check.Error(t, err, "")
	}
}

// TestAnEventIsRecordedSoonAfterARun checks when a newer event must be recorded.
func TestAnEventIsRecordedSoonAfterARun(t *testing.T) {
	at := time.Date(2026, 11, 9, 3, 0, 0, 0, time.UTC)
	last := &infrav1.EngineEvent{ID: 7, Recorded: metav1.NewTime(at)}

	for name, test := range map[string]struct {
		run, now time.Time
		want     bool
	}{
		"nothing has run":                 {time.Time{}, at.Add(59 * time.Minute), false},
		"an hour later":                   {time.Time{}, at.Add(time.Hour), true},
		"a run that was there before":     {at.Add(-time.Second), at.Add(59 * time.Minute), false},
		"a run in the same second":        {at, at.Add(time.Minute), true},
		"a run since":                     {at.Add(time.Second), at.Add(time.Minute), true},
		"a run since, not a minute after": {at.Add(time.Second), at.Add(59 * time.Second), false},
	} {
		check.Equal(t, name, isRecordDue(last, test.run, test.now), test.want)
	}
}

// TestAnEngineRestoredToAfterTheRecordIsNoticed restores an engine's database to some minutes before a run. The engine
// has since logged more events than it has lost.
func TestAnEngineRestoredToAfterTheRecordIsNoticed(t *testing.T) {
	folder, backup := t.TempDir(), t.TempDir()
	start := func(folder string) *ovirtsim.Server {
		sim, err := ovirtsim.New(ovirtsim.Options{StateFolder: folder})
		check.Error(t, err, "")
		t.Cleanup(sim.Close)

		return sim
	}
	sim := start(folder)
	session := sessionWith(t, sim)
	makeEvents(t, session, 1)

	seen, err := session.LoadIdentity(t.Context())
	check.Error(t, err, "")

	now := time.Now()
	of := connection.Engine{Recorded: &infrav1.OLVMDatacenterStatus{EngineID: seen.Installation}}
	of.Recorded.LastEvent, err = DetermineLastEvent(t.Context(), session, of, time.Time{}, now)
	check.Error(t, err, "")
	first := of.Recorded.LastEvent.ID

	sim.Close()
	check.Error(t, os.CopyFS(backup, os.DirFS(folder)), "")
	time.Sleep(time.Until(now.Add(1100 * time.Millisecond))) // records have a resolution of seconds

	sim = start(folder)
	session = sessionWith(t, sim)
	makeEvents(t, session, 1)

	ran := now.Add(30 * time.Second)
	of.Recorded.LastEvent, err = DetermineLastEvent(t.Context(), session, of, ran, now.Add(time.Minute+time.Second))
	check.Error(t, err, "")
	check.Equal(t, "a later event is recorded after a run", of.Recorded.LastEvent.ID > first, true)
	sim.Close()
	time.Sleep(1100 * time.Millisecond)

	restored := sessionWith(t, start(backup))
	seen, err = connection.LoadIdentity(t.Context(), restored, of)
	check.Error(t, err, "")
	check.Equal(t, "it is noticed", connection.IsRestored(of, seen), true)

	makeEvents(t, restored, 5)

	again, err := restored.FetchIdentity(t.Context(), 0, time.Time{})
	check.Error(t, err, "")
	check.Equal(t, "it has more events than are recorded", again.NewestEvent > of.Recorded.LastEvent.ID, true)

	seen, err = connection.LoadIdentity(t.Context(), restored, of)
	check.Error(t, err, "")
	check.Equal(t, "it is noticed with more events", connection.IsRestored(of, seen), true)
}
