package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

const (
	namespace   = "default"
	clusterName = "demo"

	// wantedMachines is the number of machines in the cluster of each sample.
	wantedMachines = 3

	// availableWithin and deletedWithin limit the two waits. They suffice for very busy machines; usually, each wait
	// takes much less than a minute. Permanent failures end a wait at once.
	availableWithin = 10 * time.Minute
	deletedWithin   = 5 * time.Minute
)

type demo struct {
	start time.Time
	// out receives progress and results, and errors the reasons of failures.
	out, errors io.Writer
	keep        bool
	tools       *toolchain.Toolchain
	// binDir contains our manager and the simulator.
	binDir string
	// dir is the folder of this run.
	dir   string
	plane *simplane.Plane
	// executor is the Terraform or OpenTofu that the demo uses.
	executor terraform.Executable
	// explained reports that the demo has already explained its failure.
	explained bool
	// real reports that the VMs are Linux machines that boot from image. The namespace netns contains the network of
	// the VMs and of this process. The file workload is the cluster's kubeconfig.
	real     bool
	image    nodeimage.Image
	netns    string
	workload string
}

// reportProgress prints a line of progress.
func (d *demo) reportProgress(format string, args ...any) {
	fmt.Fprintf(d.out, "demo %4.0fs  %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) runDemo(ctx context.Context) error {
	if err := d.buildTools(ctx); err != nil {
		return err
	}

	dir, inUse, err := makeRunDir(filepath.Join(toolchain.CacheDir(), "demo"), time.Now())
	if err != nil {
		return err
	}
	defer inUse.Close()

	d.dir = dir

	options := simplane.Options{
		Options: localplane.Options{Tools: d.tools, Dir: d.dir, BinDir: d.binDir, Progress: d.reportProgress},
	}
	if d.real {
		options.SimArgs = []string{"--guests=nodes", "--node-image=" + d.image.Dir(), "--node-netns=this"}
	}

	if d.plane, err = simplane.Start(ctx, options); err != nil {
		return err
	}

	defer func() {
		d.plane.Stop()
		d.reportProgress("everything is stopped")

		if err := d.removeKeys(); err != nil {
			d.reportProgress("%v", err)
		}
	}()

	return d.runPlane(ctx)
}

// runPlane shows the product on the plane, and deletes its objects.
func (d *demo) runPlane(ctx context.Context) error {
	err := d.showCluster(ctx)
	if err != nil {
		d.explainFailure(err)
	}

	if d.keep && ctx.Err() == nil {
		err = cmp.Or(err, d.stayUp(ctx))

		// A second Ctrl-C aborts the orderly deletion. All processes end anyway.
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
	}

	if err == nil {
		err = d.deleteCluster(ctx)
	}

	if err != nil {
		d.explainFailure(err)
	}

	return err
}

// showCluster creates the cluster and shows it.
func (d *demo) showCluster(ctx context.Context) error {
	if err := d.applySample(ctx); err != nil {
		return err
	}

	if err := d.waitAvailable(ctx); err != nil {
		return err
	}

	if err := d.showResult(ctx); err != nil {
		return err
	}

	if err := d.showPlans(ctx); err != nil {
		return err
	}

	if !d.real {
		return nil
	}

	return d.runPods(ctx)
}

// applySample applies the sample with the connection to the simulator.
func (d *demo) applySample(ctx context.Context) error {
	manifests, sample, err := d.prepareManifests()
	if err != nil {
		return err
	}

	objects, err := manifest.Read([]byte(manifests))
	if err != nil {
		return err
	}

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo-ovirt-credentials"},
		StringData: map[string]string{
			"username":                   d.plane.Engine.Username,
			"password":                   d.plane.Engine.Password,
			"scope":                      "ovirt-app-api",
			infrav1.AllowedServerURLsKey: d.plane.Engine.URL,
		},
	}

	ca := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo-ovirt-ca"},
		Data:       map[string]string{"ca.crt": string(d.plane.EngineCA)},
	}
	for _, object := range []client.Object{secret, ca} {
		if err := d.plane.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("failed to create %T: %w", object, err)
		}
	}

	if err := localplane.Apply(ctx, d.plane.Client, objects...); err != nil {
		return err
	}

	d.reportProgress("applied %d objects from %s", len(objects), sample)

	return nil
}

