package dashboard

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kyaml "sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/supportbundle"
)

// Details are the content of the page about one object.
type Details struct {
	Ref
	// Found reports whether the object exists.
	Found bool `json:"found"`
	// Facts are the most important facts.
	Facts []Fact `json:"facts,omitempty"`
	// Commands are suggested next commands.
	Commands []Command `json:"commands,omitempty"`
	// LastRun is the last Terraform run of a machine, with its plan.
	LastRun *infrav1.TerraformRun `json:"lastRun,omitempty"`
	// Objects are the object itself and, for a Machine, its OLVMMachine.
	Objects []Conditions `json:"objects,omitempty"`
	// Steps are the events of these objects, newest first.
	Steps []Step `json:"steps"`
	// Drift is the result of the last check for drift.
	Drift *infrav1.DriftStatus `json:"drift,omitempty"`
	// Engine is the VM of the machine as seen by the engine, if the page asks engines.
	Engine *VM `json:"engine,omitempty"`
}

// Conditions are an object and its conditions.
type Conditions struct {
	Ref
	Conditions []metav1.Condition `json:"conditions"`
	// YAML is the object as YAML. Possible secrets are masked, as in a support bundle.
	YAML string `json:"yaml"`
}

// findDetails returns empty details for a missing object or an unknown kind.
func (w *watcher) findDetails(ctx context.Context, of Ref) Details {
	out := Details{Ref: of, Steps: []Step{}}

	objects := w.findObjects(ctx, of)
	if len(objects) == 0 {
		return out
	}

	out.Found = true
	out.Facts, out.Commands = factsOf(objects), w.commandsOf(ctx, objects)
	events, _ := w.listEvents(ctx) // the state reports this error

	for _, object := range objects {
		self := Ref{Kind: kindOf(object), Namespace: object.GetNamespace(), Name: object.GetName()}
		shown := Conditions{Ref: self, Conditions: []metav1.Condition{}, YAML: yamlOf(object)}

		if with, ok := object.(conditions.Getter); ok {
			shown.Conditions = append(shown.Conditions, with.GetConditions()...)
		}

		out.Objects = append(out.Objects, shown)

		steps := w.history.stepsOf(object)
		out.Steps = append(append(out.Steps, steps...), eventSteps(events, self, steps)...)

		if machine, ok := object.(*infrav1.OLVMMachine); ok {
			out.ofMachine(machine, w.engines)
		}
	}

	slices.SortStableFunc(out.Steps, func(a, b Step) int { return b.Time.Compare(a.Time) })

	return out
}

// ofMachine adds the details of a machine.
func (d *Details) ofMachine(machine *infrav1.OLVMMachine, asked *engines) {
	if machine.Status.Terraform != nil {
		d.Drift = machine.Status.Terraform.Drift
		d.LastRun = machine.Status.Terraform.LastRun
	}

	if asked != nil {
		d.Engine = asked.findVM(machine)
	}
}

// yamlOf returns an object as YAML, with possible secrets masked.
func yamlOf(object client.Object) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "# " + err.Error()
	}

	shown := &unstructured.Unstructured{Object: content}

	for _, kind := range watchedKinds {
		if kindOf(kind.object) == kindOf(object) {
			shown.SetGroupVersionKind(kind.group.WithKind(kindOf(object)))
		}
	}

	supportbundle.HideSecrets(shown)

	out, err := kyaml.Marshal(shown.Object)
	if err != nil {
		return "# " + err.Error()
	}

	return string(out)
}

// findObjects returns the named object and, for a Machine, its OLVMMachine. It returns none if the object does not
// exist.
func (w *watcher) findObjects(ctx context.Context, of Ref) []client.Object {
	first := w.findObject(ctx, of)
	if first == nil {
		return nil
	}

	machine, ok := first.(*clusterv1.Machine)
	if !ok || machine.Spec.InfrastructureRef.Kind != "OLVMMachine" {
		return []client.Object{first}
	}

	second := w.findObject(ctx, Ref{
		Kind:      machine.Spec.InfrastructureRef.Kind,
		Namespace: machine.Namespace,
		Name:      machine.Spec.InfrastructureRef.Name,
	})
	if second == nil {
		return []client.Object{first}
	}

	return []client.Object{first, second}
}

// findObject reads an object of a watched kind. It returns nil if there is none.
func (w *watcher) findObject(ctx context.Context, of Ref) client.Object {
	for _, kind := range watchedKinds {
		if kindOf(kind.object) != of.Kind {
			continue
		}

		object, _ := kind.object.DeepCopyObject().(client.Object)
		if w.reader.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, object) == nil {
			return object
		}
	}

	return nil
}

// eventSteps returns the events about an object. It omits runs already listed in known with more detail.
func eventSteps(events []Event, about Ref, known []Step) []Step {
	var out []Step

	for _, e := range events {
		if e.About != about {
			continue
		}

		told := slices.ContainsFunc(known, func(s Step) bool {
			return s.What == "run" && strings.HasSuffix(e.Reason, s.Name) && e.Time.Sub(s.Time).Abs() < sameRun
		})
		if told {
			continue
		}

		state := "Normal"
		if e.Warning {
			state = "Warning"
		}

		out = append(out, Step{
			Time: e.Time, What: "event", Kind: about.Kind, Name: e.Reason, State: state, Message: e.Note,
		})
	}

	return out
}
