package testenv

import (
	"os"
	"runtime/debug"
	"strconv"
)

// garbagePercent is the amount of garbage that starts a collection, in percent of the live memory.
const garbagePercent = 400

// CollectLessGarbage makes this process and its servers collect garbage less often, unless GOGC is set. The servers are
// etcd, API servers, and managers of Cluster API. For tests, memory is cheaper than CPU time. Our own manager limits
// its memory itself, so it starts without this variable.
func CollectLessGarbage() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(garbagePercent)

		_ = os.Setenv("GOGC", strconv.Itoa(garbagePercent))
	}
}
