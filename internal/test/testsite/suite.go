package testsite

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// Suite holds what the tests of a package with manager processes share.
type Suite struct {
	Tools   *toolchain.Toolchain
	API     *APIServer
	Program *Program
	// Dir is a folder in the cache for logs and work. It is removed after all tests succeed.
	Dir string
}

// Main creates a folder with the given name, calls prepare, runs the tests, calls tidy, and ends the process. Both
// functions may be nil.
func (s *Suite) Main(m *testing.M, name string, prepare func(context.Context) error, tidy func()) {
	ctrl.SetLogger(logr.Discard())
	code, err := s.runSuite(m, name, prepare, tidy)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Exit(code)
}

func (s *Suite) runSuite(m *testing.M, name string, prepare func(context.Context) error, tidy func()) (int, error) {
	ctx := context.Background()
	var err error
	if s.Tools, err = toolchain.New(); err != nil {
		return 0, err
	}

	s.Dir = filepath.Join(toolchain.CacheDir(), name, time.Now().Format("20060102-150405"))
	s.API, err = StartAPIServer(ctx, s.Tools)
	defer s.API.Stop()
	if err != nil {
		return 0, err
	}

	if s.Program, err = BuildManager(ctx, s.Tools, s.API, s.Dir); err != nil {
		return 0, err
	}

	if prepare != nil {
		if err := prepare(ctx); err != nil {
			return 0, err
		}
	}

	if tidy != nil {
		defer tidy()
	}

	code := testenv.RunAfterSetup(m)
	if code != 0 {
		fmt.Printf("%s: the logs of all managers are in %s\n", name, s.Dir)
	} else {
		_ = os.RemoveAll(s.Dir)
	}

	return code, nil
}
