package mgmtcluster

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

func TestAManagerIsAliveWhileItsLeaseIsFresh(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lease := func(name, holder string, ago time.Duration) coordinationv1.Lease {
		return coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "capolvm-system", Name: name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
				RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-ago))),
			},
		}
	}

	const hour = "Lease capolvm-system/" + version.LeaseName +
		" was not renewed since 2026-01-02T02:04:05Z (60m ago); nothing is reconciled until a manager runs"

	for name, test := range map[string]struct {
		leases []coordinationv1.Lease
		local  bool
		want   string
	}{
		"it renews":  {[]coordinationv1.Lease{lease(version.LeaseName, "a", 14*time.Second)}, false, ""},
		"it is late": {[]coordinationv1.Lease{lease(version.LeaseName, "a", 16*time.Second)}, false, "(16s ago)"},
		"it is gone": {[]coordinationv1.Lease{lease(version.LeaseName, "a", time.Hour)}, false, hour},
		"it let go":  {[]coordinationv1.Lease{lease(version.LeaseName, "", time.Second)}, false, "(1s ago)"},
		"there is no": {nil, false, "no manager of this provider has run yet: no Lease " + version.LeaseName + " " +
			"found"},
		"others' only": {[]coordinationv1.Lease{lease("controller-leader-election-capi", "a", 0)}, false,
			"no manager of this provider has run yet"},
		"one of two namespaces": {[]coordinationv1.Lease{lease(version.LeaseName, "a", time.Hour),
			lease(version.LeaseName+"-0a1b2c3d", "b", 0)}, false, ""},
		"none of two namespaces": {[]coordinationv1.Lease{lease(version.LeaseName, "a", 2*time.Hour),
			lease(version.LeaseName+"-0a1b2c3d", "b", time.Hour)}, false, "-0a1b2c3d was not renewed since"},
		"the local one is gone": {[]coordinationv1.Lease{lease(version.LeaseName, "a", time.Hour)}, true,
			"olvmctl local stop and olvmctl local start"},
		"the local one never ran": {nil, true, "olvmctl local stop and olvmctl local start"},
		"without a time": {[]coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Name: version.LeaseName}}}, false,
			"no manager of this provider is running"},
	} {
		t.Run(name, func(t *testing.T) {
			got := managerTrouble(test.leases, now, test.local)
			if test.want == "" {
				check.Equal(t, "trouble", got, "")
			}

			check.Contains(t, "trouble", got, test.want)
		})
	}
}

// TestTheClockOfTheServerCounts covers a server with a clock an hour behind.
func TestTheClockOfTheServerCounts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(server.Close)

	clock := &serverClock{}
	client := http.Client{Transport: clock.wrapTransport(http.DefaultTransport)}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	check.Error(t, err, "")
	answer, err := client.Do(request)
	check.Error(t, err, "")
	check.Error(t, answer.Body.Close(), "")

	behind := time.Duration(clock.ahead.Load()) + time.Hour
	check.Equal(t, "it is an hour behind", behind.Abs() < 5*time.Second, true)
}
