// Command ovirtsim runs the engine simulator.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/guest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(os.Stdout).ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

type flags struct {
	listen     string
	connection string
	username   string
	password   string
	speed      float64
	noGuests   bool
	verbose    bool
}

func newCommand(out io.Writer) *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:   "ovirtsim",
		Short: "Simulate an oVirt engine",
		Long: `ovirtsim serves the REST API of an oVirt engine over TLS, with a small inventory: data center Default, cluster
Default with hosts host-1 to host-3, networks and vNIC profiles ovirtmgmt and kvm-vlan, storage domains olvm-data
and olvm-data-2, templates Blank, ol9-k8s (cloud-init) and ock-1.36 (Ignition).

A VM that starts reads its user data as a guest would: kubeadm init or join makes it a node of a Kubernetes cluster
in memory, which is served on the control plane endpoint. The endpoint must be a loopback address, 127.x.y.z.

The control API is below the control URL: GET requests, summary, vms; POST faults, expire-sessions; DELETE faults.`,
		Example: `  ovirtsim --listen 127.0.0.1:8443 --connection ovirtsim.json
  curl --cacert $(jq -r .ca_file ovirtsim.json) $(jq -r .control_url ovirtsim.json)/vms`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: false,
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), f, out)
		},
	}
	command.Flags().StringVar(&f.listen, "listen", "127.0.0.1:0", "address to serve on; port 0 takes a free one")
	command.Flags().StringVar(&f.connection, "connection", "", "file to write once the engine serves: JSON with url, ca_file, username, password, control_url")
	command.Flags().StringVar(&f.username, "username", "admin@internal", "the only user")
	command.Flags().StringVar(&f.password, "password", "", "the user's password; empty takes $OVIRTSIM_PASSWORD, else makes a random one")
	command.Flags().Float64Var(&f.speed, "speed", 1, "how much faster than usual asynchronous operations go")
	command.Flags().BoolVar(&f.noGuests, "no-guests", false, "start VMs without anything running in them")
	command.Flags().BoolVar(&f.verbose, "verbose", false, "log what guests do")
	return command
}

func run(ctx context.Context, f flags, out io.Writer) error {
	if f.speed <= 0 {
		return errors.New("--speed must be positive")
	}
	if f.password == "" {
		f.password = os.Getenv("OVIRTSIM_PASSWORD")
	}
	options := ovirtsim.Options{Listen: f.listen, Username: f.username, Password: f.password, Timings: scaled(ovirtsim.DefaultTimings(), f.speed)}
	if !f.noGuests {
		log := logr.Discard()
		if f.verbose {
			log = klog.Background()
		}
		guests, err := guest.New(log)
		if err != nil {
			return err
		}
		options.Guest = guests
	}
	server, err := ovirtsim.New(options)
	if err != nil {
		return err
	}
	defer server.Close()
	if f.connection != "" {
		if err := writeConnection(server, f.connection); err != nil {
			return err
		}
		defer os.Remove(f.connection)
		_, _ = fmt.Fprintf(out, "ovirtsim serves %s; the way to it is in %s\n", server.URL(), f.connection)
	} else {
		_, _ = fmt.Fprintf(out, "ovirtsim serves %s as user %s with password %s\n%s", server.URL(), server.Username(), server.Password(), server.CA())
	}
	<-ctx.Done()
	return nil
}

func scaled(t ovirtsim.Timings, speed float64) ovirtsim.Timings {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) / speed) }
	return ovirtsim.Timings{Clone: scale(t.Clone), Launch: scale(t.Launch), PowerUp: scale(t.PowerUp), PowerDown: scale(t.PowerDown)}
}

// writeConnection writes the CA beside the connection file, and that file last and whole: it says that the engine serves.
func writeConnection(server *ovirtsim.Server, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("failed to resolve --connection: %w", err)
	}
	caFile := path + ".ca.pem"
	if err := os.WriteFile(caFile, server.CA(), 0o600); err != nil {
		return fmt.Errorf("failed to write the CA: %w", err)
	}
	content, err := json.MarshalIndent(ovirtsim.Connection{
		URL: server.URL(), CAFile: caFile, Username: server.Username(), Password: server.Password(), ControlURL: server.ControlURL(),
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("failed to encode the connection: %w", err)
	}
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("failed to write the connection: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("failed to write the connection: %w", err)
	}
	return nil
}
