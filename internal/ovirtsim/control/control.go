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

// Control lets tests and users observe and influence the engine beyond its API. Every request passes through it on the
// way to the engine, so it can record requests and inject faults.
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

// New returns a Control with initial faults. A seed makes faults with a probability repeatable; 0 means random.
// SetEngine provides the engine later.
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

// SetEngine sets the engine behind the Control.
func (s *Control) SetEngine(engine *api.Engine) { s.engine = engine }

// NotifyObservers wakes all observers after a change.
func (s *Control) NotifyObservers() { s.changes.WakeAll() }

// CountLogins returns the number of successful logins so far.
func (s *Control) CountLogins() int {
	_, logins := s.engine.CountSessions()
	return logins
}

// ExpireSessions ends all sessions.
func (s *Control) ExpireSessions() { s.engine.ExpireSessions() }

// withVM runs a change on the VM with the given ID or name.
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

// Drive holds the engine's data on the drive of a VM's last start.
type Drive struct {
	UserData string `json:"userData"`
	HostName string `json:"hostName"`
}

// ReadDrive returns the drive of the VM with the given ID or name. It returns an empty Drive if the VM has none.
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

// CrashVM crashes a running VM; the engine restarts a highly available VM.
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

// FailHost makes a host unreachable. The status of its VMs is unknown until the host is fenced, and then down.
func (s *Control) FailHost(name string) error {
	return s.withHost(name, func(h *store.Host) error {
		s.engine.FailHost(h)
		return nil
	})
}

// RecoverHost brings a host back from failure or maintenance.
func (s *Control) RecoverHost(name string) error {
	return s.withHost(name, func(h *store.Host) error {
		s.engine.RecoverHost(h)
		return nil
	})
}

// MaintainHost migrates all VMs off a host and takes the host out of service.
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

// SetPassword changes a user's password. Open sessions stay valid.
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
