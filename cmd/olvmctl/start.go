package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/manifest"
)

const (
	// fieldOwner of what start and upgrade apply.
	fieldOwner = client.FieldOwner("olvmctl")
	// cloudInitOS is the operating system of templates for images with cloud-init.
	cloudInitOS = "other_linux"
	// managedBy is the label of what start makes beside the manifests, and delete takes away.
	managedBy      = "app.kubernetes.io/managed-by"
	managedByValue = "olvmctl"
	// ownLimit bounds how long a cluster is asked whether it manages itself.
	ownLimit = 10 * time.Second
)

// start are the flags of the start command.
type start struct {
	streams
	steps
	management
	access
	file          clusterFile
	image         string
	addOns        addOns
	selfManaged   bool
	kubeconfigOut string
	force         bool
	output        string
}

// started is what start has made.
type started struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Kubeconfig is the file for the cluster; Management, for its management cluster: the same where it manages itself.
	Kubeconfig string `json:"kubeconfig"`
	Management string `json:"managementKubeconfig"`
	Nodes      int    `json:"nodes"`
}

func newStartCommand(s streams) *cobra.Command {
	o := &start{streams: s, steps: steps{progress: s.err}}
	command := &cobra.Command{
		Use:   "start -f FILE",
		Short: "Make the cluster of a cluster file, from nothing to nodes that are ready",
		Long: `start asks the engine whether all that the cluster file names is there, installs
Cluster API and its providers into a management cluster without them, applies the manifests of
the cluster file, waits for the control plane, writes its kubeconfig, installs add-ons, and waits
for the nodes. It can be run again at any time: what is done already stays as it is, and where it
was interrupted it goes on.

` + managementHelp + `

The credentials of the engine are those of the environment variables OLVM_USERNAME and
OLVM_PASSWORD, or of the Secret in the management cluster that the cluster file names. Those of the
storage driver, which are on every node, are OLVM_CSI_USERNAME and OLVM_CSI_PASSWORD.

With --self-managed, or selfManaged in the cluster file, the cluster gets the providers itself, and
its objects are moved into it.`,
		Example: `  olvmctl start -f cluster.yaml --kubeconfig management.kubeconfig
  olvmctl start -f cluster.yaml --image ock-1.33.qcow2 --add-on kube-flannel.yml --self-managed`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(o.output, "text", "json"); err != nil {
				return err
			}

			defer o.remind(command.Context(), &o.steps)

			return o.run(command.Context())
		},
	}
	set := command.Flags()
	o.file.addFlags(command)
	o.addKubeconfigFlag(command)
	o.addProviderFlags(command)
	o.addDriverFlag(command)
	o.addOns.addFlags(command)
	o.access.addFlags(set)
	set.StringVar(&o.image, "image", "", "image file to make the template of, where the engine does not have it yet")
	set.BoolVar(&o.selfManaged, "self-managed", false,
		"let the cluster manage itself; it must be the only one of its namespace")
	set.StringVar(&o.kubeconfigOut, "kubeconfig-out", "",
		"file for the kubeconfig of the cluster (default ~/.kube/kubeconfig.NAME)")
	set.BoolVar(&o.force, "force-conflicts", false, "take back fields that others have changed since, such as replicas")
	set.StringVarP(&o.output, "output", "o", "text", "output: text or json")

	return command
}

func (o *start) run(ctx context.Context) error {
	cluster, err := o.file.valid(o.err)
	if err != nil {
		return err
	}

	wanted, err := o.complete(ctx, cluster)
	if err != nil {
		return err
	}

	own, err := o.reachManagement(ctx, cluster)
	if err != nil {
		return err
	}

	if o.selfManaged && !own {
		if err := o.checkAlone(ctx, cluster.Name); err != nil {
			return err
		}
	}

	workload, err := o.raise(ctx, cluster)
	if err != nil {
		return err
	}

	if err := o.furnish(ctx, cluster, workload, wanted); err != nil {
		return err
	}

	out := started{Name: cluster.Name, Namespace: o.namespace, Kubeconfig: o.kubeconfigOut, Management: o.kubeconfig}
	if o.selfManaged && !own {
		if err := o.pivot(ctx, cluster.Name); err != nil {
			return err
		}

		out.Management = o.kubeconfigOut
	}

	return o.report(ctx, workload, out)
}