// prepareManifests returns the sample's manifests for this engine, in a network that no other demo uses. It also writes
// the manifests to a file.
func (d *demo) prepareManifests() (manifests, sample string, err error) {
	sample = "config/samples/demo.yaml"
	if d.real {
		sample = "config/samples/nodes.yaml"
	}

	content, err := os.ReadFile(filepath.Join(d.tools.Root(), sample))
	if err != nil {
		return "", "", fmt.Errorf("failed to read the sample: %w", err)
	}

	manifests = strings.NewReplacer("ENGINE_URL", d.plane.Engine.URL, "KUBERNETES_VERSION", d.image.Kubernetes).
		Replace(string(content))

	if !d.real { // a demo with real nodes has its own network namespace
		var moved string
		if manifests, moved, err = inFreeNetwork(manifests); err != nil {
			return "", "", err
		}

		if moved != "" {
			d.reportProgress("%s", moved)
		}
	}

	if err := os.WriteFile(d.manifestFile(), []byte(manifests), 0o600); err != nil {
		return "", "", fmt.Errorf("failed to write the manifests: %w", err)
	}

	return manifests, sample, nil
}

const (
	// sampleNetwork, endpointHost and endpointPort are the address of the sample's cluster.
	sampleNetwork = "127.20.30"
	endpointHost  = 5
	endpointPort  = 6443
	// otherPort is for hosts on which another process, such as an API server, listens on endpointPort of all addresses.
	otherPort = 16443
)

// inFreeNetwork moves manifests to a free network. If this is not the sample's network, moved describes it.
func inFreeNetwork(manifests string) (out, moved string, err error) {
	port := endpointPort

	network, err := localplane.FreeNetwork(sampleNetwork, endpointHost, port)
	if err != nil {
		port = otherPort
		network, err = localplane.FreeNetwork(sampleNetwork, endpointHost, port)
	}

	if err != nil {
		return "", "", err
	}

	out = strings.NewReplacer(
		sampleNetwork+".", network+".", fmt.Sprintf("port: %d", endpointPort), fmt.Sprintf("port: %d", port),
	).Replace(manifests)

	if out != manifests {
		moved = fmt.Sprintf("%s.%d:%d is in use on this machine; the cluster is in %s.0/24, at port %d",
			sampleNetwork, endpointHost, endpointPort, network, port)
	}

	return out, moved, nil
}

func (d *demo) manifestFile() string { return filepath.Join(d.dir, "demo.yaml") }

// waitAvailable waits until the Cluster is available, and prints changes until then.
func (d *demo) waitAvailable(ctx context.Context) error {
	return d.waitForGoal(ctx, goal{
		unmet:   "the cluster is not available",
		limit:   availableWithin,
		broken:  d.findFailure,
		missing: d.describeTrouble,
		look: func(ctx context.Context) (string, bool, error) {
			var cluster clusterv1.Cluster
			err := d.plane.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, &cluster)
			if err != nil {
				return "", false, fmt.Errorf("failed to get the Cluster: %w", err)
			}

			machines, err := d.listMachines(ctx)
			if err != nil {
				return "", false, err
			}

			running, nodes := 0, 0

			for _, m := range machines {
				if m.Status.NodeRef.Name != "" {
					nodes++
				}

				if m.Status.Phase == string(clusterv1.MachinePhaseRunning) {
					running++
				}
			}

			seen := fmt.Sprintf("Cluster is %s: %s, %s, %d running", cmp.Or(cluster.Status.Phase, "new"),
				english.Plural(len(machines), "machine", ""), english.Plural(nodes, "node", ""), running)

			available := conditions.IsTrue(&cluster, clusterv1.ClusterAvailableCondition)

			return seen, available && running == wantedMachines, nil
		},
	})
}

func (d *demo) listMachines(ctx context.Context) ([]clusterv1.Machine, error) {
	var list clusterv1.MachineList
	err := d.plane.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: clusterName,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list Machines: %w", err)
	}

	return list.Items, nil
}

func (d *demo) listOLVMMachines(ctx context.Context) (map[string]infrav1.OLVMMachine, error) {
	var list infrav1.OLVMMachineList
	if err := d.plane.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list OLVMMachines: %w", err)
	}

	out := map[string]infrav1.OLVMMachine{}
	for _, m := range list.Items {
		out[m.Name] = m
	}

	return out, nil
}

