package fakeoci

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	ocicore "github.com/oracle/oci-go-sdk/v65/core"
)

// collection is a kind of objects with common calls: create, list, read, change and delete.
type collection struct {
	// path is the path below the API version. kind is the kind in OCIDs.
	path, kind string
	// details returns an empty input of the create call, and change one of the update call. Each is nil if the call is
	// not supported.
	details, change func() any
	// resource returns an empty object of the collection.
	resource func() any
	// complete sets the fields that the cloud determines. It is nil if there are none.
	complete func(s *Server, fields object)
}

// newOf returns a new value of a type.
func newOf[T any]() any { return new(T) }

// collections returns the collections by path.
func collections() map[string]*collection {
	list := []*collection{
		{
			path: "vcns", kind: "vcn", details: newOf[ocicore.CreateVcnDetails],
			change: newOf[ocicore.UpdateVcnDetails], resource: newOf[ocicore.Vcn],
			complete: func(s *Server, fields object) {
				for _, name := range []string{"defaultRouteTableId", "defaultSecurityListId", "defaultDhcpOptionsId"} {
					fields[name] = s.mint("default")
				}

				if blocks, ok := fields["cidrBlocks"].([]any); ok && len(blocks) > 0 {
					fields["cidrBlock"] = blocks[0]
				}
			},
		},
		{
			path: "internetGateways", kind: "internetgateway", details: newOf[ocicore.CreateInternetGatewayDetails],
			change: newOf[ocicore.UpdateInternetGatewayDetails], resource: newOf[ocicore.InternetGateway],
		},
		{
			path: "natGateways", kind: "natgateway", details: newOf[ocicore.CreateNatGatewayDetails],
			change: newOf[ocicore.UpdateNatGatewayDetails], resource: newOf[ocicore.NatGateway],
			complete: func(_ *Server, fields object) { fields["natIp"], fields["blockTraffic"] = "192.0.2.1", false },
		},
		{
			path: "serviceGateways", kind: "servicegateway", details: newOf[ocicore.CreateServiceGatewayDetails],
			change: newOf[ocicore.UpdateServiceGatewayDetails], resource: newOf[ocicore.ServiceGateway],
			complete: func(_ *Server, fields object) { fields["blockTraffic"] = false },
		},
		{
			path: "networkSecurityGroups", kind: "networksecuritygroup",
			details:  newOf[ocicore.CreateNetworkSecurityGroupDetails],
			change:   newOf[ocicore.UpdateNetworkSecurityGroupDetails],
			resource: newOf[ocicore.NetworkSecurityGroup],
		},
		{
			path: "routeTables", kind: "routetable", details: newOf[ocicore.CreateRouteTableDetails],
			change: newOf[ocicore.UpdateRouteTableDetails], resource: newOf[ocicore.RouteTable],
		},
		{
			path: "subnets", kind: "subnet", details: newOf[ocicore.CreateSubnetDetails],
			change: newOf[ocicore.UpdateSubnetDetails], resource: newOf[ocicore.Subnet],
			complete: func(_ *Server, fields object) { fields["virtualRouterMac"] = "00:00:17:00:00:01" },
		},
		{path: "vnicAttachments", kind: "vnicattachment", resource: newOf[ocicore.VnicAttachment]},
		{path: "vnics", kind: "vnic", resource: newOf[ocicore.Vnic]},
		{path: "instances", kind: "instance", resource: newOf[ocicore.Instance]},
		{path: "images", kind: "image", change: newOf[ocicore.UpdateImageDetails], resource: newOf[ocicore.Image]},
		{path: "networkLoadBalancers", kind: "networkloadbalancer"},
		{path: "workRequests", kind: "workrequest"},
		{path: "computeImageCapabilitySchemas", kind: "computeimgcapschema"},
		{path: "compartments", kind: "compartment"},
	}
	out := map[string]*collection{}

	for _, c := range list {
		out[c.path] = c
	}

	return out
}

