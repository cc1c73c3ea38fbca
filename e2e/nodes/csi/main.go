// Command csi replaces those programs in the oVirt CSI driver's manifests that no Go module contains. These are the
// driver itself, the sidecars for provisioning and registration, and the probe. The attacher is the original program.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// driverName is the name of the driver in the manifests.
const driverName = "csi.ovirt.org"

// flags are the flags of the containers in the manifests.
var flags struct {
	endpoint, node, socket, registrationPath, features string
	healthPort                                         int
}

func main() {
	set := flag.NewFlagSet("csi", flag.ExitOnError)
	set.StringVar(&flags.endpoint, "endpoint", "", "")
	set.StringVar(&flags.node, "node-name", "", "")
	set.StringVar(&flags.socket, "csi-address", "", "")
	set.StringVar(&flags.registrationPath, "kubelet-registration-path", "", "")
	set.StringVar(&flags.features, "feature-gates", "", "")
	set.IntVar(&flags.healthPort, "health-port", 0, "")
	_ = set.Parse(os.Args[2:])

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	run := map[string]func(context.Context) error{
		"driver": drive, "provisioner": provision, "registrar": register, "probe": probe,
		"idle": func(ctx context.Context) error { <-ctx.Done(); return nil },
	}[os.Args[1]]
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing is left to do
	}
}

// serve serves on a Unix socket until ctx ends.
func serve(ctx context.Context, path string, add func(*grpc.Server)) error {
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path) //nolint:noctx // immediate
	if err != nil {
		return err
	}

	server := grpc.NewServer()
	add(server)
	context.AfterFunc(ctx, server.Stop)

	return server.Serve(listener)
}

// dial connects to the driver.
func dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+flags.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// drive runs the driver. On a node, whose name is in a flag, the driver mounts volumes. Elsewhere, it calls the engine.
func drive(ctx context.Context) error {
	node, err := nodeID(ctx)
	if err != nil {
		return err
	}

	return serve(ctx, strings.TrimPrefix(flags.endpoint, "unix://"), func(server *grpc.Server) {
		csi.RegisterIdentityServer(server, &identity{})
		csi.RegisterNodeServer(server, &mounter{node: node})
		csi.RegisterControllerServer(server, &controller{})
	})
}

type identity struct {
	csi.UnimplementedIdentityServer
}

func (identity) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "stand-in"}, nil
}

func (identity) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{
		Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{
			Type: csi.PluginCapability_Service_CONTROLLER_SERVICE,
		}},
	}}}, nil
}

func (identity) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// register registers the driver with the kubelet.
func register(ctx context.Context) error {
	return serve(ctx, "/registration/"+driverName+"-reg.sock", func(server *grpc.Server) {
		registration.RegisterRegistrationServer(server, registrar{})
	})
}

type registrar struct {
	registration.UnimplementedRegistrationServer
}

func (registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: driverName, Endpoint: flags.registrationPath,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !status.GetPluginRegistered() {
		fmt.Fprintln(os.Stderr, "the kubelet refuses the driver:", status.GetError())
	}

	return &registration.RegistrationStatusResponse{}, nil
}

// probe answers as long as the driver answers.
func probe(context.Context) error {
	connection, err := dial()
	if err != nil {
		return err
	}

	server := &http.Server{
		Addr:              fmt.Sprintf(":%d", flags.healthPort),
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := csi.NewIdentityClient(connection).Probe(r.Context(), &csi.ProbeRequest{}); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		}),
	}

	return server.ListenAndServe()
}
