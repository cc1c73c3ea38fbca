package inventory

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// movedFor is how long an inventory counts as being moved after the paused Cluster of its namespace is gone. clusterctl
// move deletes what it has moved one object after the other, an inventory at any time after the Cluster.
const movedFor = time.Minute

// moves remembers the Clusters that clusterctl move had paused, by inventory.
type moves struct {
	mutex sync.Mutex
	seen  map[client.ObjectKey]move
}

// move is a paused Cluster, and when it was last there.
type move struct {
	cluster string
	at      time.Time
}

// note records the paused Cluster that a pass over an inventory has seen, empty for none, and returns the one that
// counts as being moved. Of a Cluster that is there and goes on, nothing is remembered.
func (m *moves) note(inventory client.ObjectKey, paused string, clusters map[string]bool, now time.Time) string {
	m.mutex.Lock()
	defer m.mutex.Unlock()

	if paused != "" {
		if m.seen == nil {
			m.seen = map[client.ObjectKey]move{}
		}

		m.seen[inventory] = move{cluster: paused, at: now}

		return paused
	}

	last, ok := m.seen[inventory]
	if !ok || clusters[last.cluster] || now.Sub(last.at) > movedFor {
		delete(m.seen, inventory)
		return ""
	}

	return last.cluster
}

// forget drops what was recorded of an inventory that is gone.
func (m *moves) forget(inventory client.ObjectKey) {
	m.mutex.Lock()
	defer m.mutex.Unlock()

	delete(m.seen, inventory)
}
