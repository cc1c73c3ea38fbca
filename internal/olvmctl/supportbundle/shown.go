package supportbundle

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capolvm/cluster-api-provider-olvm/internal/redact"
)

// shownFields are the names of fields whose strings a bundle shows, at any depth. A bundle always shows numbers,
// booleans and the keys of maps. It hides all other strings, because a field nobody has considered may hold a secret.
// shownMaps and shownAnnotations are the exceptions.
var shownFields = sets.New(
	// These are fields of every object.
	"apiVersion", "kind", "name", "namespace", "uid", "resourceVersion", "generateName", "creationTimestamp",
	"deletionTimestamp", "finalizers", "apiGroup", "group",
	// These are fields of conditions, and of the status of machines.
	"type", "status", "reason", "message", "error", "lastTransitionTime", "lastUpdated", "lastHeartbeatTime", "phase",
	"creationStatus", "creationError", "lastGeneration", "startTime", "completionTime", "checkTime", "differences",
	"architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion",
	"machineID", "operatingSystem", "osImage", "systemUUID",
	// These are fields of Cluster API's clusters and machines.
	"clusterName", "version", "dataSecretName", "providerID", "failureDomain", "failureDomains", "class",
	"classNamespace", "templateNamespace", "serviceDomain", "cidrBlocks", "host", "selector", "maxSurge",
	"maxUnavailable", "order", "operator", "key", "effect", "propagation", "deletePolicy", "classRef",
	"namingStrategy", "templateName", "unhealthyRange", "nodeStartupTimeout", "timeout", "minReadySeconds",
	// These are fields of kubeadm configurations: the places of files, but not their content.
	"format", "path", "owner", "permissions", "encoding", "device", "filesystem", "label", "partition", "certSANs",
	"imageRepository", "imageTag", "imagePullPolicy", "criSocket", "dataDir", "certificatesDir",
	"controlPlaneEndpoint", "advertiseAddress", "apiServerEndpoint", "caCertHashes", "servers", "groups", "shell",
	"primaryGroup", "dnsDomain", "podSubnet", "serviceSubnet",
	// These are fields with addresses.
	"address", "addresses", "gateway", "prefix", "subnet", "ipAddress", "ipAddresses", "dnsServers", "searchDomains",
	"macAddress", "macAddresses", "interface", "noProxy",
	// These are fields of clusterctl's providers.
	"providerName", "watchedNamespace",
	// These are fields of this provider's clusters.
	"serverURL", "engineID", "olvmDatacenterName", "dataCenterID", "dataCenterName", "clusterID", "olvmOvirtClusterID",
	"affinityGroupNames",
	"description", "enforcing", "topologyKey", "hostNames", "affinityLabel", "role", "machines", "virtualIP",
	"virtualIPProvider",
	"ingressVirtualIP", "additionalVirtualIP", "additionalIngressVirtualIP", "loadBalancerProvider", "kubeVIPImage",
	"nginxImage", "image", "domain", "issuer", "caSecretName", "connectorsSecretName", "engineCredentialsSecretName",
	"kubeconfigSecretName", "nodeKeysSecretName", "nodeUser", "user", "bootstrapDelivery", "allowedServerURLs",
	"list", "redirectURIs", "ports", "id", "defaultAffinityGroups",
	// These are fields of this provider's machines.
	"olvmOvirtClusterName", "vmTemplateName", "vmTemplateID", "networkName", "networkID", "vnicName",
	"vnicID", "vnicProfileName", "vnicProfileID", "ipProfileName", "memory", "guaranteedMemory", "maximumMemory",
	"instanceType", "autoPinningPolicy", "biosType", "osType", "mode", "action", "from", "size", "interfaceType",
	"storageDomainName", "storageErrorResume", "leaseStorageDomainName", "graphicsConsoles", "hostDevices",
	"property", "tag", "tags", "vmID", "vmName", "hostName", "vmStatus", "operation", "result", "changes",
	"stateSecretName", "stateLineage",
	// These are fields of this provider's inventories.
	"inventoryName", "provisionName", "search", "recycle", "machineTemplateName", "machineName", "claimID",
	"names",
)

// shownMaps are fields with maps of labels, because labels have no secrets.
var shownMaps = sets.New("labels", "matchLabels", "nodeSelector")

// shownAnnotations are the prefixes of annotations whose values a bundle shows.
var shownAnnotations = []string{"cluster.x-k8s.io/", "infrastructure.cluster.x-k8s.io/", "clusterctl.cluster.x-k8s.io/"}

// HideSecrets removes possible secrets from an object, and also the fields used only by the API server.
func HideSecrets(object *unstructured.Unstructured) {
	object.SetManagedFields(nil)

	annotations := object.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	object.SetAnnotations(annotations)
	hideIn(object.Object, "")
}

// hideIn hides strings in the value of a field.
func hideIn(value any, field string) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			of := name
			if shownMaps.Has(field) {
				of = "name"
			}

			switch field {
			case "annotations":
				of = annotationField(name)
			case "value": // the value of a variable, with fields of its own
				of = field
			}

			v[name] = hideIn(inner, of)
		}
	case []any:
		for i, inner := range v {
			v[i] = hideIn(inner, field)
		}
	case string:
		if v != "" && !shownFields.Has(field) {
			return redact.Mark
		}

		return userInURL.ReplaceAllString(v, "${1}"+redact.Mark+"@")
	}

	return value
}

// userInURL matches the user and the password in a URL.
var userInURL = regexp.MustCompile(`(://)[^/?#]*@`)

// annotationField returns the name of the field that decides whether to show the value of an annotation.
func annotationField(name string) string {
	for _, prefix := range shownAnnotations {
		if strings.HasPrefix(name, prefix) {
			return "name"
		}
	}

	return "annotation"
}
