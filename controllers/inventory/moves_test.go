package inventory

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestMoves distinguishes a moved Cluster from an unpaused one.
func TestMoves(t *testing.T) {
	t.Parallel()
	lab, now := client.ObjectKey{Namespace: "a", Name: "lab"}, time.Now()
	here, gone := map[string]bool{"one": true}, map[string]bool{}

	var m moves
	check.Equal(t, "nothing is paused", m.recordMove(lab, "", here, now), "")
	check.Equal(t, "paused", m.recordMove(lab, "one", here, now), "one")
	check.Equal(t, "gone", m.recordMove(lab, "", gone, now.Add(movedFor)), "one")
	check.Equal(t, "another inventory", m.recordMove(client.ObjectKey{Name: "lab"}, "", gone, now), "")
	check.Equal(t, "long gone", m.recordMove(lab, "", gone, now.Add(movedFor+1)), "")

	check.Equal(t, "paused again", m.recordMove(lab, "one", here, now), "one")
	check.Equal(t, "it goes on", m.recordMove(lab, "", here, now), "")
	check.Equal(t, "gone without a move", m.recordMove(lab, "", gone, now), "")

	m.recordMove(lab, "one", here, now)
	m.dropMove(lab)
	check.Equal(t, "an inventory of the same name", m.recordMove(lab, "", gone, now), "")
}