// complete fills in what the cluster file decides, and returns the add-ons that are asked for.
func (o *start) complete(ctx context.Context, cluster readCluster) ([]addOn, error) {
	o.namespace = cluster.Providers.OLVM.Namespace
	o.selfManaged = o.selfManaged || cluster.Providers.OLVM.SelfManaged
	charts, err := cluster.Charts()
	if err != nil {
		return nil, err
	}

	wanted, err := o.addOns.load(ctx, charts)
	if err != nil {
		return nil, err
	}

	if o.kubeconfigOut == "" {
		if o.kubeconfigOut, err = kubeconfigPath(cluster.Name); err != nil {
			return nil, err
		}
	}

	return wanted, o.checkDriver(cluster)
}

// reachManagement connects to the management cluster, which is made where there is none. own reports that the cluster
// manages itself already.
func (o *start) reachManagement(ctx context.Context, cluster readCluster) (own bool, err error) {
	own, unsure, err := o.managesItself(ctx, cluster)
	if err != nil {
		return false, err
	}

	if !own {
		if err := o.prepare(ctx, cluster, unsure); err != nil {
			return false, err
		}

		return false, o.connect()
	}

	o.say("%s manages itself: its management cluster is the one of %s", cluster.Name, o.kubeconfigOut)
	o.kubeconfig = o.kubeconfigOut
	if err := o.connect(); err != nil {
		return false, err
	}

	return true, o.logIn(ctx, &o.management, cluster)
}

// raise applies the manifests, waits for the control plane, and connects to the cluster.
func (o *start) raise(ctx context.Context, cluster readCluster) (*management, error) {
	if err := o.do("Applying the manifests", func() error { return o.apply(ctx, cluster) }); err != nil {
		return nil, err
	}

	err := o.do("Waiting for the control plane", func() error {
		return o.until(ctx, o.timeout, o.checkControlPlane(cluster.Name))
	})
	if err != nil {
		return nil, err
	}

	return o.writeKubeconfig(ctx, cluster.Name)
}

// furnish installs the add-ons, and waits for the nodes.
func (o *start) furnish(ctx context.Context, cluster readCluster, workload *management, wanted []addOn) error {
	driver, err := o.storageDriver(ctx, cluster, workload)
	if err != nil {
		return err
	}

	if err := install(ctx, &o.steps, workload, append(wanted, driver...), o.timeout); err != nil {
		return err
	}

	return o.do("Waiting for the nodes", func() error { return o.until(ctx, o.timeout, o.checkReady(cluster.Name)) })
}

// report prints what was started.
func (o *start) report(ctx context.Context, workload *management, out started) error {
	var nodes corev1.NodeList
	if err := workload.List(ctx, &nodes); err != nil {
		return fmt.Errorf("failed to list the nodes: %w", err)
	}

	out.Nodes = len(nodes.Items)
	if o.output == "json" {
		return encode(o.out, o.output, out)
	}

	_, err := fmt.Fprintf(o.out, "The cluster %s has %d nodes. Look at it with:\n  export KUBECONFIG=%s\n",
		out.Name, out.Nodes, out.Kubeconfig)

	return err
}

// kubeconfigPath is where kubeconfigs of clusters are.
func kubeconfigPath(cluster string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("--kubeconfig-out: %w", err)
	}

	return filepath.Join(home, ".kube", "kubeconfig."+cluster), nil
}

