package fakeoci

import (
	"net/http"
	"path"
)

// serveIdentity creates the compartments, and serves the identity API.
func (s *Server) serveIdentity(mux *http.ServeMux) {
	compartments := s.collections["compartments"]
	s.objects[s.settings.Tenancy] = &record{collection: compartments, fields: object{
		"id": s.settings.Tenancy, "compartmentId": "", "name": "tenancy", "lifecycleState": "ACTIVE",
	}}
	known := map[string]string{".": s.settings.Tenancy}

	for _, full := range s.settings.Compartments {
		id := s.mint(compartments.kind)
		known[full] = id
		s.objects[id] = &record{collection: compartments, fields: object{
			"id": id, "compartmentId": known[path.Dir(full)], "name": path.Base(full), "description": full,
			"lifecycleState": "ACTIVE", "timeCreated": "2026-01-01T00:00:00Z",
		}}
	}

	root := "GET /" + core
	s.handle(mux, root+"/compartments", func(w http.ResponseWriter, r *http.Request) error {
		if _, err := s.find(compartments, r.URL.Query().Get("compartmentId")); err != nil {
			return err
		}

		return answer(w, page(w, r, s.list(compartments, r)))
	})
	s.handle(mux, root+"/compartments/{id}", func(w http.ResponseWriter, r *http.Request) error {
		found, err := s.find(compartments, r.PathValue("id"))
		if err != nil {
			return err
		}

		return answer(w, found.fields)
	})
	s.handle(mux, root+"/regions", func(w http.ResponseWriter, _ *http.Request) error {
		return answer(w, []object{{"key": s.settings.RegionKey, "name": s.settings.Region}})
	})
	s.handle(mux, root+"/availabilityDomains", func(w http.ResponseWriter, r *http.Request) error {
		return answer(w, []object{{
			"id": "ocid1.availabilitydomain.oc1..1", "name": s.availabilityDomain(),
			"compartmentId": r.URL.Query().Get("compartmentId"),
		}})
	})
	s.handle(mux, root+"/faultDomains", func(w http.ResponseWriter, r *http.Request) error {
		var out []object
		for _, name := range []string{"FAULT-DOMAIN-1", "FAULT-DOMAIN-2", "FAULT-DOMAIN-3"} {
			out = append(out, object{
				"id": "ocid1.faultdomain.oc1.." + name, "name": name,
				"compartmentId":      r.URL.Query().Get("compartmentId"),
				"availabilityDomain": r.URL.Query().Get("availabilityDomain"),
			})
		}

		return answer(w, out)
	})
}

func (s *Server) availabilityDomain() string { return "Uocm:" + s.settings.RegionKey + "-AD-1" }

// Compartment returns the OCID of the compartment with a path, or "" if there is none.
func (s *Server) Compartment(full string) string {
	s.mu.Lock()
	defer s.mu.Unlock()

	for id, found := range s.objects {
		if found.collection.path == "compartments" && found.fields["description"] == full {
			return id
		}
	}

	return ""
}
