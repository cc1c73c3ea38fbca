package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// columns returns the output of kubectl get for an OLVMMachine, by column name.
func (s *site) columns(name string) (map[string]string, error) {
	config := dynamic.ConfigFor(suite.config)
	config.GroupVersion = &infrav1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	api, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}

	var table metav1.Table
	err = api.Get().Namespace(s.Namespace).Resource("olvmmachines").Name(name).
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").Do(context.Background()).Into(&table)
	if err != nil {
		return nil, err
	}

	out := map[string]string{}

	for i, column := range table.ColumnDefinitions {
		if cell := table.Rows[0].Cells[i]; cell != nil && column.Priority == 0 {
			out[column.Name] = fmt.Sprint(cell)
		}
	}

	return out, nil
}

// TestKubectlSaysWhatAMachineIsAndWhyItIsNotReady reads the table printed by kubectl get.
func TestKubectlSaysWhatAMachineIsAndWhyItIsNotReady(t *testing.T) {
	s := newSite(t, nil)
	runs := s.CreateMachine("runs", func(spec *infrav1.OLVMMachineSpec) {
		spec.VirtualMachine.Placement.HostNames = []string{"host-3"}
	})
	s.ExpectProvisioned(runs)

	// Create it after the other one has its address. If both were created together, either could get the first address
	// of the range.
	wrong := s.CreateMachine("wrong", func(spec *infrav1.OLVMMachineSpec) { spec.VMTemplateName = "ol9-k9s" })
	s.ExpectCondition(wrong, infrav1.ReadyCondition, "False/"+infrav1.VMTemplateNotFoundReason)

	for name, want := range map[string]map[string]string{
		"runs": {
			"Ready":    "True",
			"Reason":   "Ready",
			"UpToDate": "True",
			"Node":     "runs",
			"Address":  "10.0.0.10",
			"VMStatus": "up",
			"Host":     "host-3",
		},
		"wrong": {"Ready": "False", "Reason": infrav1.VMTemplateNotFoundReason, "UpToDate": "False"},
	} {
		var got map[string]string
		s.Eventually("the columns are filled", func() (err error) {
			got, err = s.columns(name)
			return err
		})

		for _, column := range slices.Sorted(maps.Keys(want)) {
			check.Equal(t, name+"'s column "+column, got[column], want[column])
		}

		check.Set(t, name+"'s age", got["Age"])
	}
}