// managesItself reports whether a kubeconfig that was written before is that of a cluster that has its own objects;
// unsure is why that cannot be known. A kubeconfig of another cluster is an error, for it would be written over.
func (o *start) managesItself(ctx context.Context, cluster readCluster) (own bool, unsure, err error) {
	if !fileExists(o.kubeconfigOut) {
		return false, nil, nil
	}

	server, err := serverOf(o.kubeconfigOut)
	if err != nil {
		return false, nil, fmt.Errorf("%w; move it away, or name another file with --kubeconfig-out", err)
	}

	wanted := wantedServer(cluster.objects)
	in := management{kubeconfig: o.kubeconfigOut, namespace: o.namespace}
	if err := in.connect(); err != nil {
		return false, nil, err
	}

	limited, cancel := context.WithTimeout(ctx, ownLimit)
	defer cancel()
	var found clusterv1.Cluster

	err = in.Get(limited, client.ObjectKey{Namespace: o.namespace, Name: cluster.Name}, &found)
	switch {
	case err == nil && (wanted == "" || wanted == server || wanted == serverAt(&found)):
		return true, nil, nil
	case wanted != "" && wanted != server:
		return false, nil, otherServer(o.kubeconfigOut, server, cluster.Name, wanted)
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return false, nil, nil // it has another management cluster
	}

	return false, fmt.Errorf(
		"whether %s manages itself is not known, for the server of %s does not answer: %w; delete or move that file "+
			"if the cluster is gone",
		cluster.Name,
		o.kubeconfigOut,
		err,
	), nil
}

// wantedServer is the server of the cluster of manifests; empty where they do not say it.
func wantedServer(objects []*unstructured.Unstructured) string {
	for _, object := range objects {
		if object.GetKind() == "OLVMCluster" {
			host, _, _ := unstructured.NestedString(object.Object, "spec", "controlPlaneEndpoint", "host")
			port, _, _ := unstructured.NestedInt64(object.Object, "spec", "controlPlaneEndpoint", "port")
			if host != "" && port != 0 {
				return "https://" + clusterv1.APIEndpoint{
					Host: host,
					Port: int32(port),
				}.String() //nolint:gosec // the schema has it
			}
		}
	}

	return ""
}

// otherServer reports that a kubeconfig is that of another cluster.
func otherServer(path, server, name, wanted string) error {
	return fmt.Errorf(
		"%s is the kubeconfig of another cluster: its server is %s, that of %s is %s; name another file with "+
			"--kubeconfig-out, or move it away",
		path,
		server,
		name,
		wanted,
	)
}

// prepare asks the engine for all that the cluster file names, and makes the template that is missing; then it has a
// management cluster. The engine of a cluster that is there already is not asked: its addresses are taken by itself.
// Where the management cluster does not have it, it may be its own: unsure is why that is not known.
func (o *start) prepare(ctx context.Context, cluster readCluster, unsure error) error {
	in, err := o.isIn(ctx, cluster.Name)
	if err != nil {
		return err
	}

	if in != nil {
		if err := o.logIn(ctx, in, cluster); err != nil {
			return err
		}

		return o.ensureManagement(ctx, &o.steps)
	}

	if unsure != nil {
		return unsure
	}

	if o.image != "" {
		err := o.do("Making the template "+cluster.Providers.OLVM.ControlPlaneMachine.VMTemplateName, func() error {
			return o.makeTemplate(ctx)
		})
		if err != nil {
			return err
		}
	}

	err = o.do("Asking the engine", func() error { return errors.Join(askEngine(ctx, cluster.objects, o.access)...) })
	if err != nil {
		return err
	}

	return o.ensureManagement(ctx, &o.steps)
}

// isIn is the management cluster if it has the cluster; else nil. A local one that has stopped is started.
func (o *start) isIn(ctx context.Context, name string) (*management, error) {
	m := o.management
	isLocal, err := m.isLocal()
	if err != nil {
		return nil, err
	}

	if isLocal && !newLocal().exists() {
		return nil, nil
	}

	if err := m.run(ctx, &o.steps); err != nil {
		return nil, err
	}

	if err := m.connect(); err != nil {
		return nil, err
	}

	err = m.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, &clusterv1.Cluster{})
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("failed to ask the management cluster for Cluster %s: %w", name, err)
	}

	return &m, nil
}

