package ovirtsim

import (
	"net/http"
	"strings"
)

const apiPath = enginePath + "/api"

// routes is the table of all calls below /ovirt-engine/api. A handler only leaves its operation in the call: who runs it
// holds the lock, and may also be a link that is followed.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, op := range map[string]operation{
		"GET ":        rootDocument,
		"GET /events": listEvents, "GET /events/{id}": getEvent,
		"GET /jobs": listJobs, "GET /jobs/{id}": getJob, "GET /jobs/{id}/steps": listNothing("steps"),
		"GET /users": listUsers, "GET /users/{id}": getUser,
		"GET /operatingsystems": listOperatingSystems, "GET /operatingsystems/{id}": itemOf(listOperatingSystems, "OperatingSystem"), "GET /vmpools": listNothing("vm_pools"), "GET /macpools": listNothing("mac_pools"),

		"GET /datacenters": listDataCenters, "GET /datacenters/{id}": getDataCenter,
		"GET /datacenters/{id}/clusters": listDataCenterClusters, "GET /datacenters/{id}/networks": listDataCenterNetworks,
		"GET /datacenters/{id}/storagedomains": listDataCenterStorageDomains,

		"GET /clusters": listClusters, "GET /clusters/{cluster}": getCluster, "GET /clusters/{cluster}/networks": listClusterNetworks,
		"GET /clusters/{cluster}/affinitygroups": listAffinityGroups, "POST /clusters/{cluster}/affinitygroups": addAffinityGroup,
		"GET /clusters/{cluster}/affinitygroups/{id}": getAffinityGroup, "PUT /clusters/{cluster}/affinitygroups/{id}": updateAffinityGroup,
		"DELETE /clusters/{cluster}/affinitygroups/{id}":  removeAffinityGroup,
		"GET /clusters/{cluster}/affinitygroups/{id}/vms": listAffinityGroupVMs, "POST /clusters/{cluster}/affinitygroups/{id}/vms": addAffinityGroupVM,
		"DELETE /clusters/{cluster}/affinitygroups/{id}/vms/{vm}": removeAffinityGroupVM,
		"GET /clusters/{cluster}/affinitygroups/{id}/hosts":       listAffinityGroupHosts, "POST /clusters/{cluster}/affinitygroups/{id}/hosts": addAffinityGroupHost,
		"DELETE /clusters/{cluster}/affinitygroups/{id}/hosts/{host}": removeAffinityGroupHost,

		"GET /hosts": listHosts, "GET /hosts/{host}": getHost, "GET /hosts/{host}/statistics": hostStatistics, "GET /hosts/{host}/statistics/{id}": itemOf(hostStatistics, "Statistic"), "GET /hosts/{host}/affinitylabels": listHostLabels,
		"POST /hosts/{host}/activate": activateHost, "POST /hosts/{host}/deactivate": deactivateHost, "POST /hosts/{host}/fence": fenceHost,

		"GET /affinitylabels": listLabels, "POST /affinitylabels": addLabel, "GET /affinitylabels/{id}": getLabel, "PUT /affinitylabels/{id}": updateLabel, "DELETE /affinitylabels/{id}": removeLabel,
		"GET /affinitylabels/{id}/vms": listLabelVMs, "POST /affinitylabels/{id}/vms": addLabelVM, "DELETE /affinitylabels/{id}/vms/{vm}": removeLabelVM,
		"GET /affinitylabels/{id}/hosts": listLabelHosts, "POST /affinitylabels/{id}/hosts": addLabelHost, "DELETE /affinitylabels/{id}/hosts/{host}": removeLabelHost,

		"GET /networks": listNetworks, "GET /networks/{id}": getNetwork, "GET /networks/{id}/vnicprofiles": listNetworkProfiles,
		"GET /vnicprofiles": listVNICProfiles, "POST /vnicprofiles": addVNICProfile, "GET /vnicprofiles/{id}": getVNICProfile,
		"DELETE /vnicprofiles/{id}": removeVNICProfile,
		"GET /storagedomains":       listStorageDomains, "GET /storagedomains/{id}": getStorageDomain, "GET /storagedomains/{id}/disks": listStorageDomainDisks,
		"GET /storagedomains/{domain}/disks/{id}": ofDomain(getDisk), "DELETE /storagedomains/{domain}/disks/{id}": ofDomain(removeDisk),
		"GET /storagedomains/{id}/files": listNothing("files"),
		"GET /instancetypes":             listInstanceTypes, "GET /instancetypes/{id}": getInstanceType,

		"GET /templates": listTemplates, "POST /templates": addTemplate, "GET /templates/{template}": getTemplate, "PUT /templates/{template}": updateTemplate,
		"DELETE /templates/{template}": removeTemplate, "GET /templates/{template}/nics": listTemplateNICs,
		"GET /templates/{template}/diskattachments": listTemplateAttachments, "GET /templates/{template}/diskattachments/{id}": getTemplateAttachment,

		"GET /tags": listTags, "POST /tags": addTag, "GET /tags/{id}": getTag, "PUT /tags/{id}": updateTag, "DELETE /tags/{id}": removeTag,

		"GET /disks": listDisks, "POST /disks": addDisk, "GET /disks/{id}": getDisk, "PUT /disks/{id}": updateDisk, "DELETE /disks/{id}": removeDisk,
		"POST /disks/{id}/copy": copyDisk, "POST /disks/{id}/move": moveDisk, "GET /disks/{id}/statistics": listNothing("statistics"), "GET /disks/{id}/permissions": listNothing("permissions"),

		"GET /imagetransfers": listTransfers, "POST /imagetransfers": addTransfer, "GET /imagetransfers/{id}": getTransfer,
		"POST /imagetransfers/{id}/finalize": finalizeTransfer, "POST /imagetransfers/{id}/cancel": cancelTransfer,
		"POST /imagetransfers/{id}/pause": pauseTransfer, "POST /imagetransfers/{id}/resume": resumeTransfer, "POST /imagetransfers/{id}/extend": extendTransfer,
		"DELETE /imagetransfers/{id}": cancelTransfer,

		"GET /vms": listVMs, "POST /vms": addVM, "GET /vms/{vm}": getVM, "PUT /vms/{vm}": updateVM, "DELETE /vms/{vm}": removeVM,
		"POST /vms/{vm}/start": startVM, "POST /vms/{vm}/stop": stopVM, "POST /vms/{vm}/shutdown": shutdownVM, "POST /vms/{vm}/reboot": rebootVM,
		"POST /vms/{vm}/reset": resetVM, "POST /vms/{vm}/suspend": suspendVM, "POST /vms/{vm}/migrate": migrateVM, "POST /vms/{vm}/ticket": ticketVM,
		"POST /vms/{vm}/autopincpuandnumanodes": autoPinVM, "POST /vms/{vm}/detach": detachVM,
		"GET /vms/{vm}/nics": listNICs, "POST /vms/{vm}/nics": addNIC, "GET /vms/{vm}/nics/{id}": getNIC, "PUT /vms/{vm}/nics/{id}": updateNIC,
		"DELETE /vms/{vm}/nics/{id}":        removeNIC,
		"POST /vms/{vm}/nics/{id}/activate": activateNIC, "POST /vms/{vm}/nics/{id}/deactivate": deactivateNIC,
		"GET /vms/{vm}/nics/{id}/reporteddevices": listNICReportedDevices, "GET /vms/{vm}/nics/{id}/statistics": listNothing("statistics"),
		"GET /vms/{vm}/diskattachments": listAttachments, "POST /vms/{vm}/diskattachments": addAttachment,
		"GET /vms/{vm}/diskattachments/{id}": getAttachment, "PUT /vms/{vm}/diskattachments/{id}": updateAttachment,
		"DELETE /vms/{vm}/diskattachments/{id}": removeAttachment,
		"GET /vms/{vm}/reporteddevices":         listReportedDevices, "GET /vms/{vm}/statistics": vmStatistics,
		"GET /vms/{vm}/reporteddevices/{id}": itemOf(listReportedDevices, "ReportedDevice"), "GET /vms/{vm}/statistics/{id}": itemOf(vmStatistics, "Statistic"),
		"GET /vms/{vm}/snapshots/{id}":   itemOf(listSnapshots, "Snapshot"),
		"GET /vms/{vm}/graphicsconsoles": listConsoles, "POST /vms/{vm}/graphicsconsoles": addConsole,
		"GET /vms/{vm}/graphicsconsoles/{id}": getConsole, "DELETE /vms/{vm}/graphicsconsoles/{id}": removeConsole,
		"GET /vms/{vm}/tags": listVMTags, "POST /vms/{vm}/tags": addVMTag, "GET /vms/{vm}/tags/{id}": getVMTag, "DELETE /vms/{vm}/tags/{id}": removeVMTag,
		"GET /vms/{vm}/affinitylabels": listVMLabels, "GET /vms/{vm}/cdroms": listCDROMs, "GET /vms/{vm}/cdroms/{id}": getCDROM,
		"GET /vms/{vm}/snapshots": listSnapshots, "GET /vms/{vm}/permissions": listNothing("permissions"), "GET /vms/{vm}/watchdogs": listNothing("watchdogs"),
		"GET /vms/{vm}/applications": listNothing("applications"), "GET /vms/{vm}/hostdevices": listNothing("host_devices"), "GET /vms/{vm}/numanodes": listNothing("vm_numa_nodes"),
		"GET /vms/{vm}/sessions": listNothing("sessions"),
	} {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+apiPath+path, func(_ http.ResponseWriter, r *http.Request) {
			if c, ok := r.Context().Value(callKey{}).(*call); ok {
				c.op, c.r = op, r
			}
		})
	}
	return mux
}

// listNothing is a collection that exists and is always empty here.
func listNothing(name string) operation {
	return func(*call) (*element, error) { return el(name), nil }
}
