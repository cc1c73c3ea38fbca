package desired

import (
	"strings"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
)

func TestServicesThatCannotWork(t *testing.T) {
	for name, test := range map[string]struct {
		host     string
		services infrav1.ControlPlaneServices
		want     string
	}{
		"kube-vip without an address": {"api.example.com", infrav1.ControlPlaneServices{
			VirtualIPProvider: "KubeVIP",
		}, `spec.controlPlaneEndpoint.host: "api.example.com" is not an IP address`},
		"keepalived without an address": {"", infrav1.ControlPlaneServices{
			VirtualIPProvider: "Keepalived",
		}, "spec.controlPlaneEndpoint.host"},
		"the same port twice": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIPProvider:    "Keepalived",
			LoadBalancerProvider: "HAProxy",
			APIServerPort:        6443,
		}, "spec.controlPlaneServices.apiServerPort: the load balancer itself listens on port 6443"},
		"no ingress address": {"10.0.0.5", infrav1.ControlPlaneServices{
			IngressVirtualIP: "apps",
		}, `spec.controlPlaneServices.ingressVirtualIP: "apps" is not an IP address`},
		"one address for both": {"10.0.0.5", infrav1.ControlPlaneServices{
			IngressVirtualIP: "10.0.0.5",
		}, "10.0.0.5 is also the address of controlPlaneEndpoint.host"},
		"not an address of IPv6": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIPProvider:   "Keepalived",
			AdditionalVirtualIP: "fd00",
		}, `additionalVirtualIP: "fd00" is not an IP address`},
		"two of one family": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIPProvider:          "Keepalived",
			IngressVirtualIP:           "fd00::6",
			AdditionalIngressVirtualIP: "fd00::7",
		}, "additionalIngressVirtualIP: fd00::7 has the same address family as fd00::6"},
		"names of a name": {"api.example.com", infrav1.ControlPlaneServices{
			DNS: &infrav1.ClusterDNS{Domain: "a.example.com"},
		}, "controlPlaneServices.dns cannot resolve api.a.example.com to it"},
		"a lease that ends before it is renewed": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIPProvider: "KubeVIP",
			KubeVIPLease:      &infrav1.KubeVIPLease{DurationSeconds: 10},
		}, "spec.controlPlaneServices.kubeVIPLease.durationSeconds: it is 10, but renewDeadlineSeconds is 10"},
		"a lease that is not tried in time": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIPProvider: "KubeVIP",
			KubeVIPLease:      &infrav1.KubeVIPLease{RetryPeriodSeconds: 9},
		}, "kubeVIPLease.renewDeadlineSeconds: it is 10, but retryPeriodSeconds is 9"},
		"a short lease": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIPProvider: "KubeVIP",
			KubeVIPLease: &infrav1.KubeVIPLease{
				DurationSeconds: 5, RenewDeadlineSeconds: 3, RetryPeriodSeconds: 1,
			},
		}, ""},
		"an external name": {"api.example.com", infrav1.ControlPlaneServices{VirtualIPProvider: "External"}, ""},
		"all of it": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIPProvider:          "Keepalived",
			LoadBalancerProvider:       "Nginx",
			IngressVirtualIP:           "10.0.0.6",
			AdditionalVirtualIP:        "fd00::5",
			AdditionalIngressVirtualIP: "fd00::6",
			DNS:                        &infrav1.ClusterDNS{Domain: "a.example.com"},
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateServices(infrav1.OLVMClusterSpec{
				ControlPlaneEndpoint: infrav1.APIEndpoint{Host: test.host},
				ControlPlaneServices: &test.services,
			})
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(),
				test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestServicesWaitForTheirRouterIDs(t *testing.T) {
	in := Input{Role: infrav1.ControlPlaneRole, NICs: []addressing.NIC{{}}}
	in.Cluster.ControlPlaneEndpoint.Host = "10.0.0.5"
	in.Cluster.ControlPlaneServices = &infrav1.ControlPlaneServices{VirtualIPProvider: "Keepalived"}
	_, err := buildServices(in, nil)
	if err == nil || !strings.Contains(err.Error(), "the virtual router IDs are not chosen yet") {
		t.Errorf("keepalived without an ID: %v", err)
	}

	in.Cluster.ControlPlaneServices.VirtualIPProvider = "KubeVIP"
	if made, err := buildServices(in, nil); err != nil || made.API.KubeVIPImage != defaultKubeVIPImage {
		t.Errorf("kube-vip needs none: %+v, %v", made, err)
	}

	in.Role = infrav1.WorkerRole
	if made, err := buildServices(in, nil); err != nil || made != nil {
		t.Errorf("a worker: %+v, %v", made, err)
	}
}