// logIn tries credentials that would take the place of those in the Secret: Cluster API and the storage driver could do
// nothing with wrong ones. It tries once, for engines lock users out after some failures.
func (o *start) logIn(ctx context.Context, in *management, cluster readCluster) error {
	given, err := o.read()
	if err != nil || given.Username == "" {
		return err
	}

	key := o.secretKey(cluster)
	var secret corev1.Secret
	if err := in.Get(ctx, key, &secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to get the credentials of the engine: %w", err)
	}

	if string(secret.Data["username"]) == given.Username && string(secret.Data["password"]) == given.Password {
		return nil
	}

	from := engineFlags{file: o.file, access: o.access}
	defer from.close(ctx)
	_, config, err := from.client()
	if err != nil {
		return err
	}

	if len(config.CA) == 0 && !config.Insecure { // then the management cluster may have it
		if config.CA, err = o.knownCA(ctx, in, cluster); err != nil {
			return err
		}
	}

	session, err := from.sessions.Get(config)
	if err != nil {
		return fmt.Errorf("the connection to the engine: %w", err)
	}

	return o.do("Logging in to the engine with other credentials", func() error {
		_, err := session.DataCenters(ctx)

		var refused *engine.AuthError
		switch {
		case errors.As(err, &refused):
			where := "OLVM_USERNAME and OLVM_PASSWORD"
			if o.credentials != "" {
				where = "--credentials"
			}

			return fmt.Errorf("%s: %w; correct it, or leave it away to go on with the Secret %s", where, refused, key)
		case err != nil:
			return fmt.Errorf("failed to try the credentials: %w", err)
		}

		return nil
	})
}

// knownCA is the CA of the engine that a management cluster has; nil for none.
func (o *start) knownCA(ctx context.Context, in *management, cluster readCluster) ([]byte, error) {
	ref := cluster.Providers.OLVM.OvirtAPIServer.CAConfigMap
	key := client.ObjectKey{Namespace: cmp.Or(ref.Namespace, o.namespace), Name: ref.Name}
	var ca corev1.ConfigMap
	if err := in.Get(ctx, key, &ca); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get the CA of the engine: %w", err)
	}

	var out []byte
	for _, certificate := range ca.Data {
		out = append(out, strings.TrimSpace(certificate)+"\n"...)
	}

	return out, nil
}

// makeTemplate makes the template of the control plane's machines, if there is none of its name.
func (o *start) makeTemplate(ctx context.Context) error {
	osType := desired.IgnitionOS
	if o.file.flavor != clusterfile.DefaultFlavor {
		osType = cloudInitOS
	}

	from := engineFlags{file: o.file, access: o.access}
	err := from.template(ctx, streams{out: io.Discard, err: indented{&o.steps}}, o.image, "", osType)
	var exists *image.ExistsError
	if errors.As(err, &exists) {
		o.say("it is there already")
		return nil
	}

	return err
}

// indented writes lines below a step.
type indented struct{ steps *steps }

func (i indented) Write(text []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		i.steps.say("%s", line)
	}

	return len(text), nil
}

// apply makes the namespace and the Secret with the credentials, and applies the manifests.
func (o *start) apply(ctx context.Context, cluster readCluster) error {
	label := map[string]string{managedBy: managedByValue}

	secretKey := o.secretKey(cluster)
	for _, name := range []string{o.namespace, secretKey.Namespace} {
		err := o.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: label}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("failed to make namespace %s: %w", name, err)
		}
	}

	if err := o.keepCredentials(ctx, secretKey, cluster.Providers.OLVM.OvirtAPIServer.ServerURL, label); err != nil {
		return err
	}

	options := []client.ApplyOption{fieldOwner}
	if o.force {
		options = append(options, client.ForceOwnership)
	}

	if err := o.follow(ctx, cluster); err != nil {
		return err
	}

	err := manifest.Apply(ctx, o.Client, cluster.objects, options...)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w\n%s: change %s, or give --force-conflicts", err,
			"somebody else has changed what the cluster file says", o.file.path)
	}

	return err
}

