package supportbundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// kinds are the kinds in a bundle, by API group. Their version is the one preferred by the API server.
var kinds = map[string][]string{
	"cluster.x-k8s.io": {
		"Cluster", "ClusterClass", "MachineDeployment", "MachineSet", "Machine", "MachineHealthCheck",
		"MachineDrainRule",
	},
	"controlplane.cluster.x-k8s.io": {"KubeadmControlPlane", "KubeadmControlPlaneTemplate"},
	"bootstrap.cluster.x-k8s.io":    {"KubeadmConfig", "KubeadmConfigTemplate"},
	"infrastructure.cluster.x-k8s.io": {
		"OLVMCluster", "OLVMClusterTemplate", "OLVMMachine", "OLVMMachineTemplate", "OLVMInventory", "OLVMInventoryVM",
		"OLVMSupportServices", "OLVMRemediationTemplate", "OLVMRemediation",
	},
	"ipam.cluster.x-k8s.io":       {"IPAddressClaim", "IPAddress"},
	"clusterctl.cluster.x-k8s.io": {"Provider"},
}

// everywhere are the kinds collected from all namespaces.
var everywhere = []string{"Provider"}

// addObjects adds the objects in the namespace, except those of other clusters.
func (g *gathering) addObjects(ctx context.Context) error {
	var problems []error

	for group, names := range kinds {
		for _, kind := range names {
			problems = append(problems, g.addObjectsOfKind(ctx, schema.GroupKind{Group: group, Kind: kind}))
		}
	}

	return errors.Join(problems...)
}

func (g *gathering) addObjectsOfKind(ctx context.Context, kind schema.GroupKind) error {
	mapping, err := g.In.RESTMapper().RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil
	} else if err != nil {
		return err
	}

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(mapping.GroupVersionKind)

	var of []client.ListOption
	if !slices.Contains(everywhere, kind.Kind) {
		of = append(of, client.InNamespace(g.In.Namespace))
	}

	if err := g.In.List(ctx, list, of...); err != nil {
		return fmt.Errorf("%s: %w", kind.Kind, err)
	}

	for i := range list.Items {
		object := &list.Items[i]
		if cluster, ok := object.GetLabels()[clusterv1.ClusterNameLabel]; ok && cluster != g.Name {
			continue
		}

		g.objects = append(g.objects, object)
		g.names = append(g.names, object.GetName())
		shown := object.DeepCopy()
		HideSecrets(shown)
		content, err := yaml.Marshal(shown.Object)
		if err != nil {
			return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}

		g.addFile("objects/"+kind.Kind+"/"+object.GetName()+".yaml", content)
	}

	return nil
}

// addSecrets adds a list of Secrets and ConfigMaps with the sizes of their values. It notes the values, so they can be
// removed.
func (g *gathering) addSecrets(ctx context.Context) error {
	var secrets corev1.SecretList
	if err := g.In.List(ctx, &secrets, client.InNamespace(g.In.Namespace)); err != nil {
		return err
	}

	var out bytes.Buffer

	for i := range secrets.Items {
		secret := &secrets.Items[i]
		fmt.Fprintf(&out, "Secret %s of type %s, created %s\n", secret.Name, secret.Type,
			secret.CreationTimestamp.UTC())

		g.noteSecret(secret)
		writeSizes(&out, secret.Data)
	}

	var configMaps corev1.ConfigMapList
	if err := g.In.List(ctx, &configMaps, client.InNamespace(g.In.Namespace)); err != nil {
		return err
	}

	for i := range configMaps.Items {
		fmt.Fprintf(&out, "ConfigMap %s\n", configMaps.Items[i].Name)

		sizes := map[string][]byte{}
		for key, value := range configMaps.Items[i].Data {
			sizes[key] = []byte(value)
		}

		writeSizes(&out, sizes)
	}

	g.addFile("secrets-and-configmaps.txt", out.Bytes())

	return nil
}

func writeSizes(to *bytes.Buffer, data map[string][]byte) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		fmt.Fprintf(to, "  %s: %d bytes\n", key, len(data[key]))
	}
}

// addTree adds the output of olvmctl describe.
func (g *gathering) addTree(ctx context.Context) error {
	tree, err := g.In.Describe(ctx, g.Name)
	if err != nil {
		return err
	}

	var out bytes.Buffer
	if err := tree.Print(&out); err != nil {
		return err
	}

	g.addFile("describe.txt", out.Bytes())

	return nil
}

// addEvents adds the events in the namespace, in the order of time.
func (g *gathering) addEvents(ctx context.Context) error {
	var list eventsv1.EventList
	if err := g.In.List(ctx, &list, client.InNamespace(g.In.Namespace)); err != nil {
		return err
	}

	lines := make([]string, 0, len(list.Items))
	for i := range list.Items {
		e := &list.Items[i]
		lines = append(lines, fmt.Sprintf("%s %s %s/%s %s: %s", e.CreationTimestamp.UTC().Format("2006-01-02 15:04:05"),
			e.Type, e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note))
	}

	slices.Sort(lines)
	g.addFile("events.txt", []byte(strings.Join(lines, "\n")+"\n"))

	return nil
}

// addStates adds the Terraform resources, with their IDs, of each machine and of the affinity groups.
func (g *gathering) addStates(ctx context.Context) error {
	var secrets corev1.SecretList
	err := g.In.List(ctx, &secrets, client.InNamespace(g.In.Namespace), client.MatchingLabels{"tfstate": "true"})
	if err != nil {
		return err
	}

	var problems []error

	for i := range secrets.Items {
		secret := &secrets.Items[i]

		state, err := tfstate.DecodeSecret(secret)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", secret.Name, err))
			continue
		}

		content, err := summaryOf(state.Bytes())
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", secret.Name, err))
			continue
		}

		g.secrets = append(g.secrets, partsOf(string(state.Bytes()))...)
		g.addFile("states/"+secret.Name+".txt", content)
	}

	return errors.Join(problems...)
}

// listMachines returns the OLVMMachines among the collected objects.
func (g *gathering) listMachines() []infrav1.OLVMMachine {
	var out []infrav1.OLVMMachine

	for _, object := range g.objects {
		if object.GetKind() == "OLVMMachine" {
			var machine infrav1.OLVMMachine
			if convertObject(object, &machine) == nil {
				out = append(out, machine)
			}
		}
	}

	return out
}

// addHistories adds the history of each machine.
func (g *gathering) addHistories(ctx context.Context) error {
	var problems []error

	for _, machine := range g.listMachines() {
		entries, err := g.In.ListHistory(ctx, &machine)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", machine.Name, err))
			continue
		}

		var out bytes.Buffer
		for _, entry := range entries {
			fmt.Fprintln(&out, entry)
		}

		g.addFile("machines/"+machine.Name+".txt", out.Bytes())
	}

	return errors.Join(problems...)
}

// addLogs adds the last lines of the logs of this provider's manager.
func (g *gathering) addLogs(ctx context.Context) error {
	logs, err := g.In.ReadManagerLogs(ctx, logLines)

	for name, content := range logs {
		g.addFile("logs/"+name+".log", content)
	}

	return err
}

// logLines is the maximum number of lines of a log in a bundle.
const logLines = 5000
