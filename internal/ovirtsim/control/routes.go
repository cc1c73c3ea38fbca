package control

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// Path is the prefix of all paths of the control API.
const Path = "/ovirtsim"

const controlHelp = `known:
  GET requests[?after=SEQ], summary, state, vms, vms/NAME/drive, disks, faults
  POST faults; DELETE faults, faults/ID
  POST expire-sessions, users/NAME/unlock
  POST vms/NAME/crash, vms/NAME/fail-creation, vms/NAME/node {"ready":"True|False|Unknown","reason":"..."}
  POST hosts/NAME/fail, hosts/NAME/recover, hosts/NAME/maintenance
`

// newMux returns the handlers of the control API for tests and users.
func (s *Control) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	show := func(pattern string, what func(*http.Request) any) {
		mux.HandleFunc("GET "+Path+pattern, func(w http.ResponseWriter, r *http.Request) {
			wire.AnswerJSON(w, http.StatusOK, what(r))
		})
	}
	do := func(pattern string, what func(*http.Request) error) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+Path+path, func(w http.ResponseWriter, r *http.Request) {
			if err := what(r); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}

			wire.AnswerJSON(w, http.StatusOK, struct{}{})
		})
	}
	show("/requests", func(r *http.Request) any {
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		return s.requestsAfter(after)
	})
	show("/summary", func(*http.Request) any { return s.Summarize() })
	show("/state", func(*http.Request) any { return s.DescribeSite() })
	show("/vms", func(*http.Request) any { return s.ListVMs() })
	show("/vms/{name}/drive", func(r *http.Request) any { return s.ReadDrive(r.PathValue("name")) })
	show("/disks", func(*http.Request) any { return s.ListDisks() })
	show("/faults", func(*http.Request) any { return s.ListFaults() })
	do("POST /faults", func(r *http.Request) error {
		var fault Fault
		if err := readStrict(r.Body, &fault); err != nil {
			return err
		}

		return s.Inject(fault)
	})
	do("DELETE /faults", func(*http.Request) error {
		s.ClearFaults()
		return nil
	})
	do("DELETE /faults/{id}", func(r *http.Request) error { return s.clearFault(r.PathValue("id")) })
	do("POST /expire-sessions", func(*http.Request) error {
		s.ExpireSessions()
		return nil
	})
	do("POST /users/{name}/unlock", func(r *http.Request) error { return s.UnlockUser(r.PathValue("name")) })
	do("POST /vms/{name}/crash", func(r *http.Request) error { return s.CrashVM(r.PathValue("name")) })
	do("POST /vms/{name}/fail-creation", func(r *http.Request) error { return s.FailCreation(r.PathValue("name")) })
	do("POST /vms/{name}/node", s.setNode)
	do("POST /hosts/{name}/fail", func(r *http.Request) error { return s.FailHost(r.PathValue("name")) })
	do("POST /hosts/{name}/recover", func(r *http.Request) error { return s.RecoverHost(r.PathValue("name")) })
	do("POST /hosts/{name}/maintenance", func(r *http.Request) error { return s.MaintainHost(r.PathValue("name")) })
	mux.HandleFunc(Path+"/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, controlHelp, http.StatusNotFound)
	})

	return mux
}

// clearFault removes the fault with this ID.
func (s *Control) clearFault(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.faults)
	s.faults = slices.DeleteFunc(s.faults, func(f *Fault) bool {
		found := strconv.Itoa(f.ID) == id
		if found {
			close(f.cleared)
		}

		return found
	})
	if len(s.faults) == before {
		return fmt.Errorf("there is no fault %s", id)
	}

	return nil
}

// setNode sets the Ready condition of a VM's Node.
func (s *Control) setNode(r *http.Request) error {
	var in struct {
		Ready  string `json:"ready"`
		Reason string `json:"reason"`
	}
	if err := readStrict(r.Body, &in); err != nil {
		return err
	}

	return s.SetNodeReady(r.PathValue("name"), in.Ready, cmp.Or(in.Reason, "SetByTest"))
}

func readStrict(from io.Reader, into any) error {
	decoder := json.NewDecoder(io.LimitReader(from, 1<<20))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
