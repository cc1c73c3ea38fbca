package bench

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

const profilerAddress = "127.0.0.1:16060"

// profiling returns the manager's flags for profiles, if the user requests profiles.
func profiling() []string {
	if *profile == "" {
		return nil
	}

	return []string{"--profiler-address=" + profilerAddress}
}

// takeProfile writes a profile of the manager to a file, if the user requests profiles. The returned function waits
// until the profile is written.
func takeProfile(t *testing.T, what, name string) (wait func()) {
	t.Helper()
	if *profile == "" {
		return func() {}
	}

	done := make(chan error, 1)
	go func() {
		response, err := http.Get("http://" + profilerAddress + "/debug/pprof/" + what)
		if err != nil {
			done <- err
			return
		}
		defer response.Body.Close()
		file, err := os.Create(filepath.Join(*profile, name))
		if err == nil {
			_, err = io.Copy(file, response.Body)
			_ = file.Close()
		}

		done <- err
	}()

	return func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
