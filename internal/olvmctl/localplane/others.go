package localplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// This file starts third-party providers. Each has its own tools module.

const (
	ipamProgram = "capi-ipam-in-cluster"
	ociProgram  = "capoci"
)

// otherPrograms are the programs of these providers.
var otherPrograms = []string{ipamProgram, ociProgram}

// StartIPAM installs and starts the in-cluster IPAM provider. `make tools-ipam` builds it.
func (p *Plane) StartIPAM(ctx context.Context) error {
	const name = ipamProgram
	program, err := p.options.Tools.Path("ipam", name)
	if err != nil {
		return err
	}

	crds, err := manifest.ReadFiles(filepath.Join(filepath.Dir(program), "manifests", name, "crd"))
	if err != nil {
		return err
	}

	if err := p.installCRDs(ctx, crds); err != nil {
		return err
	}

	ports, err := FreePorts(2)
	if err != nil {
		return err
	}

	process, err := p.runOther(name, program, []string{
		"--kubeconfig=" + p.Kubeconfig, "--webhook-port=0", fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d",
			ports[0]),
		fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", ports[1]), "--insecure-diagnostics",
	})
	if err != nil {
		return err
	}

	return process.WaitUntil(ctx, "ready", NewHTTPCheck(fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[0])))
}

// Others are the third-party providers of a local plane, by name.
var Others = map[string]Other{
	"oci": {
		Module: "oci",
		Start:  func(ctx context.Context, p *Plane) error { return p.StartOCI(ctx, networkEnv()...) },
	},
}

// networkEnv returns the settings in this process's environment for reaching the cloud.
func networkEnv() []string {
	var out []string

	for _, name := range []string{
		"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR",
	} {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}

	return out
}

// Other defines how to build and start a third-party provider.
type Other struct {
	// Module is the tools module with the provider.
	Module string
	Start  func(context.Context, *Plane) error
}

// StartOCI installs and starts Cluster API Provider OCI. `make tools-oci` builds it. The provider has no credentials,
// because clusters name an OCIClusterIdentity. env is added to the environment of its manager.
func (p *Plane) StartOCI(ctx context.Context, env ...string) error {
	const name = ociProgram
	program, err := p.options.Tools.Path("oci", name)
	if err != nil {
		return err
	}

	manifests := filepath.Join(filepath.Dir(program), "manifests", name)
	crds, err := manifest.ReadFiles(filepath.Join(manifests, "crd"))
	if err != nil {
		return err
	}

	hooks, err := manifest.ReadFiles(filepath.Join(manifests, "webhook"))
	if err != nil {
		return err
	}

	ports, err := FreePorts(3)
	if err != nil {
		return err
	}

	certDir := filepath.Join(p.options.Dir, name+"-certs")
	ca, err := p.writeWebhookCertificate(certDir)
	if err != nil {
		return err
	}

	hooks = onlyKinds(hooks, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
	redirectWebhooks(hooks, name, ports[0], ca)
	labelOCIContract(crds)
	redirectWebhooks(crds, name, ports[0], ca)
	if err := p.installCRDs(ctx, crds); err != nil {
		return err
	}

	if err := p.startOCIManager(ctx, name, program, certDir, ports, env); err != nil {
		return err
	}

	if err := Apply(ctx, p.Client, hooks...); err != nil {
		return err
	}

	return p.addToInventory(ctx, provider{
		name: "oci", kind: string(clusterctlv1.InfrastructureProviderType),
		namespace: "cluster-api-provider-oci-system",
		version:   p.options.Tools.Version("oci", "github.com/oracle/cluster-api-provider-oci"),
	})
}

// startOCIManager starts the manager of the provider, and waits until it is ready. ports are the ports for webhooks,
// probes and metrics.
func (p *Plane) startOCIManager(ctx context.Context, name, program, certDir string, ports []int, env []string) error {
	process, err := p.runOther(name, program, []string{
		"--kubeconfig=" + p.Kubeconfig,
		"--webhook-cert-dir=" + certDir,
		fmt.Sprintf("--webhook-port=%d", ports[0]),
		fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", ports[1]),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", ports[2]),
		"--init-oci-clients-on-startup=false",
	}, env...)
	if err != nil {
		return err
	}

	return process.WaitUntil(ctx, "ready", NewHTTPCheck(fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[1])))
}

// labelOCIContract labels the CRDs as the kustomization of Cluster API Provider OCI does: all versions serve contract
// v1beta1.
func labelOCIContract(crds []*unstructured.Unstructured) {
	for _, crd := range crds {
		setLabel(crd, "cluster.x-k8s.io/v1beta1", "v1beta1_v1beta2")
	}
}
