package bootstrap

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// renderKubeVIPPod returns a static pod that holds the endpoint's address. The nodes elect the holder by a lease, so
// they need not know each other.
//
// superAdmin reports whether super-admin.conf has the rights that admin.conf may still lack during kubeadm init. Only
// the node that initialises the cluster has this file.
func renderKubeVIPPod(s *Services, superAdmin bool) string {
	kubeconfig := "/etc/kubernetes/admin.conf"
	if superAdmin {
		kubeconfig = "/etc/kubernetes/super-admin.conf"
	}

	var masks []string
	for _, address := range s.API.All() {
		masks = append(masks, strconv.Itoa(address.BitLen()))
	}

	lease := s.API.KubeVIPLease.OrDefault()
	env := []corev1.EnvVar{
		{Name: "vip_arp", Value: "true"},
		{Name: "port", Value: strconv.Itoa(int(s.API.Port))},
		{Name: "vip_interface", Value: s.Interface},
		{Name: "vip_subnet", Value: strings.Join(masks, ",")},
		{Name: "cp_enable", Value: "true"},
		{Name: "cp_namespace", Value: metav1.NamespaceSystem},
		{Name: "svc_enable", Value: "false"},
		{Name: "vip_leaderelection", Value: "true"},
		{Name: "vip_leasename", Value: "plndr-cp-lock"},
		{Name: "vip_leaseduration", Value: strconv.Itoa(int(lease.Duration))},
		{Name: "vip_renewdeadline", Value: strconv.Itoa(int(lease.RenewDeadline))},
		{Name: "vip_retryperiod", Value: strconv.Itoa(int(lease.RetryPeriod))},
		{Name: "address", Value: joinAddresses(s.API.All(), ",")},
	}
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "kube-vip", Namespace: metav1.NamespaceSystem},
		Spec: corev1.PodSpec{
			HostNetwork:       true,
			PriorityClassName: "system-node-critical",
			// Use the node's API server instead of the address that the pod holds.
			HostAliases: []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: []string{"kubernetes"}}},
			Containers: []corev1.Container{{
				Name:            "kube-vip",
				Image:           s.API.KubeVIPImage,
				ImagePullPolicy: corev1.PullIfNotPresent,
				Args:            []string{"manager"},
				Env:             env,
				SecurityContext: &corev1.SecurityContext{
					Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "kubeconfig", MountPath: "/etc/kubernetes/admin.conf", ReadOnly: true},
				},
			}},
			Volumes: []corev1.Volume{
				{
					Name: "kubeconfig",
					VolumeSource: corev1.VolumeSource{
						HostPath: &corev1.HostPathVolumeSource{Path: kubeconfig, Type: ptr.To(corev1.HostPathFile)},
					},
				},
			},
		},
	}

	return encodePod(pod)
}

// encodePod returns a static pod in the kubelet's format.
func encodePod(pod *corev1.Pod) string {
	text, err := yaml.Marshal(pod)
	if err != nil {
		panic(fmt.Sprintf("failed to encode a pod: %v", err)) // this program has built the pod
	}

	return string(text)
}
