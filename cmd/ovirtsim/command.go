package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/guest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

type flags struct {
	listen         string
	ui             string
	connection     string
	inventory      string
	printInventory bool
	state          string
	username       string
	password       string
	faults         []string
	seed           uint64
	speed          float64
	tokenLifetime  time.Duration
	keycloak       bool
	guests         string
	nodes          nodeFlags
	workload       []string
	verbose        bool
}

const long = `It serves the REST API of an oVirt engine over TLS, in XML and JSON, with an inventory of its own: data
centers, clusters, hosts, networks, storage domains, templates, VMs, disks, tags, affinity groups, image transfers.
Nothing is virtualised: a VM is an entry with the statuses of a real one.

A VM that starts reads its user data, cloud-config or Ignition, as a guest would: kubeadm init or join makes it a
node of a Kubernetes cluster in memory, which is served on the control plane endpoint. The endpoint must be a
loopback address, 127.x.y.z.

With --guests=nodes, as root on Linux, a VM that starts is a Linux machine in namespaces of the kernel: real systemd,
cloud-init, kubeadm and kubelets, on a bridge per network, with disks that outlive a power cut. make node-image builds
what they boot from.

Without --inventory there is data center Default with cluster Default, hosts host-1 to host-3 of 64 GiB each,
networks and vNIC profiles ovirtmgmt and kvm-vlan, storage domains olvm-data and olvm-data-2, templates Blank,
ol9-k8s (cloud-init) and ock-1.36 (Ignition). --print-inventory writes it as YAML to start from.

The control API is below the control URL. GET requests, summary, state, vms, disks, faults; POST faults,
expire-sessions, users/NAME/unlock, vms/NAME/crash, vms/NAME/node, hosts/NAME/fail, hosts/NAME/recover,
hosts/NAME/maintenance; DELETE faults. It needs no login: do not serve it to people whom you do not trust.`

// example has the examples in the help text.
const example = `  # A simulator whose connection is in ovirtsim.json, with a page to look at
  ovirtsim --listen 127.0.0.1:8443 --connection ovirtsim.json --ui 127.0.0.1:8080

  # What is in it
  curl -s --cacert $(jq -r .ca_file ovirtsim.json) $(jq -r .control_url ovirtsim.json)/vms

  # An inventory of your own that is kept over restarts
  ovirtsim --print-inventory >site.yaml
  ovirtsim --inventory site.yaml --state ./site

  # The second request for a VM is cut off after the VM was made; every fifth read fails
  ovirtsim --fault '{"method":"POST","path":"/api/vms$","nth":2,"count":1,"action":"cut-after"}' \
           --fault '{"method":"GET","path":"/api/","probability":0.2,"status":503}'

  # VMs whose names begin with bad- never boot
  ovirtsim --fault '{"guest":"never-boots","vm":"^bad-"}'`

// newCommand returns the command, whose output goes to out.
func newCommand(out io.Writer) *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:          "ovirtsim",
		Short:        "Simulate an oVirt engine",
		Long:         long,
		Example:      example,
		Args:         cobra.NoArgs,
		Version:      version.Version,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return runSimulator(command.Context(), f, out)
		},
	}
	command.SetVersionTemplate(version.FormatLine("ovirtsim") + "\n")
	f.addFlags(command.Flags())

	return command
}

func (f *flags) addFlags(set *pflag.FlagSet) {
	set.StringVar(&f.listen, "listen", "127.0.0.1:0", "address to listen on; port 0 selects a free port")
	set.StringVar(
		&f.ui, "ui", "",
		"loopback address of a web page that shows the contents of the engine, such as 127.0.0.1:8080",
	)
	set.StringVar(
		&f.connection, "connection", "",
		"JSON file to write when the engine is ready, with url, ca_file, username, password, control_url and ui_url",
	)

	set.StringVar(&f.inventory, "inventory", "", "YAML file with the initial inventory of the engine")
	set.BoolVar(&f.printInventory, "print-inventory", false, "print the inventory as YAML and exit")
	set.StringVar(
		&f.state, "state", "",
		"directory to keep the inventory across restarts; a saved inventory overrides --inventory",
	)

	set.StringVar(&f.username, "username", "",
		"name of the administrator (default admin@internal, or admin@ovirt@internalsso with --keycloak)")
	set.BoolVar(&f.keycloak, "keycloak", false,
		"simulate an engine with Keycloak users: the profile is internalsso, and HTTP Basic is rejected")
	set.StringVar(
		&f.password, "password", "",
		"password of the administrator (default $OVIRTSIM_PASSWORD, or a random password)",
	)

	set.StringArrayVar(
		&f.faults, "fault", nil, "fault rule in JSON, in the format of the control API; can be repeated",
	)
	set.Uint64Var(&f.seed, "seed", 0, "seed for faults with a probability; 0 selects a random seed")
	set.Float64Var(&f.speed, "speed", 1, "speed-up factor of asynchronous operations")
	set.DurationVar(&f.tokenLifetime, "token-lifetime", 30*time.Minute, "lifetime of a session after its last use")

	set.StringVar(
		&f.guests, "guests", guestsInMemory,
		"guests of the VMs: memory for nodes of in-memory clusters, nodes for Linux machines with kubelets (requires "+
			"root), or none",
	)
	f.nodes.addFlags(set)
	set.StringArrayVar(
		&f.workload, "workload-kubeconfig", nil,
		"kubeconfig of an API server that answers all requests to workload clusters except those about nodes, so "+
			"that add-ons and providers can be installed; use ENDPOINT=FILE for only the cluster with that control "+
			"plane endpoint; can be repeated",
	)
	set.BoolVar(&f.verbose, "verbose", false, "log the activity of guests")
}

