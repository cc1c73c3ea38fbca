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
	check.Equal(t, "nothing is paused", m.noteMove(lab, "", here, now), "")
	check.Equal(t, "paused", m.noteMove(lab, "one", here, now), "one")
	check.Equal(t, "gone", m.noteMove(lab, "", gone, now.Add(movedFor)), "one")
	check.Equal(t, "another inventory", m.noteMove(client.ObjectKey{Name: "lab"}, "", gone, now), "")
	check.Equal(t, "long gone", m.noteMove(lab, "", gone, now.Add(movedFor+1)), "")

	check.Equal(t, "paused again", m.noteMove(lab, "one", here, now), "one")
	check.Equal(t, "it goes on", m.noteMove(lab, "", here, now), "")
	check.Equal(t, "gone without a move", m.noteMove(lab, "", gone, now), "")

	m.noteMove(lab, "one", here, now)
	m.dropMove(lab)
	check.Equal(t, "an inventory of the same name", m.noteMove(lab, "", gone, now), "")
}