// follow has the manifests name the OLVMMachineTemplates that upgrade has made, where the cluster has been rolled out
// since it was started. start itself replaces no machine: a cluster file that asks for that is an error.
func (o *start) follow(ctx context.Context, cluster readCluster) error {
	err := o.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: cluster.Name}, &clusterv1.Cluster{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}

	wanted, err := o.templatesOf(ctx, cluster.objects)
	if err != nil {
		return err
	}

	for _, object := range cluster.objects {
		version, reference := machineFields(object.GetKind())
		if version == nil {
			continue
		}

		live := object.DeepCopy()
		if err := o.Get(ctx, client.ObjectKeyFromObject(object), live); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("failed to get %s %s: %w", object.GetKind(), object.GetName(), err)
		}

		now, _, _ := unstructured.NestedString(live.Object, version...)
		asked, _, _ := unstructured.NestedString(object.Object, version...)
		template, err := o.templateOf(ctx, live)
		if err != nil {
			return err
		}

		if now != asked || !equality.Semantic.DeepEqual(wanted[object.GetName()].Spec.Template.Spec,
			template.Spec.Template.Spec) {
			return fmt.Errorf(
				"%s %s has other machines than %s asks for; replace them with olvmctl upgrade %s -n %s -f %s",
				object.GetKind(),
				object.GetName(),
				o.file.path,
				cluster.Name,
				o.namespace,
				o.file.path,
			)
		}

		name, _, _ := unstructured.NestedString(object.Object, reference...)
		if err := unstructured.SetNestedField(object.Object, template.Name, reference...); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}

		for _, other := range cluster.objects {
			if other.GetKind() == "OLVMMachineTemplate" && other.GetName() == name {
				other.SetName(template.Name)
			}
		}
	}

	return nil
}

// machineFields are where the version and the name of the template of machines are in a kind; nil where it has none.
func machineFields(kind string) (version, reference []string) {
	switch kind {
	case "KubeadmControlPlane":
		return []string{"spec", "version"}, []string{"spec", "machineTemplate", "spec", "infrastructureRef", "name"}
	case "MachineDeployment":
		return []string{
				"spec",
				"template",
				"spec",
				"version",
			}, []string{
				"spec",
				"template",
				"spec",
				"infrastructureRef",
				"name",
			}
	}

	return nil, nil
}

// secretKey is the Secret with the credentials of the engine.
func (o *start) secretKey(cluster readCluster) client.ObjectKey {
	ref := cluster.Providers.OLVM.OvirtAPIServer.CredentialsSecret
	return client.ObjectKey{Namespace: cmp.Or(ref.Namespace, o.namespace), Name: ref.Name}
}

// storageDriver is the oVirt CSI driver as an add-on; none where the cluster file does not want it, or where it is
// there by default and has no credentials.
func (o *start) storageDriver(ctx context.Context, cluster readCluster, workload client.Reader) ([]addOn, error) {
	wanted, asked := cluster.WantsStorageDriver()
	if !wanted {
		return nil, nil
	}

	username, password, err := o.driverCredentials(ctx, cluster, workload)
	var missing *noDriverCredentialsError
	if errors.As(err, &missing) && !asked {
		o.say("The oVirt CSI driver is left out: %s", missing)
		return nil, nil
	} else if err != nil {
		return nil, err
	}

	objects, err := cluster.StorageDriver(username, password)
	if err != nil {
		return nil, err
	}

	return []addOn{{name: "the oVirt CSI driver", objects: objects}}, nil
}

