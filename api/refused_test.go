package api_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/refused"
)

// TestTheAPIServerRefusesWhatIsWrongInAnObjectAlone tries values of each field. olvmctl is tested with the same values.
func TestTheAPIServerRefusesWhatIsWrongInAnObjectAlone(t *testing.T) {
	server := startedServer(t)

	for _, value := range refused.Values {
		object, err := value.BuildObject("default")
		check.Error(t, err, "")

		if object.GetKind() == "OLVMClusterIdentity" {
			object.SetNamespace("")
		}

		err = server.Client.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))

		switch {
		case value.Message == "" && err != nil:
			t.Errorf("%s: %v", value.Name(), err)
		case value.Message == "":
		case err == nil || !strings.Contains(err.Error(), value.Message) || !strings.Contains(err.Error(), value.ErrorField()):
			t.Errorf("%s: %v; want %q of %s", value.Name(), err, value.Message, value.ErrorField())
		}
	}
}
