package fakeoci

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	ocicore "github.com/oracle/oci-go-sdk/v65/core"
)

// imageImport is the operation of work requests for imports.
const imageImport = "ImageImport"

// serveImages serves the import of images, and their compatible shapes.
func (s *Server) serveImages(mux *http.ServeMux) {
	root := "/" + core

	s.serveSchemas(mux)
	s.handle(mux, "POST "+root+"/images", s.importImage)
	s.handle(mux, "PUT "+root+"/images/{id}", func(w http.ResponseWriter, r *http.Request) error {
		return s.update(w, r, s.collections["images"])
	})
	s.handle(mux, "DELETE "+root+"/images/{id}", func(w http.ResponseWriter, r *http.Request) error {
		if _, err := s.find(s.collections["images"], r.PathValue("id")); err != nil {
			return err
		}

		w.WriteHeader(http.StatusNoContent)

		return s.remove(r.PathValue("id"))
	})
	s.handle(mux, "PUT "+root+"/images/{id}/shapes/{shape}", func(w http.ResponseWriter, r *http.Request) error {
		found, err := s.find(s.collections["images"], r.PathValue("id"))
		if err != nil {
			return err
		}

		entry := object{"imageId": r.PathValue("id"), "shape": r.PathValue("shape")}
		found.rules = append(found.rules, entry)

		return answer(w, entry)
	})
	s.handle(mux, "GET "+root+"/images/{id}/shapes", func(w http.ResponseWriter, r *http.Request) error {
		found, err := s.find(s.collections["images"], r.PathValue("id"))
		if err != nil {
			return err
		}

		return answer(w, page(w, r, found.rules))
	})
}

// serveSchemas serves the capabilities of images.
func (s *Server) serveSchemas(mux *http.ServeMux) {
	root := "/" + core

	s.handle(mux, "GET "+root+"/computeGlobalImageCapabilitySchemas",
		func(w http.ResponseWriter, _ *http.Request) error {
			return answer(w, []object{{
				"id": "ocid1.computeglobalimgcapschema.oc1.iad.a", "name": "OCI.ComputeGlobalImageCapabilitySchema",
				"currentVersionName": "00000000-1111", "compartmentId": s.settings.Tenancy,
				"timeCreated": "2026-01-01T00:00:00Z",
			}})
		})
	s.handle(mux, "POST "+root+"/computeImageCapabilitySchemas", func(w http.ResponseWriter, r *http.Request) error {
		details, err := decode(r, &ocicore.CreateComputeImageCapabilitySchemaDetails{})
		if err != nil {
			return err
		}

		if _, err := s.find(s.collections["images"], fmt.Sprint(details["imageId"])); err != nil {
			return err
		}

		made, err := s.make(s.collections["computeImageCapabilitySchemas"], "", details)
		if err != nil {
			return err
		}

		return answer(w, made.fields)
	})
	s.handle(mux, "GET "+root+"/computeImageCapabilitySchemas", func(w http.ResponseWriter, r *http.Request) error {
		return answer(w, page(w, r, s.list(s.collections["computeImageCapabilitySchemas"], r)))
	})
}

// importImage creates an image from an object in a bucket.
func (s *Server) importImage(w http.ResponseWriter, r *http.Request) error {
	var typed ocicore.CreateImageDetails
	details, err := decode(r, &typed)
	if err != nil {
		return err
	}

	source, ok := typed.ImageSourceDetails.(ocicore.ImageSourceViaObjectStorageTupleDetails)
	if !ok {
		return invalid("imageSourceDetails is a %T", typed.ImageSourceDetails)
	}

	content, ok := s.buckets[*source.BucketName][*source.ObjectName]
	if !ok {
		return notFound("object " + *source.ObjectName)
	}

	details["lifecycleState"], details["createImageAllowed"] = "IMPORTING", true
	details["operatingSystem"], details["operatingSystemVersion"] = "Custom", "Custom"
	made, err := s.make(s.collections["images"], r.Header.Get("opc-retry-token"), details)
	if err != nil {
		return err
	}

	s.objects[made.fields["id"].(string)].fields["sizeInMBs"] = len(content) >> 20
	w.Header().Set("opc-work-request-id", s.work(imageImport, made, func(problem string) {
		made.fields["lifecycleState"] = "AVAILABLE"
		if problem != "" {
			made.fields["lifecycleState"] = "DELETED"
		}
	}))

	return answer(w, made.fields)
}

