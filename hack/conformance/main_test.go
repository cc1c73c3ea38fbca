package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// connection is the content of the simulator's file for its clients.
type connection struct {
	URL        string `json:"url"`
	CAFile     string `json:"ca_file"`
	Username   string `json:"username"`
	Password   string `json:"password"`
	ControlURL string `json:"control_url"`

	file string
	ca   []byte
	http *http.Client
}

// sim is the simulator of all tests.
var sim *connection

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}

	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	file := os.Getenv("OVIRTSIM_CONNECTION")
	if file == "" {
		folder, err := os.MkdirTemp("", "conformance-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(folder)
		file = filepath.Join(folder, "connection.json")
		stop, err := startSimulator(folder, file)
		if err != nil {
			return 1, err
		}
		defer stop()
	}

	var err error
	if sim, err = load(file); err != nil {
		return 1, err
	}

	flag.Parse()

	// Tests wait for the simulator and for the pauses between a client's attempts; they hardly need the processor.
	if err := flag.Set("test.parallel", "16"); err != nil {
		return 1, err
	}

	return m.Run(), nil
}

func startSimulator(folder, file string) (stop func(), err error) {
	program := filepath.Join(folder, "ovirtsim")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", program, "./cmd/ovirtsim")
	build.Dir = filepath.Join("..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the simulator does not compile: %w\n%s", err, output)
	}

	var output bytes.Buffer
	simulator := exec.CommandContext(context.Background(), program, "--connection", file, "--speed", "10",
		"--guests=none")
	simulator.Stdout, simulator.Stderr = &output, &output
	simulator.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // even if go test kills us
	if err := simulator.Start(); err != nil {
		return nil, err
	}

	ended := make(chan error, 1)
	go func() { ended <- simulator.Wait() }()
	stop = func() {
		_ = simulator.Process.Signal(os.Interrupt)
		<-ended
	}

	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return stop, nil
		}

		select {
		case err := <-ended:
			return nil, fmt.Errorf("the simulator ended: %w\n%s", err, output.String())
		default:
		}
	}

	stop()

	return nil, errors.New("the simulator does not serve")
}

func load(file string) (*connection, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	c := &connection{file: file}
	if err := json.Unmarshal(content, c); err != nil {
		return nil, err
	}

	if c.ca, err = os.ReadFile(c.CAFile); err != nil {
		return nil, err
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca)
	c.http = &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		Timeout:   limit,
	}

	return c, nil
}

// limit is the time after which a wait counts as a hang. It is long enough for slow machines.
const limit = 10 * time.Minute

// eventually waits until the engine's background work is done.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()

	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if done() {
			return
		}
	}

	t.Fatalf("it never happened: %s", what)
}
