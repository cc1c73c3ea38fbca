package api

import (
	"net/http"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// route is a call below /ovirt-engine/api. Its path follows the pattern syntax of http.ServeMux.
type route struct {
	method, pattern string
	run             operation
}

// allRoutes returns all calls. The calls for each kind of object are in the object's file.
func allRoutes() []route {
	return slices.Concat(
		rootRoutes, catalogRoutes, permissionRoutes, givenRoutes(), jobRoutes, dataCenterRoutes, clusterRoutes,
		hostRoutes, hostLifeRoutes, networkRoutes, vnicProfileRoutes, storageDomainRoutes, instanceTypeRoutes,
		diskRoutes, diskAttachmentRoutes, transferRoutes, templateRoutes, vmRoutes, lifeRoutes, nicRoutes,
		snapshotRoutes,
		consoleRoutes, deviceRoutes, watchdogRoutes, tagRoutes, affinityGroupRoutes, affinityLabelRoutes,
	)
}

// newMux returns a mux that finds the operation of a request. The handlers only store the operation in the call,
// because the holder of the lock runs it, possibly for a followed link.
func newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, one := range allRoutes() {
		mux.HandleFunc(one.method+" "+wire.APIPath+one.pattern, func(_ http.ResponseWriter, r *http.Request) {
			if c, ok := r.Context().Value(callKey{}).(*call); ok {
				c.op, c.r = one.run, r
			}
		})
	}

	return mux
}

// listNothing returns a collection without items in this simulator.
func listNothing(name string) operation {
	return func(*call) (*wire.Element, error) { return wire.El(name), nil }
}

// requireVM wraps a list that requires an existing VM.
func requireVM(list operation) operation {
	return func(c *call) (*wire.Element, error) {
		if _, err := c.findVM(); err != nil {
			return nil, err
		}

		return list(c)
	}
}
