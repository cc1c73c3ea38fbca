package localplane

import "fmt"

// CheckPlatform returns an error if a plane cannot run on an operating system. The name is that used by Go. The error
// names alternatives.
func CheckPlatform(system string) error {
	if system == "linux" {
		return nil
	}

	return fmt.Errorf("a local management cluster needs Linux, and this is %s; give a management cluster with "+
		"--kubeconfig, such as one of kind, or start the cluster with --bootstrap vm", system)
}
