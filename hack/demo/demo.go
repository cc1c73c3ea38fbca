package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

const (
	namespace   = "default"
	clusterName = "demo"

	// availableWithin and deletedWithin bound the two waits; warm, both take well under a minute.
	availableWithin = 5 * time.Minute
	deletedWithin   = 3 * time.Minute
)

type demo struct {
	start time.Time
	out   io.Writer
	keep  bool
	tools *toolchain.Toolchain
	dir   string
	plane *localplane.Plane
	// executor is the Terraform or OpenTofu that was found.
	executor terraform.Executable
	// applied is when the cluster's manifests were applied.
	applied time.Time
	// real reports that the VMs are Linux machines, which boot from image; netns is the name of the network namespace
	// that they and this process are in, and workload the kubeconfig of their cluster.
	real     bool
	image    nodeimage.Image
	netns    string
	workload string
}

// say prints a line of progress.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.out, "demo %4.0fs  %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) run(ctx context.Context) error {
	binDir, err := d.prepare(ctx)
	if err != nil {
		return err
	}

	options := localplane.Options{Tools: d.tools, Dir: d.dir, BinDir: binDir, Progress: d.say}
	if d.real {
		options.SimArgs = []string{"--guests=nodes", "--node-image=" + d.image.Dir(), "--node-netns=this"}
	}

	d.plane, err = localplane.Start(ctx, options)
	if err != nil {
		return err
	}

	defer func() {
		d.plane.Stop()
		d.say("everything is stopped")

		if err := d.removeKeys(); err != nil {
			d.say("%v", err)
		}
	}()

	if err := d.apply(ctx); err != nil {
		return err
	}

	if err := d.waitAvailable(ctx); err != nil {
		return err
	}

	if err := d.report(ctx); err != nil {
		return err
	}

	if d.real {
		if err := d.runPods(ctx); err != nil {
			return err
		}
	}

	if d.keep {
		d.say("staying up until Ctrl-C")
		<-ctx.Done()

		// A second Ctrl-C gives up the orderly deletion; everything is stopped all the same.
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
	}

	return d.delete(ctx)
}

// apply applies the sample with the connection to the simulator.
func (d *demo) apply(ctx context.Context) error {
	sample := "config/samples/demo.yaml"
	if d.real {
		sample = "config/samples/nodes.yaml"
	}

	content, err := os.ReadFile(filepath.Join(d.tools.Root(), sample))
	if err != nil {
		return fmt.Errorf("failed to read the sample: %w", err)
	}

	manifests := strings.NewReplacer("ENGINE_URL", d.plane.Engine.URL, "KUBERNETES_VERSION", d.image.Kubernetes).
		Replace(string(content))
	if err := os.WriteFile(d.manifestFile(), []byte(manifests), 0o600); err != nil {
		return fmt.Errorf("failed to write the manifests: %w", err)
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

	d.applied = time.Now()
	d.say("applied %d objects from %s", len(objects), sample)

	return nil
}

func (d *demo) manifestFile() string { return filepath.Join(d.dir, "demo.yaml") }

// waitAvailable waits for the Cluster, and says what changed meanwhile.
func (d *demo) waitAvailable(ctx context.Context) error {
	last := ""

	return d.poll(ctx, availableWithin, func() (bool, error) {
		if err := d.plane.Failed(); err != nil {
			return false, err
		}

		var cluster clusterv1.Cluster
		err := d.plane.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName}, &cluster)
		if err != nil {
			return false, fmt.Errorf("failed to get the Cluster: %w", err)
		}

		machines, err := d.machines(ctx)
		if err != nil {
			return false, err
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

		state := fmt.Sprintf("Cluster is %s: %d machines, %d are nodes, %d running",
			cmp.Or(cluster.Status.Phase, "new"), len(machines), nodes, running)
		if state != last {
			d.say("%s", state)
			last = state
		}

		return conditions.IsTrue(&cluster, clusterv1.ClusterAvailableCondition) && running == 3, nil
	}, d.unmet)
}

// poll looks until done; at the end it asks why it is not.
func (d *demo) poll(
	ctx context.Context, limit time.Duration, done func() (bool, error), why func(context.Context) string,
) error {
	deadline := time.Now().Add(limit)

	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}

		if time.Now().After(deadline) {
			return fmt.Errorf("gave up after %s:\n%s", limit, why(context.WithoutCancel(ctx)))
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %w", ctx.Err())
		case <-time.After(250 * time.Millisecond):
		}
	}
}

func (d *demo) machines(ctx context.Context) ([]clusterv1.Machine, error) {
	var list clusterv1.MachineList
	err := d.plane.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: clusterName,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list Machines: %w", err)
	}

	return list.Items, nil
}

