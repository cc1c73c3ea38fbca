package mgmtcluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// serverClock is the difference between the clock of an API server and the clock of this machine. It comes from the
// server's responses.
type serverClock struct{ ahead atomic.Int64 }

// wrapTransport returns a transport that observes the responses of next.
func (c *serverClock) wrapTransport(next http.RoundTripper) http.RoundTripper {
	return &observer{c, next}
}

// observer is a transport that reads the server's clock from each response.
type observer struct {
	clock *serverClock
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *observer) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := c.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}

	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		if ahead := time.Until(date); ahead.Abs() > time.Second { // the header has only whole seconds
			c.clock.ahead.Store(int64(ahead))
		} else {
			c.clock.ahead.Store(0)
		}
	}

	return answer, nil
}

// ManagerTrouble reports that no manager of this provider is running, since when, and how to inspect this. It returns
// "" if a manager is running, or if the user may not read the Leases. A manager counts as running while its Lease for
// leader election is fresh. Managers for different namespaces have one Lease each. One running manager is enough,
// because a Lease does not name the namespaces of its manager.
func (c *Cluster) ManagerTrouble(ctx context.Context) (string, error) {
	var leases coordinationv1.LeaseList
	if err := c.List(ctx, &leases); apierrors.IsForbidden(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("failed to list the Leases of managers: %w", err)
	}

	now := time.Now()
	if c.clock != nil {
		now = now.Add(time.Duration(c.clock.ahead.Load()))
	}

	trouble := managerTrouble(leases.Items, now, c.Kubeconfig == LocalOfUser().Kubeconfig())
	if trouble == "" {
		return "", nil
	}

	if kinds, err := c.listKinds(ctx, infrav1.GroupVersion); err == nil && len(kinds) == 0 {
		return "", nil // clusters on Oracle Cloud have only the manager of their own provider
	}

	return trouble, nil
}

// managerTrouble evaluates the Leases of a management cluster. local reports whether it is the local one.
func managerTrouble(leases []coordinationv1.Lease, now time.Time, local bool) string {
	var newest *coordinationv1.Lease

	for i := range leases {
		lease := &leases[i]
		if lease.Name != version.LeaseName && !strings.HasPrefix(lease.Name, version.LeaseName+"-") {
			continue
		}

		if isFresh(lease, now) {
			return ""
		}

		if newest == nil || newest.Spec.RenewTime.Before(lease.Spec.RenewTime) {
			newest = lease
		}
	}

	const stands = "; nothing is reconciled until a manager runs"

	remedy := "; to restart it, run olvmctl local stop and olvmctl local start"

	switch {
	case newest == nil && local:
		return "no manager of this provider has run yet" + stands + remedy
	case newest == nil:
		return "no manager of this provider has run yet: no Lease " + version.LeaseName + " found" + stands +
			"; to find it, run kubectl get deployments -A -l control-plane=" + managerPods["control-plane"]
	case !local:
		remedy = fmt.Sprintf("; to inspect it, run kubectl -n %s describe pods -l control-plane=%s", newest.Namespace,
			managerPods["control-plane"])
	}

	since := ""
	if newest.Spec.RenewTime != nil {
		since = fmt.Sprintf(" since %s (%s ago)", newest.Spec.RenewTime.UTC().Format(time.RFC3339),
			duration.HumanDuration(now.Sub(newest.Spec.RenewTime.Time)))
	}

	return fmt.Sprintf("no manager of this provider is running: Lease %s/%s was not renewed%s%s%s", newest.Namespace,
		newest.Name, since, stands, remedy)
}

// isFresh reports whether a manager holds a Lease. A released Lease has no holder.
func isFresh(lease *coordinationv1.Lease, now time.Time) bool {
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil {
		return false
	}

	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second

	return now.Before(lease.Spec.RenewTime.Add(duration))
}
