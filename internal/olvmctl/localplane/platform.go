package localplane

import "fmt"

// CheckPlatform returns an error if a plane cannot run on an operating system. The name is that used by Go. The error
// names alternatives.
func CheckPlatform(system string) error {
	if system == "linux" {
		return nil
	}

	return fmt.Errorf("a local management cluster requires Linux, but this is %s; specify a management cluster "+
		"with --kubeconfig, such as a kind cluster, or use --bootstrap vm", system)
}
