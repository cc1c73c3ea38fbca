package ovirtsim

import (
	"net/http"
	"strings"
)

const apiPath = enginePath + "/api"

// routes is the table of all calls below /ovirt-engine/api. A handler only leaves its operation in the call: who runs it
// holds the lock, and may also be a link that is followed.
func (s *Engine) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, op := range map[string]operation{
		"GET ": rootDocument,

		"GET /affinitylabels": listLabels, "POST /affinitylabels": addLabel,
		"GET /affinitylabels/{id}": getLabel, "PUT /affinitylabels/{id}": updateLabel, "DELETE /affinitylabels/{id}": removeLabel,
		"GET /affinitylabels/{id}/vms": labelledVM.members, "POST /affinitylabels/{id}/vms": labelledVM.addMember,
		"DELETE /affinitylabels/{id}/vms/{vm}": labelledVM.removeMember,
		"GET /affinitylabels/{id}/hosts":       labelledHost.members, "POST /affinitylabels/{id}/hosts": labelledHost.addMember,
		"DELETE /affinitylabels/{id}/hosts/{host}": labelledHost.removeMember,

		"GET /bookmarks": listNothing("bookmarks"), "GET /icons": listNothing("icons"), "GET /vmpools": listNothing("vm_pools"),
		"GET /externalhostproviders": listNothing("external_host_providers"), "GET /openstackimageproviders": listNothing("openstack_image_providers"),
		"GET /openstacknetworkproviders": listNothing("openstack_network_providers"), "GET /openstackvolumeproviders": listNothing("openstack_volume_providers"),
		"GET /katelloerrata": listNothing("katello_errata"),
		"GET /clusterlevels": listClusterLevels, "GET /clusterlevels/{id}": getClusterLevel,
		"GET /cpuprofiles": listCPUProfiles, "GET /cpuprofiles/{id}": itemOf(listCPUProfiles), "GET /diskprofiles": listDiskProfiles, "GET /diskprofiles/{id}": itemOf(listDiskProfiles),
		"GET /domains": listDomains, "GET /domains/{id}": itemOf(listDomains), "GET /groups": listGroups, "GET /groups/{id}": itemOf(listGroups),
		"GET /macpools": listMACPools, "GET /macpools/{id}": itemOf(listMACPools), "GET /networkfilters": listNetworkFilters, "GET /networkfilters/{id}": itemOf(listNetworkFilters),
		"GET /operatingsystems": listOperatingSystems, "GET /operatingsystems/{id}": getOperatingSystem, "GET /options/{id}": getOption,
		"GET /permissions": permissionsOf("", "", ""), "GET /permissions/{id}": itemOf(permissionsOf("", "", "")),
		"GET /roles": listRoles, "GET /roles/{id}": itemOf(listRoles), "GET /schedulingpolicies": listSchedulingPolicies, "GET /schedulingpolicies/{id}": itemOf(listSchedulingPolicies),
		"GET /storageconnections": listStorageConnections, "GET /storageconnections/{id}": itemOf(listStorageConnections),
		"GET /users": listUsers, "GET /users/{id}": getUser, "GET /users/{id}/permissions": userPermissions, "GET /users/{id}/tags": listNothing("tags"),

		"GET /events": listEvents, "GET /events/{id}": getEvent,
		"GET /jobs": listJobs, "GET /jobs/{id}": getJob, "GET /jobs/{id}/steps": listNothing("steps"),

		"GET /datacenters": listDataCenters, "GET /datacenters/{id}": getDataCenter,
		"GET /datacenters/{id}/clusters": listDataCenterClusters, "GET /datacenters/{id}/clusters/{cluster}": getDataCenterCluster,
		"GET /datacenters/{id}/networks": listDataCenterNetworks, "GET /datacenters/{id}/permissions": permissionsOf("data_center", "datacenters", "id"),
		"GET /datacenters/{id}/storagedomains": listDataCenterStorageDomains, "GET /datacenters/{id}/storagedomains/{domain}": getDataCenterStorageDomain,
		"GET /datacenters/{id}/quotas": listQuotas, "GET /datacenters/{id}/qoss": listNothing("qoss"), "GET /datacenters/{id}/iscsibonds": listNothing("iscsi_bonds"),

		"GET /clusters": listClusters, "POST /clusters": addCluster, "GET /clusters/{cluster}": getCluster, "PUT /clusters/{cluster}": updateCluster,
		"DELETE /clusters/{cluster}": removeCluster, "GET /clusters/{cluster}/networks": listClusterNetworks,
		"GET /clusters/{cluster}/permissions": permissionsOf("cluster", "clusters", "cluster"), "GET /clusters/{cluster}/cpuprofiles": listClusterCPUProfiles,
		"GET /clusters/{cluster}/glustervolumes": listNothing("gluster_volumes"), "GET /clusters/{cluster}/enabledfeatures": listNothing("cluster_features"),
		"GET /clusters/{cluster}/externalnetworkproviders": listNothing("external_providers"), "GET /clusters/{cluster}/networkfilters": listNetworkFilters,
		"GET /clusters/{cluster}/affinitygroups": listAffinityGroups, "POST /clusters/{cluster}/affinitygroups": addAffinityGroup,
		"GET /clusters/{cluster}/affinitygroups/{id}": getAffinityGroup, "PUT /clusters/{cluster}/affinitygroups/{id}": updateAffinityGroup,
		"DELETE /clusters/{cluster}/affinitygroups/{id}":  removeAffinityGroup,
		"GET /clusters/{cluster}/affinitygroups/{id}/vms": listAffinityGroupVMs, "POST /clusters/{cluster}/affinitygroups/{id}/vms": addAffinityGroupVM,
		"DELETE /clusters/{cluster}/affinitygroups/{id}/vms/{vm}": removeAffinityGroupVM,
		"GET /clusters/{cluster}/affinitygroups/{id}/hosts":       listAffinityGroupHosts, "POST /clusters/{cluster}/affinitygroups/{id}/hosts": addAffinityGroupHost,
		"DELETE /clusters/{cluster}/affinitygroups/{id}/hosts/{host}": removeAffinityGroupHost,
		"GET /clusters/{cluster}/affinitygroups/{id}/vmlabels":        listGroupLabels(vmLabelsOf), "GET /clusters/{cluster}/affinitygroups/{id}/hostlabels": listGroupLabels(hostLabelsOf),
		"POST /clusters/{cluster}/affinitygroups/{id}/vmlabels": addGroupLabel(vmLabelsOf), "POST /clusters/{cluster}/affinitygroups/{id}/hostlabels": addGroupLabel(hostLabelsOf),
		"DELETE /clusters/{cluster}/affinitygroups/{id}/vmlabels/{label}":   removeGroupLabel(vmLabelsOf),
		"DELETE /clusters/{cluster}/affinitygroups/{id}/hostlabels/{label}": removeGroupLabel(hostLabelsOf),

		"GET /hosts": listHosts, "GET /hosts/{host}": getHost, "GET /hosts/{host}/statistics": hostStatistics, "GET /hosts/{host}/statistics/{id}": itemOf(hostStatistics),
		"GET /hosts/{host}/devices": listNothing("host_devices"), "GET /hosts/{host}/numanodes": listNothing("host_numa_nodes"),
		"GET /hosts/{host}/nics": listHostNICs, "GET /hosts/{host}/nics/{id}": itemOf(listHostNICs),
		"GET /hosts/{host}/networkattachments": listNetworkAttachments, "GET /hosts/{host}/networkattachments/{id}": itemOf(listNetworkAttachments),
		"GET /hosts/{host}/permissions":    permissionsOf("host", "hosts", "host"),
		"GET /hosts/{host}/affinitylabels": labelledHost.assigned, "POST /hosts/{host}/affinitylabels": labelledHost.assign,
		"GET /hosts/{host}/affinitylabels/{id}": labelledHost.get, "DELETE /hosts/{host}/affinitylabels/{id}": labelledHost.unassign,
		"GET /hosts/{host}/tags": taggedHost.list, "POST /hosts/{host}/tags": taggedHost.add, "GET /hosts/{host}/tags/{id}": taggedHost.get, "DELETE /hosts/{host}/tags/{id}": taggedHost.remove,
		"POST /hosts/{host}/activate": activateHost, "POST /hosts/{host}/deactivate": deactivateHost, "POST /hosts/{host}/fence": fenceHost,

		"GET /networks": listNetworks, "POST /networks": addNetwork, "GET /networks/{id}": getNetwork, "PUT /networks/{id}": updateNetwork, "DELETE /networks/{id}": removeNetwork,
		"GET /networks/{id}/vnicprofiles": listNetworkProfiles, "GET /networks/{id}/permissions": permissionsOf("network", "networks", "id"),
		"GET /vnicprofiles": listVNICProfiles, "POST /vnicprofiles": addVNICProfile, "GET /vnicprofiles/{id}": getVNICProfile, "PUT /vnicprofiles/{id}": updateVNICProfile,
		"DELETE /vnicprofiles/{id}": removeVNICProfile, "GET /vnicprofiles/{id}/permissions": permissionsOf("vnic_profile", "vnicprofiles", "id"),

		"GET /storagedomains": listStorageDomains, "GET /storagedomains/{id}": getStorageDomain, "GET /storagedomains/{id}/disks": listStorageDomainDisks,
		"GET /storagedomains/{id}/diskprofiles": listDomainDiskProfiles, "GET /storagedomains/{id}/permissions": permissionsOf("storage_domain", "storagedomains", "id"),
		"GET /storagedomains/{domain}/disks/{id}": ofDomain(getDisk), "DELETE /storagedomains/{domain}/disks/{id}": ofDomain(removeDisk),
		"GET /storagedomains/{id}/files": listNothing("files"),
		"GET /instancetypes":             listInstanceTypes, "GET /instancetypes/{id}": getInstanceType,

		"GET /templates": listTemplates, "POST /templates": addTemplate, "GET /templates/{template}": getTemplate, "PUT /templates/{template}": updateTemplate,
		"DELETE /templates/{template}": removeTemplate, "GET /templates/{template}/nics": listTemplateNICs, "GET /templates/{template}/nics/{id}": getTemplateNIC,
		"GET /templates/{template}/diskattachments": listTemplateAttachments, "GET /templates/{template}/diskattachments/{id}": getTemplateAttachment,
		"DELETE /templates/{template}/diskattachments/{id}": removeTemplateDisk,
		"GET /templates/{template}/permissions":             permissionsOf("template", "templates", "template"), "GET /templates/{template}/graphicsconsoles": listTemplateConsoles,
		"GET /templates/{template}/cdroms": listTemplateCDROMs, "GET /templates/{template}/watchdogs": listNothing("watchdogs"),
		"GET /templates/{template}/tags": taggedTemplate.list, "POST /templates/{template}/tags": taggedTemplate.add,
		"GET /templates/{template}/tags/{id}": taggedTemplate.get, "DELETE /templates/{template}/tags/{id}": taggedTemplate.remove,

		"GET /tags": listTags, "POST /tags": addTag, "GET /tags/{id}": getTag, "PUT /tags/{id}": updateTag, "DELETE /tags/{id}": removeTag,

		"GET /disks": listDisks, "POST /disks": addDisk, "GET /disks/{id}": getDisk, "PUT /disks/{id}": updateDisk, "DELETE /disks/{id}": removeDisk,
		"POST /disks/{id}/copy": copyDisk, "POST /disks/{id}/move": moveDisk, "GET /disks/{id}/statistics": diskStatistics, "GET /disks/{id}/statistics/{statistic}": itemNamed("statistic", diskStatistics),
		"GET /disks/{id}/permissions": permissionsOf("disk", "disks", "id"),

		"GET /imagetransfers": listTransfers, "POST /imagetransfers": addTransfer, "GET /imagetransfers/{id}": getTransfer,
		"POST /imagetransfers/{id}/finalize": steered(finalizeTransfer), "POST /imagetransfers/{id}/cancel": steered(cancelTransfer),
		"POST /imagetransfers/{id}/pause": steered(pauseTransfer), "POST /imagetransfers/{id}/resume": steered(resumeTransfer), "POST /imagetransfers/{id}/extend": steered(extendTransfer),

		"GET /vms": listVMs, "POST /vms": addVM, "GET /vms/{vm}": getVM, "PUT /vms/{vm}": updateVM, "DELETE /vms/{vm}": removeVM,
		"POST /vms/{vm}/start": startVM, "POST /vms/{vm}/stop": stopVM, "POST /vms/{vm}/shutdown": shutdownVM, "POST /vms/{vm}/reboot": rebootVM,
		"POST /vms/{vm}/reset": resetVM, "POST /vms/{vm}/suspend": suspendVM, "POST /vms/{vm}/migrate": migrateVM, "POST /vms/{vm}/ticket": ticketVM,
		"POST /vms/{vm}/cancelmigration": cancelMigration, "POST /vms/{vm}/freezefilesystems": freezeVM, "POST /vms/{vm}/thawfilesystems": thawVM, "POST /vms/{vm}/logon": logonVM,
		"POST /vms/{vm}/clone": cloneVM, "POST /vms/{vm}/export": exportVM,
		"POST /vms/{vm}/autopincpuandnumanodes": autoPinVM, "POST /vms/{vm}/detach": detachVM,
		"GET /vms/{vm}/nics": listNICs, "POST /vms/{vm}/nics": addNIC, "GET /vms/{vm}/nics/{id}": getNIC, "PUT /vms/{vm}/nics/{id}": updateNIC,
		"DELETE /vms/{vm}/nics/{id}":        removeNIC,
		"POST /vms/{vm}/nics/{id}/activate": activateNIC, "POST /vms/{vm}/nics/{id}/deactivate": deactivateNIC,
		"GET /vms/{vm}/nics/{id}/reporteddevices": listNICReportedDevices, "GET /vms/{vm}/nics/{id}/statistics": nicStatistics,
		"GET /vms/{vm}/nics/{id}/networkfilterparameters": listNothing("network_filter_parameters"),
		"GET /vms/{vm}/diskattachments":                   listAttachments, "POST /vms/{vm}/diskattachments": addAttachment,
		"GET /vms/{vm}/diskattachments/{id}": getAttachment, "PUT /vms/{vm}/diskattachments/{id}": updateAttachment,
		"DELETE /vms/{vm}/diskattachments/{id}": removeAttachment,
		"GET /vms/{vm}/reporteddevices":         listReportedDevices, "GET /vms/{vm}/statistics": vmStatistics,
		"GET /vms/{vm}/reporteddevices/{id}": itemOf(listReportedDevices), "GET /vms/{vm}/statistics/{id}": itemOf(vmStatistics),
		"GET /vms/{vm}/snapshots": listSnapshots, "POST /vms/{vm}/snapshots": addSnapshot, "GET /vms/{vm}/snapshots/{id}": getSnapshot,
		"DELETE /vms/{vm}/snapshots/{id}": removeSnapshot, "POST /vms/{vm}/snapshots/{id}/restore": restoreSnapshot,
		"POST /vms/{vm}/previewsnapshot": previewSnapshot, "POST /vms/{vm}/commitsnapshot": commitSnapshot, "POST /vms/{vm}/undosnapshot": undoSnapshot,
		"GET /vms/{vm}/snapshots/{id}/disks": listSnapshotDisks, "GET /vms/{vm}/snapshots/{id}/nics": ofSnapshot(listNothing("nics")),
		"GET /vms/{vm}/snapshots/{id}/cdroms": ofSnapshot(listNothing("cdroms")),
		"GET /vms/{vm}/graphicsconsoles":      listConsoles, "POST /vms/{vm}/graphicsconsoles": addConsole,
		"POST /vms/{vm}/graphicsconsoles/{id}/ticket":                     ofConsole(ticketVM),
		"POST /vms/{vm}/graphicsconsoles/{id}/remoteviewerconnectionfile": ofConsole(viewerFile),
		"GET /vms/{vm}/graphicsconsoles/{id}":                             getConsole, "DELETE /vms/{vm}/graphicsconsoles/{id}": removeConsole,
		"GET /vms/{vm}/tags": taggedVM.list, "POST /vms/{vm}/tags": taggedVM.add, "GET /vms/{vm}/tags/{id}": taggedVM.get, "DELETE /vms/{vm}/tags/{id}": taggedVM.remove,
		"GET /vms/{vm}/affinitylabels": labelledVM.assigned, "POST /vms/{vm}/affinitylabels": labelledVM.assign,
		"GET /vms/{vm}/affinitylabels/{id}": labelledVM.get, "DELETE /vms/{vm}/affinitylabels/{id}": labelledVM.unassign,
		"GET /vms/{vm}/cdroms": listCDROMs, "GET /vms/{vm}/cdroms/{id}": getCDROM, "PUT /vms/{vm}/cdroms/{id}": changeCDROM, "GET /vms/{vm}/permissions": permissionsOf("vm", "vms", "vm"),
		"GET /vms/{vm}/applications": ofVM(listNothing("applications")), "GET /vms/{vm}/watchdogs": listWatchdogs, "POST /vms/{vm}/watchdogs": addWatchdog,
		"GET /vms/{vm}/watchdogs/{id}": getWatchdog, "PUT /vms/{vm}/watchdogs/{id}": updateWatchdog, "DELETE /vms/{vm}/watchdogs/{id}": removeWatchdog,
		"GET /vms/{vm}/backups":     listNothing("backups"),
		"GET /vms/{vm}/hostdevices": listNothing("host_devices"), "POST /vms/{vm}/hostdevices": addHostDevice,
		"GET /vms/{vm}/numanodes": listNUMANodes, "POST /vms/{vm}/numanodes": addNUMANode, "GET /vms/{vm}/numanodes/{id}": getNUMANode,
		"PUT /vms/{vm}/numanodes/{id}": updateNUMANode, "DELETE /vms/{vm}/numanodes/{id}": removeNUMANode,
		"GET /vms/{vm}/checkpoints": listNothing("checkpoints"),
		"GET /vms/{vm}/sessions":    listNothing("sessions"), "GET /vms/{vm}/katelloerrata": listNothing("katello_errata"), "GET /vms/{vm}/mediateddevices": listMediatedDevices, "POST /vms/{vm}/mediateddevices": addMediatedDevice,
		"GET /vms/{vm}/mediateddevices/{id}": itemOf(listMediatedDevices), "PUT /vms/{vm}/mediateddevices/{id}": updateMediatedDevice,
		"DELETE /vms/{vm}/mediateddevices/{id}": removeMediatedDevice,
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

// ofVM is a list below a VM that there must be.
func ofVM(list operation) operation {
	return func(c *call) (*element, error) {
		if _, err := c.vm(); err != nil {
			return nil, err
		}
		return list(c)
	}
}
