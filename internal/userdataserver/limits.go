package userdataserver

import (
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Anybody who reaches the port may ask. What strangers can take is bounded: connections, and how often one address may
// ask. A VM with its token is recognized by what is cached, and is not counted.
const (
	// maxConnections that are open at once.
	maxConnections = 512
	// perSecond and atOnce are how often one address may ask.
	perSecond, atOnce = 10, 100
	// vmPerSecond and vmAtOnce are how often one VM may ask what costs a look: the holder of a token is no friend.
	vmPerSecond, vmAtOnce = 0.5, 20
	// maxAddresses whose questions are counted; the one that asked longest ago is forgotten.
	maxAddresses = 4096

	// headerTime bounds how long a request may take to arrive, idleTime how long a connection stays open without one.
	headerTime, idleTime = 5 * time.Second, 5 * time.Second
	// answerTime bounds how long an answer takes, with its way to the VM: user data has up to a MiB.
	answerTime = 30 * time.Second
	// recordTime bounds a write of what became of a token. It does not end with the connection.
	recordTime = 10 * time.Second
)

// limits of a server: what strangers may ask, and what one VM may have looked up for it.
type limits struct{ addresses, vms *lru.Cache } // *rate.Limiter by address, and by the key of a VM's Secret

func newLimits() *limits {
	return &limits{addresses: lru.New(maxAddresses), vms: lru.New(maxAddresses)}
}

// allowVM reports whether a VM may have one more answer that costs a question to the API server or to an engine.
func (l *limits) allowVM(secret client.ObjectKey) bool {
	limiter, known := l.vms.Get(secret)
	if !known {
		limiter = rate.NewLimiter(vmPerSecond, vmAtOnce)
		l.vms.Add(secret, limiter)
	}

	return limiter.(*rate.Limiter).Allow()
}

// allow reports whether an address may have one more answer now.
func (l *limits) allow(r *http.Request) bool {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}

	limiter, known := l.addresses.Get(address)
	if !known {
		limiter = rate.NewLimiter(perSecond, atOnce)
		l.addresses.Add(address, limiter)
	}

	return limiter.(*rate.Limiter).Allow()
}