// serve serves the calls common to all objects of a collection.
func (s *Server) serve(mux *http.ServeMux, c *collection) {
	root := "/" + core + "/" + c.path
	if c.resource == nil {
		return
	}

	s.handle(mux, "GET "+root, func(w http.ResponseWriter, r *http.Request) error {
		return answer(w, page(w, r, s.list(c, r)))
	})
	s.handle(mux, "GET "+root+"/{id}", func(w http.ResponseWriter, r *http.Request) error {
		found, err := s.find(c, r.PathValue("id"))
		if err != nil {
			return err
		}

		return answer(w, found.fields)
	})

	if c.details == nil {
		return
	}

	s.handle(mux, "POST "+root, func(w http.ResponseWriter, r *http.Request) error {
		details, err := decode(r, c.details())
		if err != nil {
			return err
		}

		made, err := s.make(c, r.Header.Get("opc-retry-token"), details)
		if err != nil {
			return err
		}

		return answer(w, made.fields)
	})
	s.handle(mux, "PUT "+root+"/{id}", func(w http.ResponseWriter, r *http.Request) error {
		return s.update(w, r, c)
	})
	s.handle(mux, "DELETE "+root+"/{id}", func(w http.ResponseWriter, r *http.Request) error {
		if _, err := s.find(c, r.PathValue("id")); err != nil {
			return err
		}

		if err := s.remove(r.PathValue("id")); err != nil {
			return err
		}

		w.WriteHeader(http.StatusNoContent)

		return nil
	})
}

// make creates an object, but only one for each retry token. The caller must hold s.mu.
func (s *Server) make(c *collection, token string, details object) (*record, error) {
	if known := s.objects[s.tokens[token]]; token != "" && known != nil {
		return known, nil
	}

	if err := s.checkReferences(details); err != nil {
		return nil, err
	}

	fields := clone(details)
	if c.complete != nil {
		c.complete(s, fields)
	}

	fields["id"] = s.mint(c.kind)
	fields["timeCreated"] = time.Now().UTC().Format(time.RFC3339Nano)
	if fields["lifecycleState"] == nil {
		fields["lifecycleState"] = "AVAILABLE"
	}

	if fields["displayName"] == nil {
		fields["displayName"] = c.kind
	}

	made := &record{collection: c, fields: fields}
	if c.resource != nil { // hides values for which the object has no field
		resource := c.resource()
		if err := json.Unmarshal([]byte(text(fields)), resource); err != nil {
			return nil, fmt.Errorf("%s: %w", c.path, err)
		}

		made.fields = object{}
		if err := json.Unmarshal([]byte(text(resource)), &made.fields); err != nil {
			return nil, fmt.Errorf("%s: %w", c.path, err)
		}
	}

	id := fields["id"].(string)
	s.objects[id] = made
	s.tokens[token] = id

	return made, nil
}

// checkReferences returns an error if an OCID in a body does not exist. The caller must hold s.mu.
func (s *Server) checkReferences(details object) error {
	for name, value := range details {
		id, ok := value.(string)
		if !ok || !strings.HasPrefix(id, "ocid1.") || name == "serviceId" {
			continue
		}

		if found := s.objects[id]; found == nil || found.gone() {
			return notFound(name + " " + id)
		}
	}

	return nil
}

// list returns those objects of a collection that have the requested values, the newest first. The caller must hold
// s.mu.
func (s *Server) list(c *collection, r *http.Request) []object {
	var out []object

	for _, found := range s.objects {
		if found.collection != c || found.gone() && c.path != "instances" {
			continue
		}

		matches := true

		for name, values := range r.URL.Query() {
			value, ok := found.fields[name].(string)
			matches = matches && (!ok || value == values[0])
		}

		if matches {
			out = append(out, found.fields)
		}
	}

	slices.SortFunc(out, func(a, b object) int { return strings.Compare(b["id"].(string), a["id"].(string)) })

	return out
}

// find returns an object. It returns an error if the object is gone. The caller must hold s.mu.
func (s *Server) find(c *collection, id string) (*record, error) {
	found := s.objects[id]
	if found == nil || found.collection != c || found.gone() && c.path != "instances" {
		return nil, notFound(id)
	}

	return found, nil
}

func (s *Server) update(w http.ResponseWriter, r *http.Request, c *collection) error {
	found, err := s.find(c, r.PathValue("id"))
	if err != nil {
		return err
	}

	change, err := decode(r, c.change())
	if err != nil {
		return err
	}

	maps.Copy(found.fields, change)

	return answer(w, found.fields)
}

// remove deletes an object. It returns an error if other objects refer to it. The caller must hold s.mu.
func (s *Server) remove(id string) error {
	for other, found := range s.objects {
		if other != id && !found.gone() && strings.Contains(text(found.fields), id) &&
			found.collection.path != "workRequests" {
			return &refusal{http.StatusConflict, "Conflict", fmt.Sprintf("%s is used by %s", id, other)}
		}
	}

	s.objects[id].fields["lifecycleState"] = "TERMINATED"

	return nil
}

// gone reports whether an object was deleted.
func (r *record) gone() bool {
	return r.fields["lifecycleState"] == "TERMINATED" || r.fields["lifecycleState"] == "DELETED" ||
		r.fields["lifecycleState"] == "DETACHED"
}

func text(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		panic(err) // impossible, because the values come from JSON
	}

	return string(content)
}
