package fakeoci

import (
	"net/http"
	"slices"
	"strings"

	ocicore "github.com/oracle/oci-go-sdk/v65/core"
)

// serveNetworks serves those calls for networks that are not common to all collections.
func (s *Server) serveNetworks(mux *http.ServeMux) {
	groups := "/" + core + "/networkSecurityGroups/{id}/"

	s.handle(mux, "GET /"+core+"/services", func(w http.ResponseWriter, _ *http.Request) error {
		name := "all-" + strings.ToLower(s.settings.RegionKey) + "-services-in-oracle-services-network"

		return answer(w, []object{{
			"id": "ocid1.service.oc1..all", "name": name, "description": name, "cidrBlock": name,
		}})
	})
	s.handle(mux, "GET "+groups+"securityRules", func(w http.ResponseWriter, r *http.Request) error {
		found, err := s.find(s.collections["networkSecurityGroups"], r.PathValue("id"))
		if err != nil {
			return err
		}

		return answer(w, append([]object{}, found.rules...))
	})
	s.handle(mux, "POST "+groups+"actions/addSecurityRules", s.addRules)
	s.handle(mux, "POST "+groups+"actions/removeSecurityRules", s.removeRules)
}

func (s *Server) addRules(w http.ResponseWriter, r *http.Request) error {
	found, err := s.find(s.collections["networkSecurityGroups"], r.PathValue("id"))
	if err != nil {
		return err
	}

	details, err := decode(r, &ocicore.AddNetworkSecurityGroupSecurityRulesDetails{})
	if err != nil {
		return err
	}

	var added []object
	list, _ := details["securityRules"].([]any)

	for _, entry := range list {
		rule := clone(entry.(object))
		rule["id"], rule["isValid"] = s.mint("rule"), true
		added = append(added, rule)
	}

	found.rules = append(found.rules, added...)

	return answer(w, object{"securityRules": added})
}

func (s *Server) removeRules(w http.ResponseWriter, r *http.Request) error {
	found, err := s.find(s.collections["networkSecurityGroups"], r.PathValue("id"))
	if err != nil {
		return err
	}

	details, err := decode(r, &ocicore.RemoveNetworkSecurityGroupSecurityRulesDetails{})
	if err != nil {
		return err
	}

	ids, _ := details["securityRuleIds"].([]any)
	found.rules = slices.DeleteFunc(found.rules, func(rule object) bool { return slices.Contains(ids, rule["id"]) })
	w.WriteHeader(http.StatusNoContent)

	return nil
}
