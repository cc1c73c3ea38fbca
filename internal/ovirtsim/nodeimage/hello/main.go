// Command hello is the program of a container image. It answers on HTTP port 8080 with the name of its pod. "hello get
// URL" makes one request and prints the answer. "hello keep FOLDER" adds a record of its node to the folder, and prints
// all records.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	run := serveHello
	if len(os.Args) == 3 && os.Args[1] == "get" {
		run = func() error { return printURL(os.Args[2]) }
	}

	if len(os.Args) == 3 && os.Args[1] == "keep" {
		run = func() error { return recordNode(os.Args[2]) }
	}

	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveHello() error {
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

func printURL(url string) error {
	client := &http.Client{Timeout: 5 * time.Second}
	answer, err := client.Get(url) //nolint:noctx,gosec // it has a timeout, and a given URL
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

// recordNode adds a line to a file, and prints the file and the folder's device. Then it waits until it is stopped.
func recordNode(folder string) error {
	file, err := os.OpenFile(filepath.Join(folder, "nodes"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}

	if _, err = fmt.Fprintln(file, "started on", os.Getenv("NODE")); err == nil {
		err = errors.Join(file.Sync(), file.Close())
	}

	if err != nil {
		return err
	}

	for _, path := range []string{file.Name(), "/proc/mounts"} {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		for _, line := range strings.Split(strings.TrimSpace(string(content)), "\n") {
			if path == file.Name() || strings.Contains(line, " "+folder+" ") {
				fmt.Println(line)
			}
		}
	}

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop

	return nil
}
