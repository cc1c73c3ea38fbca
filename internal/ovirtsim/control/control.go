package control

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/capolvm/cluster-api-provider-olvm/internal/localpage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// Control lets tests and humans observe and influence the engine beyond its API. It stands in front of the engine: it
// records requests and injects faults.
type Control struct {
	engine  *api.Engine
	changes localpage.Changes
	mux     *http.ServeMux

	// mu guards the fields below.
	mu       sync.Mutex
	requests []*Request
	received int
	faults   []*Fault
	faultIDs int
	random   *rand.Rand
}

// New returns a Control with initial faults. A seed makes faults with a probability repeatable; 0 means random. Watch
// provides the engine later.
func New(faults []Fault, seed uint64) (*Control, error) {
	s := &Control{random: newRandom(seed)}

	s.mux = s.newMux()
	for _, fault := range faults {
		if err := s.Inject(fault); err != nil {
			return nil, fmt.Errorf("fault: %w", err)
		}
	}

	return s, nil
}

// SetEngine sets the engine behind it.
func (s *Control) SetEngine(engine *api.Engine) { s.engine = engine }

// NotifyObservers wakes the observers.
func (s *Control) NotifyObservers() { s.changes.WakeAll() }

// CountLogins counts the successful logins so far.
func (s *Control) CountLogins() int {
	_, logins := s.engine.CountSessions()
	return logins
}

// ExpireSessions ends all sessions.
func (s *Control) ExpireSessions() { s.engine.ExpireSessions() }

// withVM runs a change on the VM with an ID or a name.
func (s *Control) withVM(idOrName string, change func(*store.VM) error) error {
	st := s.engine.Lock()
	defer s.engine.Unlock()

	v := st.VMs.Get(idOrName)
	for _, other := range st.VMs.Rows {
		if v == nil && other.Name == idOrName {
			v = other
		}
	}

	if v == nil {
		return fmt.Errorf("there is no VM %q", idOrName)
	}

	err := change(v)
	s.NotifyObservers()

	return errors.Join(err, st.Flush())
}

// Drive is the engine's data on the drive of a VM's last start.
type Drive struct {
	UserData string `json:"userData"`
	HostName string `json:"hostName"`
}

// ReadDrive returns the drive of a VM by ID or name; empty without one.
func (s *Control) ReadDrive(vm string) Drive {
	var out Drive

	_ = s.withVM(vm, func(v *store.VM) error {
		if v.Drive != nil {
			out = Drive{UserData: v.Drive.Value("custom_script"), HostName: v.Drive.Value("host_name")}
		}

		return nil
	})

	return out
}

// CrashVM makes a running VM die by itself; a highly available one restarts.
func (s *Control) CrashVM(vm string) error {
	return s.withVM(vm, func(v *store.VM) error {
		if v.Status != store.StatusUp && v.Status != store.StatusPoweringUp {
			return fmt.Errorf("VM %s is %s, not up", v.Name, v.Status)
		}

		s.engine.CrashVM(v)

		return nil
	})
}

// FailCreation makes the engine fail to copy the disks of a VM during its creation.
func (s *Control) FailCreation(vm string) error {
	return s.withVM(vm, s.engine.FailCreation)
}

// SetNodeReady makes the kubelet of a VM report a Ready condition of True, False or Unknown.
func (s *Control) SetNodeReady(vm, status, reason string) error {
	if s.engine.Guest() == nil {
		return errors.New("nothing runs in the VMs")
	}

	id := ""
	if err := s.withVM(vm, func(v *store.VM) error {
		id = v.ID
		return nil
	}); err != nil {
		return err
	}

	defer s.NotifyObservers()

	return s.engine.Guest().SetNodeReady(id, status, reason)
}

func (s *Control) withHost(name string, change func(*store.Host) error) error {
	st := s.engine.Lock()
	defer s.engine.Unlock()

	for _, h := range st.Hosts.Rows {
		if h.Name == name || h.ID == name {
			err := change(h)
			s.NotifyObservers()
			return errors.Join(err, st.Flush())
		}
	}

	return fmt.Errorf("there is no host %q", name)
}

// FailHost makes a host unreachable. Its VMs become unknown, and down once the host is fenced.
func (s *Control) FailHost(name string) error {
	return s.withHost(name, func(h *store.Host) error {
		s.engine.FailHost(h)
		return nil
	})
}

// RecoverHost brings a host back, from failure or from maintenance.
func (s *Control) RecoverHost(name string) error {
	return s.withHost(name, func(h *store.Host) error {
		s.engine.RecoverHost(h)
		return nil
	})
}

// MaintainHost empties a host by migration and takes it out of service.
func (s *Control) MaintainHost(name string) error {
	return s.withHost(name, s.engine.StartMaintenance)
}

// UnlockUser lets a user log in again after too many wrong passwords.
func (s *Control) UnlockUser(name string) error {
	st := s.engine.Lock()
	defer s.engine.Unlock()
	u := st.UserNamed(name)
	if u == nil {
		return fmt.Errorf("there is no user %q", name)
	}

	u.Failures, u.Locked = 0, false
	st.Users.Put(u.ID, u)

	return st.Flush()
}

// SetPassword changes a user's password. Open sessions remain.
func (s *Control) SetPassword(name, password string) error {
	st := s.engine.Lock()
	defer s.engine.Unlock()
	u := st.UserNamed(name)
	if u == nil {
		return fmt.Errorf("there is no user %q", name)
	}

	u.Password = password
	st.Users.Put(u.ID, u)

	return st.Flush()
}
