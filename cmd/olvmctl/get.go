package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kyaml "sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clustertree"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

func newGetCommand(s streams) *cobra.Command {
	var f getFlags
	command := &cobra.Command{
		Use:   "get",
		Short: "List clusters or machines, or print the kubeconfig of a cluster",
		Example: `  olvmctl get clusters -A
  olvmctl get machines -n prod -o wide
  olvmctl get cluster prod -n prod -o json
  olvmctl get machines -n prod -l cluster.x-k8s.io/control-plane -w`,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Help()
			}

			kind, _, _ := strings.Cut(args[0], "/") // handles get cluster/prod

			switch {
			case args[0] == kind:
			case slices.Contains(clusterWords, kind):
				return listObjects(command.Context(), s, &f, args, clusterListing)
			case slices.Contains(machineWords, kind):
				return listObjects(command.Context(), s, &f, args, machineListing)
			}

			return unknownCommand(command, args)
		},
	}
	f.addFlags(command)
	command.AddCommand(newGetKubeconfigCommand(s), newGetClustersCommand(s), newGetMachinesCommand(s))

	return command
}

func newGetKubeconfigCommand(s streams) *cobra.Command {
	var management managementFlags
	var output outputFlag
	command := &cobra.Command{
		Use:               "kubeconfig CLUSTER",
		Short:             "Print the kubeconfig of a cluster",
		Args:              requireName("CLUSTER", "the name of a cluster", clusterWords),
		ValidArgsFunction: management.completeClusters,
		RunE: func(command *cobra.Command, args []string) error {
			return getKubeconfig(command.Context(), s, management.Options, nameOf(args, clusterWords), output)
		},
	}
	management.addFlags(command)
	output.addFlag(command, formatYAML)

	return command
}

func getKubeconfig(
	ctx context.Context, s streams, management mgmtcluster.Options, name string, output outputFlag,
) error {
	in, err := mgmtcluster.ConnectInstalled(ctx, management)
	if err != nil {
		return err
	}

	if _, err := in.GetCluster(ctx, name); err != nil {
		return err
	}

	content, err := kubeconfig.FromSecret(ctx, in.Client, client.ObjectKey{Namespace: in.Namespace, Name: name})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("cluster %[1]s has no kubeconfig yet, because its control plane is not initialized; see "+
			"olvmctl describe %[1]s -n %[2]s", name, in.Namespace)
	} else if err != nil {
		return fmt.Errorf("failed to get the kubeconfig: %w", err)
	}

	if output.format == formatJSON {
		if content, err = kyaml.YAMLToJSON(content); err != nil {
			return fmt.Errorf("failed to encode the kubeconfig: %w", err)
		}

		content = append(content, '\n')
	}

	_, err = s.out.Write(content)

	return err
}

// getFlags are the flags of the commands that list objects.
type getFlags struct {
	managementFlags
	all, watch, noHeaders, showLabels bool
	selector                          string
	output                            outputFlag
}

func (f *getFlags) addFlags(command *cobra.Command) {
	f.managementFlags.addFlags(command)
	set := command.Flags()
	set.BoolVarP(&f.all, "all-namespaces", "A", false, "list objects in all namespaces")
	set.StringVarP(&f.selector, "selector", "l", "",
		"list objects with these labels, such as -l key=value,other!=value")
	set.BoolVarP(&f.watch, "watch", "w", false, "watch for changes after listing the objects")
	set.BoolVar(&f.noHeaders, "no-headers", false, "print tables without headers")
	set.BoolVar(&f.showLabels, "show-labels", false, "print labels in the last column of tables")
	f.output.addFlag(command, formatTable, formatWide, formatName)
}

func newGetClustersCommand(s streams) *cobra.Command {
	var f getFlags
	command := &cobra.Command{
		Use:               "clusters [CLUSTER...]",
		Aliases:           clusterWords[1:],
		Short:             "List the clusters of a management cluster",
		ValidArgsFunction: f.completeManyClusters,
		RunE: func(command *cobra.Command, args []string) error {
			return listObjects(command.Context(), s, &f, args, clusterListing)
		},
	}
	f.addFlags(command)

	return command
}

func newGetMachinesCommand(s streams) *cobra.Command {
	var f getFlags
	command := &cobra.Command{
		Use:               "machines [MACHINE...]",
		Aliases:           machineWords[1:],
		Short:             "List the machines of clusters, with their VMs",
		ValidArgsFunction: f.completeManyMachines,
		RunE: func(command *cobra.Command, args []string) error {
			return listObjects(command.Context(), s, &f, args, machineListing)
		},
	}
	f.addFlags(command)

	return command
}

// listing defines how to list the objects of a kind.
type listing[T any] struct {
	what  string
	kind  schema.GroupVersionKind
	words []string
	// watched are the types of the listed objects.
	watched []client.Object
	list    func(context.Context, client.Reader, string, client.ListOption) ([]T, error)
	table   func([]T, time.Time) *metav1.Table
	key     func(T) client.ObjectKey
}

var clusterListing = listing[clustertree.Overview]{
	what: "clusters", kind: clustertree.ClusterKind, words: clusterWords,
	watched: []client.Object{&clusterv1.Cluster{}, &controlplanev1.KubeadmControlPlane{}},
	list: func(
		ctx context.Context, from client.Reader, namespace string, of client.ListOption,
	) ([]clustertree.Overview, error) {
		return clustertree.List(ctx, from, client.InNamespace(namespace), of)
	},
	table: clustertree.ClusterTable,
	key: func(c clustertree.Overview) client.ObjectKey {
		return client.ObjectKey{Namespace: c.Namespace, Name: c.Name}
	},
}