// AddImage adds an image of OCK with the given architecture, Kubernetes version and time of import.
func (s *Server) AddImage(compartment, architecture, kubernetes string, created time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, err := s.make(s.collections["images"], "", object{
		"compartmentId": compartment, "displayName": "ock", "createImageAllowed": true, "operatingSystem": "Custom",
		"operatingSystemVersion": "Custom",
		"freeformTags":           object{ArchitectureTag: architecture, KubernetesTag: kubernetes},
	})
	if err != nil {
		panic(err) // the test has named a missing compartment
	}

	made.fields["timeCreated"] = created.UTC().Format(time.RFC3339Nano)

	return made.fields["id"].(string)
}

// work creates a work request. It proceeds in steps, and at the end calls done while s.mu is held. The caller must hold
// s.mu.
func (s *Server) work(operation string, of *record, done func(problem string)) string {
	id := s.mint("workrequest")
	request := &record{collection: s.collections["workRequests"], fields: object{
		"id": id, "operationType": operation, "status": "IN_PROGRESS", "percentComplete": 0,
		"compartmentId": of.fields["compartmentId"], "timeAccepted": time.Now().UTC().Format(time.RFC3339Nano),
		"resources": []object{{
			"entityType": of.collection.kind, "identifier": of.fields["id"], "actionType": "IN_PROGRESS",
			"entityUri": "/" + of.collection.path + "/" + of.fields["id"].(string),
		}},
	}}
	s.objects[id] = request
	finish := func() {
		request.fields["status"], request.fields["percentComplete"] = "SUCCEEDED", 100
		problem := ""
		if fault := s.fault("WORK " + operation); fault != nil {
			problem = fault.Message
			request.fields["status"] = "FAILED"
			request.rules = []object{{
				"code": fault.Code, "message": problem, "timestamp": time.Now().UTC().Format(time.RFC3339Nano),
			}}
		}

		done(problem)
	}

	if s.settings.Slow == 0 || operation != imageImport {
		finish()
		return id
	}

	for part := range 4 {
		time.AfterFunc(s.settings.Slow*time.Duration(part+1), func() {
			s.mu.Lock()
			defer s.mu.Unlock()

			if part < 3 {
				request.fields["percentComplete"] = 25 * (part + 1)
				return
			}

			finish()
		})
	}

	return id
}

// serveWorkRequests serves the work requests of compute and of network load balancers.
func (s *Server) serveWorkRequests(mux *http.ServeMux) {
	for _, version := range []string{core, balancers} {
		root := "GET /" + version + "/workRequests"
		s.handle(mux, root+"/{id}", func(w http.ResponseWriter, r *http.Request) error {
			found, err := s.find(s.collections["workRequests"], r.PathValue("id"))
			if err != nil {
				return err
			}

			fields := maps.Clone(found.fields)
			if version == balancers {
				fields["operationType"] = "UPDATE_NETWORK_LOAD_BALANCER"
			}

			return answer(w, fields)
		})
		s.handle(mux, root+"/{id}/errors", func(w http.ResponseWriter, r *http.Request) error {
			found, err := s.find(s.collections["workRequests"], r.PathValue("id"))
			if err != nil {
				return err
			}

			if version == balancers {
				return answer(w, object{"items": append([]object{}, found.rules...)})
			}

			return answer(w, append([]object{}, found.rules...))
		})
	}

	s.handle(mux, "GET /"+core+"/workRequests", func(w http.ResponseWriter, r *http.Request) error {
		if r.URL.Query().Get("compartmentId") == "" {
			return errors.New("compartmentId is missing")
		}

		var out []object

		for _, found := range s.list(s.collections["workRequests"], r) {
			if strings.Contains(text(found["resources"]), r.URL.Query().Get("resourceId")) {
				out = append(out, found)
			}
		}

		return answer(w, page(w, r, out))
	})
}
