package fakeoci

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	ocicore "github.com/oracle/oci-go-sdk/v65/core"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// These constants are freeform tags that describe the content of images.
const (
	// ArchitectureTag is the key of the tag with the architecture: amd64 or arm64.
	ArchitectureTag = "ocne/architecture"
	// KubernetesTag is the key of the tag with the version of Kubernetes.
	KubernetesTag = "ocne/kubernetes"
)

// serveCompute serves the calls that only instances and images have. The common calls are served for every collection.
func (s *Server) serveCompute(mux *http.ServeMux) {
	s.handle(mux, "POST /"+core+"/instances", s.launch)
	s.handle(mux, "DELETE /"+core+"/instances/{id}", s.terminate)
	s.serveImages(mux)
}

// launch creates an instance with its VNIC, and boots it.
func (s *Server) launch(w http.ResponseWriter, r *http.Request) error {
	var typed ocicore.LaunchInstanceDetails
	details, err := decode(r, &typed)
	if err != nil {
		return err
	}

	source, _ := details["sourceDetails"].(object)
	vnic, _ := details["createVnicDetails"].(object)
	image, err := s.find(s.collections["images"], fmt.Sprint(source["imageId"]))
	if err != nil {
		return err
	}

	subnet, err := s.find(s.collections["subnets"], fmt.Sprint(vnic["subnetId"]))
	if err != nil {
		return err
	}

	if err := checkShape(details, image); err != nil {
		return err
	}

	details["lifecycleState"], details["region"] = "PROVISIONING", s.settings.Region
	known := len(s.objects)
	made, err := s.make(s.collections["instances"], r.Header.Get("opc-retry-token"), details)
	if err != nil {
		return err
	}

	if len(s.objects) > known { // a new launch, not a retry
		s.plug(made, vnic, subnet)
		time.AfterFunc(s.settings.Slow, func() { s.start(made, image, details) })
	}

	return answer(w, made.fields)
}

// checkShape refuses an image whose architecture differs from that of the shape.
func checkShape(details object, image *record) error {
	architecture := "amd64"
	if shape := fmt.Sprint(details["shape"]); strings.Contains(shape, ".A1.") || strings.Contains(shape, ".A2.") {
		architecture = "arm64"
	}

	tags, _ := image.fields["freeformTags"].(object)
	if has := tags[ArchitectureTag]; has != nil && has != architecture {
		return invalid("Shape %v is not valid for image %v, which is for %v", details["shape"], image.fields["id"], has)
	}

	return nil
}

// plug attaches a VNIC to an instance, with the next free address of the subnet. The caller must hold s.mu.
func (s *Server) plug(made *record, vnic object, subnet *record) {
	prefix := netip.MustParsePrefix(subnet.fields["cidrBlock"].(string))
	address := prefix.Addr().Next().Next() // the first address belongs to the router

	for _, found := range s.objects {
		if found.collection.path == "vnics" && !found.gone() && found.fields["subnetId"] == subnet.fields["id"] {
			if taken := netip.MustParseAddr(found.fields["privateIp"].(string)); !taken.Less(address) {
				address = taken.Next()
			}
		}
	}

	common := object{
		"availabilityDomain": made.fields["availabilityDomain"], "compartmentId": made.fields["compartmentId"],
		"subnetId": subnet.fields["id"],
	}
	device := clone(common)
	device["isPrimary"], device["privateIp"] = true, address.String()
	device["macAddress"] = fmt.Sprintf("02:00:17:00:00:%02x", s.minted%256)
	device["nsgIds"] = vnic["nsgIds"]
	plugged, err := s.make(s.collections["vnics"], "", device)
	if err != nil {
		panic(err) // impossible, because the objects in the references exist
	}

	attachment := clone(common)
	attachment["instanceId"], attachment["vnicId"] = made.fields["id"], plugged.fields["id"]
	attachment["lifecycleState"] = "ATTACHED"
	if _, err := s.make(s.collections["vnicAttachments"], "", attachment); err != nil {
		panic(err)
	}
}

// start marks an instance as running, and boots its guest.
func (s *Server) start(made, image *record, details object) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if made.fields["lifecycleState"] != "PROVISIONING" || s.ctx.Err() != nil {
		return
	}

	made.fields["lifecycleState"] = "RUNNING"
	if s.settings.Guests == nil {
		return
	}

	metadata, _ := details["metadata"].(object)
	userData, _ := base64.StdEncoding.DecodeString(fmt.Sprint(metadata["user_data"]))
	tags, _ := image.fields["freeformTags"].(object)
	id, name := made.fields["id"].(string), made.fields["displayName"].(string)
	machine := api.GuestVM{
		ID:                id,
		Name:              name,
		RootDisk:          id,
		UserData:          rendered(string(userData), id),
		HostName:          name,
		KubernetesVersion: "v" + strings.TrimPrefix(fmt.Sprint(tags[KubernetesTag]), "v"),
		Interfaces:        []api.GuestInterface{s.interfaceOf(id)},
	}
	var ctx context.Context
	ctx, made.off = context.WithCancel(s.ctx)

	go func() {
		if err := s.settings.Guests.Boot(ctx, machine, func(store.AgentReport) {}); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.console = append(s.console, fmt.Sprintf("%s: %v", name, err))
		}
	}()
}

// rendered replaces the placeholders in a cloud-config by the OCID of the instance, as cloud-init does for a jinja
// template.
func rendered(userData, id string) string {
	if !strings.HasPrefix(userData, "## template: jinja") {
		return userData
	}

	return strings.NewReplacer(`{{ ds["id"] }}`, id, `{{ ds['id'] }}`, id, `{{ ds[\"id\"] }}`, id).Replace(userData)
}

// interfaceOf returns the network interface of an instance. The caller must hold s.mu.
func (s *Server) interfaceOf(instance string) api.GuestInterface {
	for _, found := range s.objects {
		if found.collection.path != "vnicAttachments" || found.fields["instanceId"] != instance {
			continue
		}

		vnic := s.objects[found.fields["vnicId"].(string)].fields
		subnet := s.objects[found.fields["subnetId"].(string)].fields
		prefix := netip.MustParsePrefix(subnet["cidrBlock"].(string))

		return api.GuestInterface{
			Name: "ens3", MAC: vnic["macAddress"].(string), Network: subnet["id"].(string),
			DHCP:    fmt.Sprintf("%s/%d", vnic["privateIp"], prefix.Bits()),
			Gateway: prefix.Addr().Next().String(),
		}
	}

	return api.GuestInterface{}
}

// terminate ends an instance. The instance stays visible as TERMINATING for a while.
func (s *Server) terminate(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	found, err := s.find(s.collections["instances"], id)
	if err != nil {
		return err
	}

	w.WriteHeader(http.StatusNoContent)
	if found.gone() || found.fields["lifecycleState"] == "TERMINATING" {
		return nil
	}

	found.fields["lifecycleState"] = "TERMINATING"
	if found.off != nil {
		found.off()
	}

	time.AfterFunc(s.settings.Slow, func() { s.bury(id) })

	return nil
}

// bury ends the guest of an instance. It marks the instance and the parts of its network as gone.
func (s *Server) bury(id string) {
	if s.settings.Guests != nil {
		s.settings.Guests.HandleRemoval(id)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	for _, found := range s.objects {
		if found.collection.path == "vnicAttachments" && found.fields["instanceId"] == id {
			found.fields["lifecycleState"] = "DETACHED"
			s.objects[found.fields["vnicId"].(string)].fields["lifecycleState"] = "TERMINATED"
		}
	}

	s.objects[id].fields["lifecycleState"] = "TERMINATED"
}
