package fakeoci

import (
	"net/http"
	"slices"

	"github.com/oracle/oci-go-sdk/v65/networkloadbalancer"
)

// balancers is the API version of network load balancers.
const balancers = "20200501"

// serveBalancers serves network load balancers. The address of these load balancers comes from the settings.
func (s *Server) serveBalancers(mux *http.ServeMux) {
	root := "/" + balancers + "/networkLoadBalancers"
	all := s.collections["networkLoadBalancers"]

	s.handle(mux, "POST "+root, func(w http.ResponseWriter, r *http.Request) error {
		details, err := decode(r, &networkloadbalancer.CreateNetworkLoadBalancerDetails{})
		if err != nil {
			return err
		}

		details["lifecycleState"] = "ACTIVE"
		details["ipAddresses"] = []object{{"ipAddress": s.settings.Endpoint, "isPublic": details["isPrivate"] != true}}
		made, err := s.make(all, r.Header.Get("opc-retry-token"), details)
		if err != nil {
			return err
		}

		sets, _ := made.fields["backendSets"].(object)
		for name, set := range sets {
			set.(object)["name"] = name
		}

		s.accept(w, made)

		return answer(w, made.fields)
	})
	s.handle(mux, "GET "+root, func(w http.ResponseWriter, r *http.Request) error {
		return answer(w, object{"items": page(w, r, s.list(all, r))})
	})
	s.handle(mux, "GET "+root+"/{id}", func(w http.ResponseWriter, r *http.Request) error {
		found, err := s.find(all, r.PathValue("id"))
		if err != nil {
			return err
		}

		return answer(w, found.fields)
	})
	s.handle(mux, "DELETE "+root+"/{id}", func(w http.ResponseWriter, r *http.Request) error {
		found, err := s.find(all, r.PathValue("id"))
		if err != nil {
			return err
		}

		s.accept(w, found)
		found.fields["lifecycleState"] = "DELETED"
		w.WriteHeader(http.StatusAccepted)

		return nil
	})

	s.serveBackends(mux, root+"/{id}/backendSets/{set}/backends")
}

// serveBackends serves the machines behind network load balancers.
func (s *Server) serveBackends(mux *http.ServeMux, backends string) {
	s.handle(mux, "POST "+backends, func(w http.ResponseWriter, r *http.Request) error {
		details, err := decode(r, &networkloadbalancer.CreateBackendDetails{})
		if err != nil {
			return err
		}

		return s.changeBackends(w, r, func(list []any) []any { return append(list, details) })
	})
	s.handle(mux, "DELETE "+backends+"/{backend}", func(w http.ResponseWriter, r *http.Request) error {
		return s.changeBackends(w, r, func(list []any) []any {
			return slices.DeleteFunc(list, func(one any) bool { return one.(object)["name"] == r.PathValue("backend") })
		})
	})
}

// accept answers with a finished work request. The caller must hold s.mu.
func (s *Server) accept(w http.ResponseWriter, of *record) {
	w.Header().Set("opc-work-request-id", s.work("NetworkLoadBalancer", of, func(string) {}))
}

func (s *Server) changeBackends(w http.ResponseWriter, r *http.Request, change func([]any) []any) error {
	found, err := s.find(s.collections["networkLoadBalancers"], r.PathValue("id"))
	if err != nil {
		return err
	}

	sets, _ := found.fields["backendSets"].(object)
	set, ok := sets[r.PathValue("set")].(object)
	if !ok {
		return notFound("backend set " + r.PathValue("set"))
	}

	list, _ := set["backends"].([]any)
	set["backends"] = change(list)
	s.accept(w, found)
	w.WriteHeader(http.StatusAccepted)

	return nil
}

// Backends returns the addresses behind all network load balancers.
func (s *Server) Backends() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string

	for _, found := range s.objects {
		if found.collection.path != "networkLoadBalancers" || found.gone() {
			continue
		}

		sets, _ := found.fields["backendSets"].(object)
		for _, set := range sets {
			list, _ := set.(object)["backends"].([]any)
			for _, one := range list {
				out = append(out, one.(object)["ipAddress"].(string))
			}
		}
	}

	slices.Sort(out)

	return out
}