// showResult shows the result and suggests next steps.
func (d *demo) showResult(ctx context.Context) error {
	machines, err := d.listMachines(ctx)
	if err != nil {
		return err
	}

	infra, err := d.listOLVMMachines(ctx)
	if err != nil {
		return err
	}

	d.reportProgress("Cluster is Available\n")
	table := tabwriter.NewWriter(d.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "MACHINE\tVM ID\tADDRESS\tNODE\tPHASE\tSECONDS TO READY")
	var runs int64
	var seconds float64
	example := ""

	for _, m := range machines {
		o, ok := infra[m.Spec.InfrastructureRef.Name]
		if !ok || o.Status.OLVM == nil || o.Status.Terraform == nil || o.Status.Terraform.LastRun == nil {
			return fmt.Errorf("OLVMMachine %s has no status of its VM or its Terraform run",
				m.Spec.InfrastructureRef.Name)
		}

		ready := "-"
		if at := conditions.GetLastTransitionTime(&m, clusterv1.MachineReadyCondition); at != nil {
			ready = fmt.Sprintf("%.0f", at.Sub(m.CreationTimestamp.Time).Seconds())
		}

		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, o.Status.OLVM.VirtualMachine.VMID,
			o.Status.OLVM.IPAddress, m.Status.NodeRef.Name, m.Status.Phase, ready)
		runs += o.Status.Terraform.Runs
		seconds += o.Status.Terraform.LastRun.CompletionTime.Sub(o.Status.Terraform.LastRun.StartTime.Time).Seconds()
		example = filepath.Join(d.plane.WorkDir, o.Namespace, o.Name+"-"+string(o.UID))
	}

	if err := table.Flush(); err != nil {
		return fmt.Errorf("failed to print: %w", err)
	}

	copied := filepath.Join(d.dir, "rendered")
	if err := os.CopyFS(copied, os.DirFS(example)); err != nil {
		return fmt.Errorf("failed to copy the rendered configuration: %w", err)
	}

	fmt.Fprintf(d.out, "\nTerraform runs: %d, %.1f s in all. The rendered HCL of one machine: %s\n\n",
		runs, seconds, filepath.Join(copied, "main.tf"))

	if !d.keep {
		fmt.Fprintln(d.out, "make demo KEEP=1 stays up, and shows what to try next.")
		return nil
	}

	return d.printSuggestions(ctx)
}

// removeKeys removes the keys and kubeconfigs of the ended processes. Logs and rendered files stay.
func (d *demo) removeKeys() error {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("failed to remove the keys of the demo: %w", err)
	}

	kept := []string{"rendered", filepath.Base(d.manifestFile())}

	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".log" || slices.Contains(kept, entry.Name()) {
			continue
		}

		if err := os.RemoveAll(filepath.Join(d.dir, entry.Name())); err != nil {
			return fmt.Errorf("failed to remove the keys of the demo: %w", err)
		}
	}

	return nil
}

// deleteCluster deletes the cluster and shows that nothing of it is left.
func (d *demo) deleteCluster(ctx context.Context) error {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName}}
	begin := time.Now()
	d.reportProgress("deleting the cluster")
	if err := d.plane.Client.Delete(ctx, cluster); err != nil {
		return fmt.Errorf("failed to delete the Cluster: %w", err)
	}

	if err := d.waitDeleted(ctx, cluster); err != nil {
		return err
	}

	session, err := d.plane.EngineClient()
	if err != nil {
		return err
	}

	vms, err := session.ListVMs(ctx)
	if err != nil {
		return err
	}

	var states corev1.SecretList
	if err := d.plane.Client.List(ctx, &states, client.MatchingLabels{"tfstate": "true"}); err != nil {
		return fmt.Errorf("failed to list the state Secrets: %w", err)
	}

	d.reportProgress(
		"cluster deleted in %.0f s; left: %d VMs in the engine, %d Terraform states", time.Since(begin).Seconds(),
		len(vms), len(states.Items),
	)
	if len(vms)+len(states.Items) > 0 {
		return fmt.Errorf("the engine still has %d VMs and the management cluster %d Terraform states", len(vms),
			len(states.Items))
	}

	return nil
}

// waitDeleted waits until the Cluster is gone. The processes in the Cluster's VMs no longer matter.
func (d *demo) waitDeleted(ctx context.Context, cluster *clusterv1.Cluster) error {
	return d.waitForGoal(ctx, goal{
		unmet: "the cluster is not deleted", limit: deletedWithin, missing: d.describeTrouble,
		broken: func(context.Context) error { return d.plane.Failed() },
		look: func(ctx context.Context) (string, bool, error) {
			err := d.plane.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
			if err != nil {
				return "", apierrors.IsNotFound(err), client.IgnoreNotFound(err)
			}

			machines, err := d.listMachines(ctx)

			return english.Plural(len(machines), "machine", "") + " left", false, err
		},
	})
}
