package api

import (
	"net/http"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// route is a call below /ovirt-engine/api. Its path has the pattern syntax of http.ServeMux.
type route struct {
	method, pattern string
	run             operation
}

// allRoutes returns all calls. Those of a kind of object are in its file.
func allRoutes() []route {
	return slices.Concat(
		rootRoutes, catalogRoutes, permissionRoutes, givenRoutes(), jobRoutes, dataCenterRoutes, clusterRoutes,
		hostRoutes, hostLifeRoutes, networkRoutes, vnicProfileRoutes, storageDomainRoutes, instanceTypeRoutes,
		diskRoutes, diskAttachmentRoutes, transferRoutes, templateRoutes, vmRoutes, lifeRoutes, nicRoutes,
		snapshotRoutes,
		consoleRoutes, deviceRoutes, watchdogRoutes, tagRoutes, affinityGroupRoutes, affinityLabelRoutes,
	)
}

// newMux returns a mux to find the operation of a request. A handler only stores it in the call, because the lock
// holder runs it, possibly for a followed link.
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

// listNothing returns a collection always empty here.
func listNothing(name string) operation {
	return func(*call) (*wire.Element, error) { return wire.El(name), nil }
}

// requireVM returns a list requiring an existing VM.
func requireVM(list operation) operation {
	return func(c *call) (*wire.Element, error) {
		if _, err := c.findVM(); err != nil {
			return nil, err
		}

		return list(c)
	}
}
