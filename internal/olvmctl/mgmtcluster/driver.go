package mgmtcluster

import (
	"errors"
	"fmt"
)

// Drivers of management clusters: how commands that need one come to it.
const (
	DriverAuto     = "auto"
	DriverExisting = "existing"
	DriverProcess  = "process"
)

// Drivers are all of them.
var Drivers = []string{DriverAuto, DriverExisting, DriverProcess}

// IsLocal reports whether a driver means the local management cluster. An unknown driver is an error, and so is one
// that contradicts the kubeconfig.
func (o Options) IsLocal(driver string) (bool, error) {
	own := LocalOfUser().Kubeconfig()

	switch driver {
	case DriverExisting:
		return false, nil
	case DriverAuto, "":
		return o.Kubeconfig == own || o.Kubeconfig == "" && o.kubectlFindsNothing(), nil
	case DriverProcess:
		if o.Kubeconfig != "" && o.Kubeconfig != own {
			return false, errors.New("--driver process: it has a kubeconfig of its own; leave --kubeconfig away")
		}

		return true, nil
	}

	return false, fmt.Errorf("--driver %s is not known; write %s, %s or %s", driver, DriverAuto, DriverExisting,
		DriverProcess)
}
