package testenv

import "os"

// CollectLessGarbage has the servers that this process starts collect garbage less often, unless GOGC is set: etcd, API
// servers, and managers of Cluster API. Their memory is cheaper than the CPU time. Our own manager bounds its memory
// itself, and is started without the variable.
func CollectLessGarbage() {
	if _, set := os.LookupEnv("GOGC"); !set {
		_ = os.Setenv("GOGC", "400")
	}
}
