package inventory

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// movedFor is how long an inventory counts as moving after the paused Cluster of its namespace is deleted. clusterctl
// move deletes moved objects one by one. It may delete the inventory much later than the Cluster.
const movedFor = time.Minute

// moves remembers the Clusters paused by clusterctl move, by inventory.
type moves struct {
	mutex sync.Mutex
	seen  map[client.ObjectKey]move
}

// move is a paused Cluster with the time of the last observation.
type move struct {
	cluster string
	at      time.Time
}

// recordMove records the paused Cluster seen by a pass, or "" for none. It returns the Cluster probably being moved by
// clusterctl. It forgets a Cluster that exists and is no longer paused.
func (m *moves) recordMove(inventory client.ObjectKey, paused string, clusters map[string]bool, now time.Time) string {
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

// dropMove drops the record of a deleted inventory.
func (m *moves) dropMove(inventory client.ObjectKey) {
	m.mutex.Lock()
	defer m.mutex.Unlock()

	delete(m.seen, inventory)
}
