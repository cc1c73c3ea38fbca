package userdataserver

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// Anybody with access to the port may send requests. These limits bound the resources for strangers: connections, and
// requests per address. A VM with its token is recognized from the cache, and not limited by address.
const (
	// maxConnections limits all open connections, maxFrom those from one address. VMs behind one router share an
	// address, and each connection lasts some milliseconds.
	maxConnections, maxFrom = 512, 32
	// perSecond and atOnce limit the requests from one address.
	perSecond, atOnce = 10, 100
	// vmPerSecond and vmAtOnce limit the costly requests of one VM, because a token's holder may be hostile.
	vmPerSecond, vmAtOnce = 0.5, 20
	// reportPause limits the records of a VM's reports. Its token gives it no further trust.
	reportPause = 5 * time.Second
	// maxAddresses limits the tracked addresses, and VMs; the least recent is dropped.
	maxAddresses = 4096

	// headerTime limits the arrival of a request, idleTime an idle connection.
	headerTime, idleTime = 5 * time.Second, 5 * time.Second
	// answerTime limits a response, including its transfer to the VM: user data has up to a MiB.
	answerTime = 30 * time.Second
	// recordTime limits the record of a token's use. It does not end with the connection.
	recordTime = 10 * time.Second
)

// limits of a server: requests of strangers by address, costly requests of VMs, and records of their reports by the key
// of their Secret.
type limits struct{ strangers, vms, reports *limiters }

func newLimits() *limits {
	return &limits{
		strangers: newLimiters(perSecond, atOnce),
		vms:       newLimiters(vmPerSecond, vmAtOnce),
		reports:   newLimiters(rate.Every(reportPause), 1),
	}
}

// limiters limit the rate of many clients independently.
type limiters struct {
	perSecond rate.Limit
	atOnce    int

	mutex sync.Mutex
	known *lru.Cache // *rate.Limiter by client
}

func newLimiters(perSecond rate.Limit, atOnce int) *limiters {
	return &limiters{perSecond: perSecond, atOnce: atOnce, known: lru.New(maxAddresses)}
}

// allowClient reports whether a client may act once more now.
func (l *limiters) allowClient(who lru.Key, now time.Time) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()

	limiter, known := l.known.Get(who)
	if !known {
		limiter = rate.NewLimiter(l.perSecond, l.atOnce)
		l.known.Add(who, limiter)
	}

	return limiter.(*rate.Limiter).AllowN(now, 1)
}

// remoteOrigin returns the origin of a request.
func remoteOrigin(r *http.Request) string { return toOrigin(r.RemoteAddr) }

// siteBits is the prefix length of the IPv6 addresses available to one host.
const siteBits = 64

// toOrigin returns the counted part of a remote address with a port. This is an IPv4 address, or the network of an IPv6
// address, because a host can use any address in it.
func toOrigin(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}

	address := at.Addr().Unmap()
	if address.Is4() {
		return address.String()
	}

	network, err := address.WithZone("").Prefix(siteBits)
	if err != nil {
		return address.String()
	}

	return network.String()
}