func (d *demo) olvmMachines(ctx context.Context) (map[string]infrav1.OLVMMachine, error) {
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

// negativeConditions are met when they are false.
var negativeConditions = []string{
	clusterv1.PausedCondition,
	clusterv1.DeletingCondition,
	clusterv1.RemediatingCondition,
	clusterv1.RollingOutCondition,
	clusterv1.ScalingUpCondition,
	clusterv1.ScalingDownCondition,
	clusterv1.MachineUpdatingCondition,
}

// unmet lists the conditions that are not met, by object; ours first, where the cause is most often.
func (d *demo) unmet(ctx context.Context) string {
	var out strings.Builder
	list := func(kind, name string, conditions []metav1.Condition) {
		for _, c := range conditions {
			negative := slices.Contains(negativeConditions, c.Type)
			if (c.Status == metav1.ConditionTrue) == negative {
				fmt.Fprintf(&out, "  %s %s: %s is %s (%s) %s\n", kind, name, c.Type, c.Status, c.Reason,
					strings.ReplaceAll(c.Message, "\n", " "))
			}
		}
	}
	key := client.ObjectKey{Namespace: namespace, Name: clusterName}
	var olvmCluster infrav1.OLVMCluster
	if err := d.plane.Client.Get(ctx, key, &olvmCluster); err == nil {
		list("OLVMCluster", olvmCluster.Name, olvmCluster.Status.Conditions)
	}

	if machines, err := d.olvmMachines(ctx); err == nil {
		for _, name := range slices.Sorted(maps.Keys(machines)) {
			list("OLVMMachine", name, machines[name].Status.Conditions)
		}
	}

	var cluster clusterv1.Cluster
	if err := d.plane.Client.Get(ctx, key, &cluster); err == nil {
		list("Cluster", cluster.Name, cluster.Status.Conditions)
	}

	if machines, err := d.machines(ctx); err == nil {
		for _, m := range machines {
			list("Machine", m.Name, m.Status.Conditions)
		}
	}

	return out.String()
}

// report shows what happened and what to try next.
func (d *demo) report(ctx context.Context) error {
	machines, err := d.machines(ctx)
	if err != nil {
		return err
	}

	infra, err := d.olvmMachines(ctx)
	if err != nil {
		return err
	}

	d.say("Cluster is Available\n")
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

	return d.next(ctx)
}

// removeKeys removes the keys and kubeconfigs of the processes, which have ended; logs and what was rendered stay.
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

// next shows what to try next, with commands that the demo itself does not need.
func (d *demo) next(ctx context.Context) error {
	if err := d.tools.Build(ctx, "plane", "kubectl"); err != nil {
		return err
	}

	if err := d.tools.BuildProject(ctx, filepath.Join(d.tools.Root(), "bin"), "olvmctl"); err != nil {
		return err
	}

	kubectl, err := d.tools.Path("plane", "kubectl")
	if err != nil {
		return err
	}

	const password = `$(sed -n 's/.*"password": "\(.*\)".*/\1/p' `
	fmt.Fprintln(d.out, "\nTry next:")
	if d.real {
		fmt.Fprintf(d.out, "  nsenter --net=/run/netns/%s  # all that follows is in this network namespace\n", d.netns)
		fmt.Fprintf(d.out, "  %s --kubeconfig %s get pods -A -o wide\n", kubectl, d.workload)
	}

	fmt.Fprintf(d.out, "  export KUBECONFIG=%s; %s get clusters,machines,olvmclusters,olvmmachines\n",
		d.plane.Kubeconfig, kubectl)
	fmt.Fprintf(d.out, "  CAPOLVM_TERRAFORM=%s OLVM_USERNAME=%s OLVM_PASSWORD=%s%s) "+
		"bin/olvmctl plan -f %s --kubeconfig %s --ca-file %s\n",
		d.executor.Path, d.plane.Engine.Username, password, filepath.Join(d.dir, "ovirtsim.json"),
		d.manifestFile(), d.plane.Kubeconfig, d.plane.Engine.CAFile)
	fmt.Fprintf(d.out, "  %s scale machinedeployment demo-md-0 --replicas=3  # and watch it come on %s\n\n", kubectl,
		d.plane.Engine.UIURL)

	return nil
}

// delete deletes the cluster and shows that nothing is left.
func (d *demo) delete(ctx context.Context) error {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName}}
	begin := time.Now()
	d.say("deleting the cluster")
	if err := d.plane.Client.Delete(ctx, cluster); err != nil {
		return fmt.Errorf("failed to delete the Cluster: %w", err)
	}

	err := d.poll(ctx, deletedWithin, func() (bool, error) {
		err := d.plane.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)
		return err != nil && client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
	}, d.unmet)
	if err != nil {
		return err
	}

	session, err := d.plane.EngineClient()
	if err != nil {
		return err
	}

	vms, err := session.VMs(ctx)
	if err != nil {
		return err
	}

	var states corev1.SecretList
	if err := d.plane.Client.List(ctx, &states, client.MatchingLabels{"tfstate": "true"}); err != nil {
		return fmt.Errorf("failed to list the state Secrets: %w", err)
	}

	d.say("cluster deleted in %.0f s; left: %d VMs in the engine, %d Terraform states", time.Since(begin).Seconds(),
		len(vms), len(states.Items))
	if len(vms)+len(states.Items) > 0 {
		return fmt.Errorf("the engine still has %d VMs and the management cluster %d Terraform states", len(vms),
			len(states.Items))
	}

	return nil
}
