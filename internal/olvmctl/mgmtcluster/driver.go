package mgmtcluster

import (
	"errors"
	"fmt"
)

// The drivers select how a command finds or starts its management cluster.
const (
	DriverAuto     = "auto"
	DriverExisting = "existing"
	DriverProcess  = "process"
)

// Drivers lists all drivers.
var Drivers = []string{DriverAuto, DriverExisting, DriverProcess}

// IsLocal reports whether a driver selects the local management cluster. It returns an error for an unknown driver, or
// if the driver contradicts the kubeconfig.
func (o Options) IsLocal(driver string) (bool, error) {
	own := LocalOfUser().Kubeconfig()

	switch driver {
	case DriverExisting:
		return false, nil
	case DriverAuto, "":
		return o.Kubeconfig == own || o.Kubeconfig == "" && o.kubectlFindsNothing(), nil
	case DriverProcess:
		if o.Kubeconfig != "" && o.Kubeconfig != own {
			return false, errors.New("--driver process cannot be used with --kubeconfig; omit --kubeconfig")
		}

		return true, nil
	}

	return false, fmt.Errorf("--driver %s is not supported; use %s, %s or %s", driver, DriverAuto, DriverExisting,
		DriverProcess)
}