var machineListing = listing[clustertree.ListedMachine]{
	what: "machines", kind: clustertree.MachineKind, words: machineWords,
	watched: []client.Object{&clusterv1.Machine{}, &infrav1.OLVMMachine{}},
	list: func(
		ctx context.Context, from client.Reader, namespace string, of client.ListOption,
	) ([]clustertree.ListedMachine, error) {
		return clustertree.ListMachines(ctx, from, namespace, of)
	},
	table: clustertree.MachineTable,
	key: func(m clustertree.ListedMachine) client.ObjectKey {
		return client.ObjectKey{Namespace: m.Namespace, Name: m.Name}
	},
}

// getting is a running get command.
type getting[T any] struct {
	*getFlags
	listing[T]
	s     streams
	in    *mgmtcluster.Cluster
	names []string
	of    client.ListOption
	// printer prints all parts of the output, so the headers appear only once.
	printer printers.ResourcePrinter
}

// listObjects lists objects. If requested, it then follows their changes.
func listObjects[T any](ctx context.Context, s streams, f *getFlags, args []string, what listing[T]) error {
	names, err := namesOf(args, what.words)
	if err != nil {
		return err
	}

	switch selector, err := labels.Parse(f.selector); {
	case err != nil:
		return fmt.Errorf("--selector: %w", err)
	case len(names) > 0 && f.all:
		return errors.New("cannot get an object by name in all namespaces; use -n instead of -A")
	case len(names) > 0 && f.selector != "":
		return errors.New("specify either names or --selector, not both")
	default:
		g := &getting[T]{
			getFlags: f, listing: what, s: s, names: names, of: client.MatchingLabelsSelector{Selector: selector},
		}

		return g.listAndFollow(ctx)
	}
}

func (g *getting[T]) listAndFollow(ctx context.Context) error {
	var err error
	if g.in, err = mgmtcluster.ConnectInstalled(ctx, g.Options); err != nil {
		return err
	}

	g.printer = printers.NewTablePrinter(printers.PrintOptions{
		NoHeaders: g.noHeaders, Wide: g.output.format == formatWide, WithNamespace: g.all, ShowLabels: g.showLabels,
	})

	list, err := g.findRequested(ctx)
	if err != nil {
		return err
	}

	warnOfManager(ctx, g.s, g.in)

	if err := g.printObjects(list, len(g.names) == 1); err != nil {
		return err
	}

	if !g.watch {
		return nil
	}

	return g.followChanges(ctx, list)
}

// findRequested lists the requested objects. If a name has no object, findRequested returns an error.
func (g *getting[T]) findRequested(ctx context.Context) ([]T, error) {
	found, missing, err := g.fetchRequested(ctx)
	if err == nil && missing != "" {
		err = g.in.NotFound(ctx, missing, g.kind.Kind)
	}

	return found, err
}

// fetchRequested fetches the requested objects, in the order of the given names. missing is the first name without an
// object.
func (g *getting[T]) fetchRequested(ctx context.Context) (found []T, missing string, err error) {
	all, err := g.list(ctx, g.in, namespaceOf(g.in, g.all), g.of)
	if err != nil || len(g.names) == 0 {
		return all, "", err
	}

	for _, name := range g.names {
		at := slices.IndexFunc(all, func(one T) bool { return g.key(one).Name == name })
		if at >= 0 {
			found = append(found, all[at])
		} else if missing == "" {
			missing = name
		}
	}

	return found, missing, nil
}

// printObjects prints objects. If alone is set, the output for programs is a single object instead of a list.
func (g *getting[T]) printObjects(list []T, alone bool) error {
	switch g.output.format {
	case formatTable, formatWide:
		if len(list) == 0 {
			return printNoneFound(g.s, g.what, namespaceOf(g.in, g.all))
		}

		return g.printer.PrintObj(g.table(list, time.Now()), g.s.out)
	case formatName:
		return printNames(g.s.out, g.table(list, time.Now()))
	}

	if alone && len(list) == 1 {
		return encodeValue(g.s.out, g.output.format, list[0])
	}

	return encodeValue(g.s.out, g.output.format, list)
}

// printNames writes the names of the objects in a table, as kubectl does.
func printNames(out io.Writer, table *metav1.Table) error {
	printer := &printers.NamePrinter{ShortOutput: true}

	for i := range table.Rows {
		if err := printer.PrintObj(table.Rows[i].Object.Object, out); err != nil {
			return err
		}
	}

	return nil
}

// printList writes a list in the requested format. For an empty list, it writes a note about the namespace. table
// writes the list for users.
func printList[T any](s streams, what, namespace string, output outputFlag, list []T, table func([]T) error) error {
	return output.printValue(s.out, list, func() error {
		if len(list) > 0 {
			return table(list)
		}

		return printNoneFound(s, what, namespace)
	})
}

// printNoneFound prints that a list is empty. namespace is empty for all namespaces.
func printNoneFound(s streams, what, namespace string) error {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace + "; use -A to list all namespaces"
	}

	_, err := fmt.Fprintf(s.err, "no %s found%s\n", what, where)

	return err
}

// namespaceOf returns the namespace to list, or "" for all namespaces.
func namespaceOf(in *mgmtcluster.Cluster, all bool) string {
	if all {
		return ""
	}

	return in.Namespace
}

// warnOfManager warns if no manager of this provider is running, because the printed state then does not change.
func warnOfManager(ctx context.Context, s streams, in *mgmtcluster.Cluster) {
	trouble, err := in.ManagerTrouble(ctx)
	if err != nil {
		trouble = "cannot determine whether a manager of this provider is running: " + err.Error()
	}

	if trouble != "" {
		_, _ = fmt.Fprintln(s.err, "WARNING:", trouble)
	}
}
