package controllers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// TestTheEngineRestartsWhileMachinesAreMade repeatedly ends all sessions of the engine during the creation of 20
// machines.
func TestTheEngineRestartsWhileMachinesAreMade(t *testing.T) {
	testenv.SkipInShort(t, "makes twenty machines")
	t.Parallel()
	var restarts, requests atomic.Int32
	s := &site{}
	s.Site = testsite.New(t, suite.client, testsite.Options{Gate: func(engine http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1)%25 == 0 {
				restarts.Add(1)
				s.Sim.ExpireSessions()
			}

			engine.ServeHTTP(w, r)
		})
	}})
	const count = 20

	var machines []*infrav1.OLVMMachine
	for i := range count {
		machines = append(machines, s.CreateMachine(fmt.Sprintf("m%d", i), func(spec *infrav1.OLVMMachineSpec) {
			spec.VirtualMachine.Network.IPv4.IPAddresses = []string{"10.0.0.10-10.0.0.99"}
			spec.VirtualMachine.Memory = "1GB"
		}))
	}

	for _, m := range machines {
		s.ExpectProvisioned(m)
	}

	if ended := restarts.Load(); ended < 3 {
		t.Errorf("sessions were ended %d times only", ended)
	}

	if vms := s.Sim.Summarize().VMs; vms != count {
		t.Errorf("the engine has %d VMs", vms)
	}

	for _, m := range machines {
		if m.Status.Terraform.Failures != 0 {
			t.Errorf("%s: %+v", m.Name, m.Status.Terraform)
		}
	}
}

// TestWhatAnAdministratorDeletesHealsOrIsTold deletes each part of a machine in the engine. A change of the machine
// then recreates the part or reports a remedy, and the machine can still be deleted.
func TestWhatAnAdministratorDeletesHealsOrIsTold(t *testing.T) {
	type parts struct {
		sim     *ovirtsim.Server
		session *engine.Client
		vm      string
	}
	disk := func(ctx context.Context, p parts) (string, error) {
		attached, err := p.session.ListDiskAttachments(ctx, engine.ID(p.vm))
		at := slices.IndexFunc(attached, func(a engine.DiskAttachment) bool { return !*a.Bootable })
		if err != nil || at < 0 {
			return "", fmt.Errorf("no data disk: %w", err)
		}

		return attached[at].DiskID().String(), nil
	}

	tests := map[string]struct {
		remove func(ctx context.Context, p parts) error
		// told are the expected texts of conditions, in this order. It is empty if the machine recovers without a user.
		told []string
	}{
		"tag of the VM": {remove: func(ctx context.Context, p parts) error {
			tag, err := p.session.FindTag(ctx, "blue")
			if err != nil {
				return err
			}

			return p.session.UntagVM(ctx, engine.ID(p.vm), tag.ID)
		}},
		"tag": {
			told: []string{"the engine has no tag of that ID any more", `no tag named "blue"`},
			remove: func(ctx context.Context, p parts) error {
				tag, err := p.session.FindTag(ctx, "blue")
				if err != nil {
					return err
				}

				return p.session.DeleteTag(ctx, tag.ID)
			},
		},
		"network interface": {remove: func(ctx context.Context, p parts) error {
			nics, err := p.session.ListNICs(ctx, engine.ID(p.vm))
			if err != nil {
				return err
			}

			if err := p.session.UnplugNIC(ctx, engine.ID(p.vm), nics[0].ID); err != nil {
				return err
			}

			return p.session.DeleteNIC(ctx, engine.ID(p.vm), nics[0].ID)
		}},
		"attachment of a disk": {remove: func(ctx context.Context, p parts) error {
			id, err := disk(ctx, p)
			if err != nil {
				return err
			}

			return p.session.DetachDisk(ctx, engine.ID(p.vm), engine.ID(id))
		}},
		"disk": {remove: func(ctx context.Context, p parts) error {
			id, err := disk(ctx, p)
			if err != nil {
				return err
			}

			if err := p.session.DetachDisk(ctx, engine.ID(p.vm), engine.ID(id)); err != nil {
				return err
			}

			return p.session.RemoveDisk(ctx, engine.ID(id), func(string) {})
		}},
		"snapshot in the way": {remove: func(ctx context.Context, p parts) error {
			if err := takeSnapshot(ctx, p.sim, p.vm); err != nil {
				return err
			}

			return engine.Wait(ctx, "the snapshot", func(ctx context.Context) (bool, string, error) {
				made, err := p.session.ListSnapshots(ctx, engine.ID(p.vm))
				return len(made) == 1 && made[0].Status == "ok", "", err
			}, nil)
		}},
		"VM": {
			told: []string{"no longer exists in the engine, and the controller does not recreate it"},
			remove: func(ctx context.Context, p parts) error {
				if err := p.session.StopVM(ctx, engine.ID(p.vm), true); err != nil {
					return err
				}

				return engine.Wait(ctx, "the VM to go", func(ctx context.Context) (bool, string, error) {
					err := p.session.DeleteVM(ctx, engine.ID(p.vm))
					return err == nil || engine.IsNotFound(err), "", nil
				}, nil)
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			switch name {
			case "attachment of a disk":
				testenv.SkipInShort(t, "the case of the disk detaches it, too")
			case "tag of the VM", "snapshot in the way":
				testenv.SkipInShort(t, "tests of internal/tfprovider remove the same, without an API server")
			}

			s := newSiteIn(t, richInventory(), nil)
			make := func(name string) (*infrav1.OLVMMachine, parts) {
				m := s.CreateMachine(name, func(spec *infrav1.OLVMMachineSpec) {
					spec.VirtualMachine.Tags = []string{"blue"}
					spec.VirtualMachine.DataDisks = []infrav1.DataDisk{{Name: "etcd", Size: "1GB"}}
				})
				s.ExpectProvisioned(m)

				return m, parts{
					s.Sim,
					s.NewSession(),
					strings.TrimPrefix(m.Spec.ProviderID, bootstrap.ProviderIDPrefix),
				}
			}

			m, p := make("one")
			if err := test.remove(t.Context(), p); err != nil {
				t.Fatal(err)
			}

			change(s, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Memory = "5GB" })
			if test.told == nil {
				s.expectApplied(m)
			}

			for _, text := range test.told {
				s.expectConditionText(m, text)
			}

			s.Delete(m)
			s.ExpectGone(m)
			s.ExpectEmptyEngine()
			if name == "tag" || testing.Short() && name != "disk" && name != "VM" {
				return // only one machine can have the tag, and two parts are enough for short mode
			}

			m, p = make("two")
			if err := test.remove(t.Context(), p); err != nil {
				t.Fatal(err)
			}

			s.Delete(m)
			s.ExpectGone(m)
			s.ExpectEmptyEngine()
		})
	}
}

