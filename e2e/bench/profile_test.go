package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// profileCPU takes a profile of the manager's CPU time where one is asked for; what it returns waits for it.
func profileCPU(t *testing.T, n int) func() {
	t.Helper()
	if *profile == "" {
		return func() {}
	}
	done := make(chan error, 1)
	go func() {
		response, err := http.Get("http://127.0.0.1:16060/debug/pprof/profile?seconds=15")
		if err != nil {
			done <- err
			return
		}
		defer response.Body.Close()
		file, err := os.Create(filepath.Join(*profile, fmt.Sprintf("manager-%d.pprof", n)))
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
