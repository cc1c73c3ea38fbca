// Command hello is the program of a container image that answers, with the name of its pod, over HTTP on port 8080; as
// hello get URL it asks once, and prints the answer.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	run := serve
	if len(os.Args) == 3 && os.Args[1] == "get" {
		run = func() error { return get(os.Args[2]) }
	}

	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}

	server := &http.Server{
		Addr:              ":8080",
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintln(w, "hello from", name)
		}),
	}

	return server.ListenAndServe()
}

func get(url string) error {
	client := &http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url) //nolint:noctx,gosec // it has a time-out, and asks what it is told
	if err != nil {
		return err
	}
	defer answer.Body.Close()

	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}

	_, err = io.Copy(os.Stdout, answer.Body)

	return err
}