// checkDriver says at once, and not when the cluster is up, that the storage driver of a new cluster has no
// credentials.
func (o *start) checkDriver(cluster readCluster) error {
	wanted, asked := cluster.WantsStorageDriver()
	own := cluster.Providers.OLVM.CSIDriver.Credentials != clusterfile.DriverMachines
	if wanted && asked && own && os.Getenv("OLVM_CSI_USERNAME") == "" && !fileExists(o.kubeconfigOut) {
		return fmt.Errorf("ovirtCsiDriver: %w", &noDriverCredentialsError{cluster.StorageDriverSecret()})
	}

	return nil
}

// noDriverCredentialsError reports that the storage driver has no user of the engine of its own.
type noDriverCredentialsError struct{ key client.ObjectKey }

func (e *noDriverCredentialsError) Error() string {
	return fmt.Sprintf(
		"its credentials are on every node, so that it needs a user of the engine of its own: set OLVM_CSI_USERNAME "+
			"and OLVM_CSI_PASSWORD, "+
			"or make the Secret %s in the cluster, or write ovirtCsiDriver: {credentials: %s} to give "+
			"it those of the machines",
		e.key,
		clusterfile.DriverMachines,
	)
}

// driverCredentials are those that the storage driver is given; empty where the cluster has some already, which stay.
func (o *start) driverCredentials(
	ctx context.Context, cluster readCluster, workload client.Reader,
) (username, password string, _ error) {
	var machines corev1.Secret
	if err := o.Get(ctx, o.secretKey(cluster), &machines); err != nil {
		return "", "", fmt.Errorf("failed to get the credentials of the engine: %w", err)
	}

	theirs := string(machines.Data["username"])
	if cluster.Providers.OLVM.CSIDriver.Credentials == clusterfile.DriverMachines {
		return theirs, string(machines.Data["password"]), nil
	}

	username, password = os.Getenv("OLVM_CSI_USERNAME"), os.Getenv("OLVM_CSI_PASSWORD")
	switch {
	case username != "" && password == "":
		return "", "", errors.New("OLVM_CSI_PASSWORD: it is empty, and OLVM_CSI_USERNAME is not; set both")
	case username != "" && username == theirs:
		return "", "", fmt.Errorf(
			"OLVM_CSI_USERNAME: %s is the user of the machines, and the credentials of the storage driver are on "+
				"every node; give it another user, or write ovirtCsiDriver: {credentials: %s}",
			username,
			clusterfile.DriverMachines,
		)
	case username != "":
		return username, password, nil
	}

	key := cluster.StorageDriverSecret()
	if err := workload.Get(ctx, key, &corev1.Secret{}); apierrors.IsNotFound(err) {
		return "", "", &noDriverCredentialsError{key}
	} else if err != nil {
		return "", "", fmt.Errorf("failed to look for the credentials of the storage driver: %w", err)
	}

	return "", "", nil
}

// keepCredentials writes the Secret with the credentials of the engine, where there are any.
func (o *start) keepCredentials(
	ctx context.Context, key client.ObjectKey, server string, labels map[string]string,
) error {
	credentials, err := o.read()
	if err != nil {
		return err
	}

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err = o.Get(ctx, key, secret)
	if credentials.Username == "" {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf(
				"there is no Secret %s with the credentials of the engine; set OLVM_USERNAME and OLVM_PASSWORD, or "+
					"give --credentials",
				key,
			)
		}

		return err
	}

	data := map[string][]byte{
		"username":                   []byte(credentials.Username),
		"password":                   []byte(credentials.Password),
		"scope":                      []byte(engineScope),
		infrav1.AllowedServerURLsKey: []byte(server)}

	switch {
	case apierrors.IsNotFound(err):
		secret.Labels, secret.Data = labels, data
		err = o.Create(ctx, secret)
	case err == nil:
		before := secret.DeepCopy()
		secret.Data = data
		err = o.Patch(ctx, secret, client.MergeFrom(before))
	}

	if err != nil {
		return fmt.Errorf("failed to keep the credentials of the engine in Secret %s: %w", key, err)
	}

	return nil
}

