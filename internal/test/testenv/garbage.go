package testenv

import (
	"os"
	"runtime/debug"
	"strconv"
)

// garbagePercent is how much garbage there may be, in percent of what is in use, before it is collected.
const garbagePercent = 400

// CollectLessGarbage has this process, and the servers that it starts, collect garbage less often, unless GOGC is set:
// etcd, API servers, and managers of Cluster API. Their memory is cheaper than the CPU time. Our own manager bounds its
// memory itself, and is started without the variable.
func CollectLessGarbage() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(garbagePercent)

		_ = os.Setenv("GOGC", strconv.Itoa(garbagePercent))
	}
}
