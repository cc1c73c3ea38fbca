package testenv

import (
	"os"
	"runtime/debug"
	"strconv"
)

// garbagePercent is the amount of garbage before a collection, in percent of the live memory.
const garbagePercent = 400

// CollectLessGarbage makes this process and its servers collect garbage less often, unless GOGC is set: etcd, API
// servers, and managers of Cluster API. Their memory is cheaper than the CPU time. Our own manager bounds its memory
// itself, and is started without the variable.
func CollectLessGarbage() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(garbagePercent)

		_ = os.Setenv("GOGC", strconv.Itoa(garbagePercent))
	}
}
