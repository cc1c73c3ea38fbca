package api_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// started is a real API server without controllers, for the tests in need of one.
var started struct {
	sync.Once
	api *testsite.APIServer
	err error
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	started.api.Stop()
	os.Exit(code)
}

// startedServer returns the API server of the package.
func startedServer(t *testing.T) *testsite.APIServer {
	t.Helper()
	started.Do(func() {
		tools, err := toolchain.New()
		if err != nil {
			started.err = err
			return
		}

		started.api, started.err = testsite.StartAPIServer(context.Background(), tools)
	})
	check.Error(t, started.err, "")

	return started.api
}
