package api

import (
	"net/http"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// route is a call below /ovirt-engine/api: the pattern of its path is that of http.ServeMux.
type route struct {
	method, pattern string
	run             operation
}

// routes are all calls; those of a kind of object are in its file.
func routes() []route {
	return slices.Concat(
		rootRoutes, catalogRoutes, permissionRoutes, givenRoutes(), jobRoutes, dataCenterRoutes, clusterRoutes,
		hostRoutes, hostLifeRoutes, networkRoutes, vnicProfileRoutes, storageDomainRoutes, instanceTypeRoutes, diskRoutes,
		diskAttachmentRoutes, transferRoutes, templateRoutes, vmRoutes, lifeRoutes, nicRoutes, snapshotRoutes,
		consoleRoutes, deviceRoutes, watchdogRoutes, tagRoutes, affinityGroupRoutes, affinityLabelRoutes,
	)
}

// newMux finds the operation of a request. A handler only leaves it in the call: who runs it holds the lock, and may
// also be a link that is followed.
func newMux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, one := range routes() {
		mux.HandleFunc(one.method+" "+wire.APIPath+one.pattern, func(_ http.ResponseWriter, r *http.Request) {
			if c, ok := r.Context().Value(callKey{}).(*call); ok {
				c.op, c.r = one.run, r
			}
		})
	}

	return mux
}

// listNothing is a collection that exists and is always empty here.
func listNothing(name string) operation {
	return func(*call) (*wire.Element, error) { return wire.El(name), nil }
}

// ofVM is a list below a VM that there must be.
func ofVM(list operation) operation {
	return func(c *call) (*wire.Element, error) {
		if _, err := c.vm(); err != nil {
			return nil, err
		}

		return list(c)
	}
}