// checkControlPlane succeeds when the control plane has its first machine. Until then its error says what is missing.
func (m *management) checkControlPlane(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		cluster, err := m.cluster(ctx, name)
		if err != nil {
			return err
		}

		if ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
			return nil
		}

		return m.troubles(ctx, name)
	}
}

// checkReady succeeds when all machines have nodes that are ready, and none is to be replaced. Until then its error
// says what is missing.
func (m *management) checkReady(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		tree, err := m.describe(ctx, name)
		if err != nil {
			return err
		}

		for _, child := range tree.Children {
			if child.Waiting != "" {
				return errors.New(child.Waiting)
			}
		}

		return nil
	}
}

// troubles is what is wrong in the tree of a cluster, the innermost first.
func (m *management) troubles(ctx context.Context, name string) error {
	tree, err := m.describe(ctx, name)
	if err != nil {
		return err
	}

	return errors.New(tree.Trouble())
}

// writeKubeconfig writes the kubeconfig of the cluster, and makes a client with it.
func (o *start) writeKubeconfig(ctx context.Context, name string) (*management, error) {
	content, err := kubeconfig.FromSecret(ctx, o.Client, client.ObjectKey{Namespace: o.namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("failed to get the kubeconfig: %w", err)
	}

	if err := keepKubeconfig(o.kubeconfigOut, name, content, o.kubeconfig == o.kubeconfigOut); err != nil {
		return nil, err
	}

	workload := management{kubeconfig: o.kubeconfigOut}
	err = o.do("Waiting for the API server", func() error {
		return o.until(ctx, o.timeout, func(ctx context.Context) error {
			if err := workload.connect(); err != nil {
				return err
			}

			return workload.List(ctx, &corev1.NodeList{})
		})
	})

	return &workload, err
}

// keepKubeconfig writes the kubeconfig of a cluster to a file, unless that is of another one; own reports that it is
// known to be of this one, maybe at an address that the user has chosen.
func keepKubeconfig(path, name string, content []byte, own bool) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return fmt.Errorf("the kubeconfig of %s: %w", name, err)
	}

	if fileExists(path) {
		server, err := serverOf(path)
		switch {
		case err != nil:
			return fmt.Errorf("%w; move it away, or name another file with --kubeconfig-out", err)
		case server != config.Host && own:
			return nil
		case server != config.Host:
			return otherServer(path, server, name, config.Host)
		}
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}

	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}

	return nil
}

// checkAlone succeeds when a move of the namespace moves no other cluster.
func (o *start) checkAlone(ctx context.Context, name string) error {
	others, err := o.others(ctx, name, client.InNamespace(o.namespace))
	if err != nil || len(others) == 0 {
		return err
	}

	return fmt.Errorf(
		"a cluster that manages itself takes all Clusters of its namespace along, and beside %s there is %s; give "+
			"it a namespace of its own with providers.olvm.namespace, or let it be managed from here",
		name,
		strings.Join(others, ", "),
	)
}

// pivot installs the providers in the cluster and moves its objects there.
func (o *start) pivot(ctx context.Context, name string) error {
	if err := o.checkAlone(ctx, name); err != nil { // also those that came in the meantime
		return err
	}

	to := management{kubeconfig: o.kubeconfigOut, namespace: o.namespace}
	if err := to.connect(); err != nil {
		return err
	}

	if err := o.move(ctx, &o.steps, &to); err != nil {
		return err
	}

	err := o.do("Waiting for the cluster to manage itself", func() error {
		return o.until(ctx, o.timeout, to.checkReady(name))
	})
	if err != nil {
		return err
	}

	return o.leave(ctx, &o.steps)
}
