package userdataserver

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// Anybody who reaches the port may ask. What strangers can take is bounded: connections, and how often one address may
// ask. A VM with its token is recognized by what is cached, and is not counted.
const (
	// maxConnections are open at once, maxFrom of them from one address. VMs behind one router share an address, and
	// each has its connection for some milliseconds.
	maxConnections, maxFrom = 512, 32
	// perSecond and atOnce are how often one address may ask.
	perSecond, atOnce = 10, 100
	// vmPerSecond and vmAtOnce are how often one VM may ask what costs a look: the holder of a token is no friend.
	vmPerSecond, vmAtOnce = 0.5, 20
	// reportPause is how often a VM is written down, which has a token and no more trust.
	reportPause = 5 * time.Second
	// maxAddresses whose questions are counted, and VMs; the one that asked longest ago is forgotten.
	maxAddresses = 4096

	// headerTime bounds how long a request may take to arrive, idleTime how long a connection stays open without one.
	headerTime, idleTime = 5 * time.Second, 5 * time.Second
	// answerTime bounds how long an answer takes, with its way to the VM: user data has up to a MiB.
	answerTime = 30 * time.Second
	// recordTime bounds a write of what became of a token. It does not end with the connection.
	recordTime = 10 * time.Second
)

// limits of a server: what strangers may ask, by their addresses; what one VM may have looked up for it, and how often
// it is written down, by the key of its Secret.
type limits struct{ strangers, vms, reports *limiters }

func newLimits() *limits {
	return &limits{
		strangers: newLimiters(perSecond, atOnce),
		vms:       newLimiters(vmPerSecond, vmAtOnce),
		reports:   newLimiters(rate.Every(reportPause), 1),
	}
}

// limiters bound how often each of many may do something.
type limiters struct {
	perSecond rate.Limit
	atOnce    int

	mutex sync.Mutex
	known *lru.Cache // *rate.Limiter by who it is
}

func newLimiters(perSecond rate.Limit, atOnce int) *limiters {
	return &limiters{perSecond: perSecond, atOnce: atOnce, known: lru.New(maxAddresses)}
}

// allow reports whether somebody may do it once more now.
func (l *limiters) allow(who lru.Key, now time.Time) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()

	limiter, known := l.known.Get(who)
	if !known {
		limiter = rate.NewLimiter(l.perSecond, l.atOnce)
		l.known.Add(who, limiter)
	}

	return limiter.(*rate.Limiter).AllowN(now, 1)
}

// remote is where a request comes from.
func remote(r *http.Request) string { return origin(r.RemoteAddr) }

// siteBits is the length of the prefix of IPv6 addresses that one host can have.
const siteBits = 64

// origin is who is counted for a remote address with a port: an IPv4 address, or the network of an IPv6 address, from
// which a host can take as many addresses as it likes.
func origin(remote string) string {
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
