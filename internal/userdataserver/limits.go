package userdataserver

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// Everyone with access to the port can send requests. These limits restrict what strangers can use: connections, and
// requests per address. The server recognizes a VM by its token from the cache, and does not limit it by its address.
const (
	// maxConnections limits all open connections, and maxFrom limits those from one address. VMs behind one router
	// share an address, and each connection lasts some milliseconds.
	maxConnections, maxFrom = 512, 32
	// perSecond and atOnce limit the requests from one address.
	perSecond, atOnce = 10, 100
	// vmPerSecond and vmAtOnce limit the expensive requests of one VM, because a hostile program may have its token.
	vmPerSecond, vmAtOnce = 0.5, 20
	// reportPause is the minimum time between two records of a VM's reports. A token does not make a VM trusted beyond
	// this.
	reportPause = 5 * time.Second
	// maxAddresses limits how many addresses and VMs the server tracks. It drops those that were used least recently.
	maxAddresses = 4096

	// headerTime limits the time until a request has arrived. idleTime limits the time of an idle connection.
	headerTime, idleTime = 5 * time.Second, 5 * time.Second
	// answerTime limits the time of a response, including its transfer to the VM. User data has up to 1 MiB.
	answerTime = 30 * time.Second
	// recordTime limits the time for recording that a token was used. The record does not end with the connection.
	recordTime = 10 * time.Second
)

// limits are the limits of a server. strangers are limited by address; vms and reports are limited by the key of the
// VM's Secret.
type limits struct{ strangers, vms, reports *limiters }

func newLimits() *limits {
	return &limits{
		strangers: newLimiters(perSecond, atOnce),
		vms:       newLimiters(vmPerSecond, vmAtOnce),
		reports:   newLimiters(rate.Every(reportPause), 1),
	}
}

// limiters limit the rates of many clients independently of each other.
type limiters struct {
	perSecond rate.Limit
	atOnce    int

	mutex sync.Mutex
	known *lru.Cache // *rate.Limiter by client
}

func newLimiters(perSecond rate.Limit, atOnce int) *limiters {
	return &limiters{perSecond: perSecond, atOnce: atOnce, known: lru.New(maxAddresses)}
}

// allowClient reports whether a client may send another request now.
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

// remoteOrigin returns the origin from which a request comes.
func remoteOrigin(r *http.Request) string { return toOrigin(r.RemoteAddr) }

// siteBits is the length of the IPv6 prefix whose addresses one host can use.
const siteBits = 64

// toOrigin returns the part of a remote address by which the server counts. This is an IPv4 address, or the network of
// an IPv6 address, because a host can use every address in its network.
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
