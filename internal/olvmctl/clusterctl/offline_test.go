package clusterctl

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestProvidersThatCannotBeFetchedSayWhatWorksWithoutTheInternet has typical network errors, and other errors.
func TestProvidersThatCannotBeFetchedSayWhatWorksWithoutTheInternet(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		config string
		says   bool
	}{
		"no DNS":               {err: &net.DNSError{Err: "no such host", Name: "api.github.com"}, says: true},
		"no route":             {err: &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, says: true},
		"a lost type":          {err: errors.New("Get: dial tcp 140.82.1.1:443: connect: connection refused"), says: true},
		"too many requests":    {err: errors.New("rate limit for github api has been reached"), says: true},
		"another problem":      {err: errors.New("the API server refused the CRD")},
		"a file says where":    {err: &net.DNSError{Err: "no such host"}, config: "clusterctl.yaml"},
		"there was no problem": {},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.err
			if err != nil {
				err = fmt.Errorf("failed to get cluster-api: %w", err)
			}

			got := fmt.Sprint((&Providers{Config: test.config}).explainFetch(err))
			if test.says {
				check.Contains(t, "the error", got, "--clusterctl-config")
				check.Contains(t, "the error", got, "install.md#without-the-internet")
			} else {
				check.Lacks(t, "the error", got, "--clusterctl-config")
			}
		})
	}
}
