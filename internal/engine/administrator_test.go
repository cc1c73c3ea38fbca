package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
)

func TestAUserWithoutAnAdministratorRoleIsToldThatItLacksOne(t *testing.T) {
	t.Parallel()
	inventory := ovirtsim.DefaultInventory()
	inventory.Users = append(inventory.Users, ovirtsim.User{Name: "capolvm@internal", Password: "capolvm-password"})
	_, config := start(t, ovirtsim.Options{Inventory: inventory})
	config.Username, config.Password = "capolvm@internal", "capolvm-password"
	c := client(t, config)

	const missing = "11111111-2222-3333-4444-555555555555"

	// An engine answers these with an internal error, with a refusal, and with a refusal for a missing object.
	for name, ask := range map[string]func() error{
		"the version":   func() error { _, err := c.FetchProduct(t.Context()); return err },
		"the roles":     func() error { _, err := c.ListGrants(t.Context()); return err },
		"a list":        func() error { _, err := c.ListVMs(t.Context()); return err },
		"a missing VM":  func() error { _, err := c.FetchVM(t.Context(), missing); return err },
		"a data center": func() error { _, err := c.FindDataCenter(t.Context(), "Default"); return err },
	} {
		if err := ask(); !engine.IsNotAnAdministrator(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnErrorOfTheEngineItselfIsNotTakenForAMissingRole(t *testing.T) {
	t.Parallel()
	sim, config := start(t, ovirtsim.Options{})
	if err := sim.Inject(ovirtsim.Fault{Method: "GET", Path: "/api$", Status: 500}); err != nil {
		t.Fatal(err)
	}

	var fault *engine.Fault

	_, err := client(t, config).FetchProduct(t.Context())
	if engine.IsNotAnAdministrator(err) || !errors.As(err, &fault) || fault.StatusCode != 500 ||
		strings.Contains(err.Error(), "insufficient") {
		t.Errorf("%v", err)
	}
}