// expectApplied waits until the engine has the last change of a machine.
func (s *site) expectApplied(m *infrav1.OLVMMachine) {
	s.T.Helper()
	s.Eventually("the change is applied", func() error {
		if err := suite.client.Get(s.T.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		c := conditions.Get(m, infrav1.InfrastructureAppliedCondition)
		if c.Status != metav1.ConditionTrue || c.ObservedGeneration != m.Generation {
			return fmt.Errorf("%s %s: %s", c.Status, c.Reason, c.Message)
		}

		return nil
	})
}

// expectConditionText waits until a condition of a machine contains a text.
func (s *site) expectConditionText(m *infrav1.OLVMMachine, text string) {
	s.T.Helper()
	s.Eventually("a condition says "+text, func() error {
		if err := suite.client.Get(s.T.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		if !slices.ContainsFunc(m.Status.Conditions, func(c metav1.Condition) bool {
			return strings.Contains(c.Message, text)
		}) {
			return fmt.Errorf("conditions are %+v", m.Status.Conditions)
		}

		return nil
	})
}

// takeSnapshot creates a snapshot of a VM, as administrators do before an update.
func takeSnapshot(ctx context.Context, sim *ovirtsim.Server, vm string) error {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(sim.CA())
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, sim.URL()+"/api/vms/"+vm+"/snapshots",
		strings.NewReader(`{"description":"before the update"}`))
	if err != nil {
		return err
	}

	request.SetBasicAuth(sim.Username(), sim.Password())
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")

	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated && response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("the engine answers %s", response.Status)
	}

	return nil
}