// simulatorOptions returns the options of the simulator for the flags.
func (f flags) simulatorOptions() (ovirtsim.Options, error) {
	if f.speed <= 0 {
		return ovirtsim.Options{}, errors.New("--speed must be positive")
	}

	if f.password == "" {
		f.password = os.Getenv("OVIRTSIM_PASSWORD")
	}

	options := ovirtsim.Options{
		Listen:        f.listen,
		UI:            f.ui,
		Username:      f.username,
		Password:      f.password,
		Timings:       ovirtsim.DefaultTimings().Faster(f.speed),
		Keycloak:      f.keycloak,
		TokenLifetime: f.tokenLifetime,
		StateFolder:   f.state, Seed: f.seed, Inventory: ovirtsim.DefaultInventory(),
	}
	if f.guests == guestsAreNodes {
		images, err := f.nodes.nodeImages()
		if err != nil {
			return ovirtsim.Options{}, err
		}

		options.Inventory = ovirtsim.NodeInventory(images...)
	}

	if f.inventory != "" {
		var err error
		if options.Inventory, err = ovirtsim.LoadInventory(f.inventory); err != nil {
			return ovirtsim.Options{}, err
		}
	}

	for _, text := range f.faults {
		var fault ovirtsim.Fault
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&fault); err != nil {
			return ovirtsim.Options{}, fmt.Errorf("--fault %s: %w", text, err)
		}

		options.Faults = append(options.Faults, fault)
	}

	return options, nil
}

func runSimulator(ctx context.Context, f flags, out io.Writer) error {
	options, err := f.simulatorOptions()
	if err != nil {
		return err
	}

	if f.printInventory {
		content, err := yaml.Marshal(options.Inventory)
		if err != nil {
			return fmt.Errorf("failed to write the inventory: %w", err)
		}

		_, err = out.Write(content)

		return err
	}

	guests, stop, err := f.startGuests()
	if err != nil {
		return err
	}
	defer stop()

	options.Guest = guests
	server, err := ovirtsim.New(options)
	if err != nil {
		return err
	}
	defer server.Close()

	if f.connection != "" {
		if err := writeConnection(server, f.connection); err != nil {
			return err
		}

		defer removeConnection(f.connection)
		_, _ = fmt.Fprintf(out, "ovirtsim serves %s; its connection is in %s\n", server.URL(), f.connection)
	} else {
		_, _ = fmt.Fprintf(out, "ovirtsim serves %s as user %s with password %s\n%s", server.URL(), server.Username(),
			server.Password(), server.CA())
	}

	if url := server.UIURL(); url != "" {
		_, _ = fmt.Fprintf(out, "look at it on %s\n", url)
	}

	if f.guests == guestsAreNodes {
		_, _ = fmt.Fprintln(out, f.nodes.describeNetworks())
	}

	<-ctx.Done()

	return nil
}

// These are the kinds of guests.
const (
	guestsInMemory = "memory"
	guestsAreNodes = "nodes"
	guestsAreNone  = "none"
)

// startGuests starts the guests of VMs. It returns a function to stop them after the server has stopped.
func (f flags) startGuests() (_ ovirtsim.Guest, stop func(), err error) {
	log := logr.Discard()
	if f.verbose {
		log = klog.Background()
	}

	stop = func() {}

	switch f.guests {
	case guestsAreNone:
		return nil, stop, nil
	case guestsAreNodes:
		return f.nodes.startGuests(f.state, log)
	case guestsInMemory:
		guests, err := f.newMemoryGuests(log)
		return guests, stop, err
	}

	return nil, nil, fmt.Errorf("--guests %q: it is %s, %s or %s", f.guests, guestsInMemory, guestsAreNodes,
		guestsAreNone)
}

// newMemoryGuests returns guests for nodes of clusters in memory.
func (f flags) newMemoryGuests(log logr.Logger) (*guest.Guests, error) {
	guests, err := guest.New(log)
	if err != nil {
		return nil, err
	}

	for _, text := range f.workload {
		endpoint, file, _ := strings.Cut(text, "=")
		if _, _, err := net.SplitHostPort(endpoint); err != nil {
			endpoint, file = "", text
		}

		config, err := clientcmd.BuildConfigFromFlags("", file)
		if err == nil {
			err = guests.UseBackend(endpoint, config)
		}

		if err != nil {
			return nil, fmt.Errorf("--workload-kubeconfig %s: %w", text, err)
		}
	}

	return guests, nil
}

// caOf returns the path of the CA file beside a connection file.
func caOf(connection string) string { return connection + ".ca.pem" }

// removeConnection removes the files written by writeConnection, because the server has stopped.
func removeConnection(path string) {
	_ = os.Remove(path)
	_ = os.Remove(caOf(path))
}

// writeConnection writes the CA file and then the connection file. The connection file appears last and complete,
// because it tells others that the engine is serving.
func writeConnection(server *ovirtsim.Server, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("failed to resolve --connection: %w", err)
	}

	caFile := caOf(path)
	if err := os.WriteFile(caFile, server.CA(), 0o600); err != nil {
		return fmt.Errorf("failed to write the CA: %w", err)
	}

	content, err := json.MarshalIndent(ovirtsim.Connection{
		URL:        server.URL(),
		CAFile:     caFile,
		Username:   server.Username(),
		Password:   server.Password(),
		ControlURL: server.ControlURL(),
		UIURL:      server.UIURL(),
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
