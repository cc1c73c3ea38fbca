package desired

import (
	"strings"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestRouterIDsAreChosenOnceAndFreeOfCollisions(t *testing.T) {
	asked := &infrav1.ControlPlaneServices{VirtualIP: "Keepalived", IngressVirtualIP: "10.0.0.6"}
	first, err := ChooseRouterIDs("ns/a", asked, RouterIDs{}, nil)
	check.Error(t, err, "")
	check.Set(t, "first.API", first.API)

	check.Set(t, "first.Ingress", first.Ingress)

	if first.API == first.Ingress {
		t.Errorf("first.API == first.Ingress: %v", first.API)
	}

	if first.API > 255 {
		t.Errorf("first.API > 255: %v", first.API)
	}

	if first.Ingress > 255 {
		t.Errorf("first.Ingress > 255: %v", first.Ingress)
	}

	if t.Failed() {
		t.FailNow()
	}

	if again, err := ChooseRouterIDs("ns/a", asked, RouterIDs{}, nil); err != nil || again != first {
		t.Errorf("the same cluster elsewhere: %+v, %v", again, err)
	}

	other, err := ChooseRouterIDs("ns/a", asked, RouterIDs{}, []int{first.API, first.Ingress})
	check.Error(t, err, "")
	if other.API == first.API {
		t.Errorf("other.API == first.API: %v", other.API)
	}

	if other.Ingress == first.Ingress {
		t.Errorf("other.Ingress == first.Ingress: %v", other.Ingress)
	}

	if other.API == other.Ingress {
		t.Errorf("other.API == other.Ingress: %v", other.API)
	}

	kept, err := ChooseRouterIDs("ns/a", asked, RouterIDs{API: 7, Ingress: 9}, []int{first.API})
	if err != nil || kept != (RouterIDs{API: 7, Ingress: 9}) {
		t.Errorf("IDs that machines have: %+v, %v", kept, err)
	}

	none, err := ChooseRouterIDs("ns/a", &infrav1.ControlPlaneServices{VirtualIP: "KubeVIP"}, RouterIDs{}, nil)
	if err != nil || none != (RouterIDs{}) {
		t.Errorf("kube-vip needs none: %+v, %v", none, err)
	}

	written := &infrav1.ControlPlaneServices{VirtualIP: "Keepalived", VirtualRouterID: 51}
	if got, err := ChooseRouterIDs("ns/a", written, RouterIDs{API: 7}, nil); err != nil || got.API != 51 {
		t.Errorf("one that is written: %+v, %v", got, err)
	}

	got, err := ChooseRouterIDs("ns/a", written, RouterIDs{}, []int{51})
	if err == nil ||
		!strings.Contains(err.Error(), "spec.controlPlaneServices.virtualRouterID: 51 is the ID of another cluster") {
		t.Errorf("one that is written and taken: %+v, %v", got, err)
	}

	var all []int
	for id := 1; id <= 255; id++ {
		all = append(all, id)
	}

	got, err = ChooseRouterIDs("ns/a", asked, RouterIDs{}, all)
	if err == nil || !strings.Contains(err.Error(), "all 255 IDs are in use") {
		t.Errorf("none is free: %+v, %v", got, err)
	}

	got, err = ChooseRouterIDs("ns/a", asked, RouterIDs{}, append(all[:99:99], all[100:]...))
	if err == nil || got.API != 100 {
		t.Errorf("one is free, and two are needed: %+v, %v", got, err)
	}
}

func TestServicesThatCannotWork(t *testing.T) {
	for name, test := range map[string]struct {
		host     string
		services infrav1.ControlPlaneServices
		want     string
	}{
		"kube-vip without an address": {"api.example.com", infrav1.ControlPlaneServices{
			VirtualIP: "KubeVIP",
		}, `spec.controlPlaneEndpoint.host: "api.example.com" is not an IP address`},
		"keepalived without an address": {"", infrav1.ControlPlaneServices{
			VirtualIP: "Keepalived",
		}, "spec.controlPlaneEndpoint.host"},
		"the same port twice": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIP:     "Keepalived",
			LoadBalancer:  "HAProxy",
			APIServerPort: 6443,
		}, "spec.controlPlaneServices.apiServerPort: the load balancer listens at port 6443 itself"},
		"no ingress address": {"10.0.0.5", infrav1.ControlPlaneServices{
			IngressVirtualIP: "apps",
		}, `spec.controlPlaneServices.ingressVirtualIP: "apps" is not an IP address`},
		"one address for both": {"10.0.0.5", infrav1.ControlPlaneServices{
			IngressVirtualIP: "10.0.0.5",
		}, "10.0.0.5 is that of controlPlaneEndpoint.host, too"},
		"not an address of IPv6": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIP:           "Keepalived",
			AdditionalVirtualIP: "fd00",
		}, `additionalVirtualIP: "fd00" is not an IP address`},
		"two of one family": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIP:                  "Keepalived",
			IngressVirtualIP:           "fd00::6",
			AdditionalIngressVirtualIP: "fd00::7",
		}, "additionalIngressVirtualIP: fd00::7 is of the same family as fd00::6"},
		"names of a name": {"api.example.com", infrav1.ControlPlaneServices{
			DNS: &infrav1.ClusterDNS{Domain: "a.example.com"},
		}, "to which controlPlaneServices.dns could resolve api.a.example.com"},
		"an external name": {"api.example.com", infrav1.ControlPlaneServices{VirtualIP: "External"}, ""},
		"all of it": {"10.0.0.5", infrav1.ControlPlaneServices{
			VirtualIP:                  "Keepalived",
			LoadBalancer:               "Nginx",
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
	in := Input{ControlPlane: true, NICs: []addressing.NIC{{}}}
	in.Cluster.ControlPlaneEndpoint.Host = "10.0.0.5"
	in.Cluster.ControlPlaneServices = &infrav1.ControlPlaneServices{VirtualIP: "Keepalived"}
	_, err := services(in, nil)
	if err == nil || !strings.Contains(err.Error(), "the virtual router IDs are not chosen yet") {
		t.Errorf("keepalived without an ID: %v", err)
	}

	in.Cluster.ControlPlaneServices.VirtualIP = "KubeVIP"
	if made, err := services(in, nil); err != nil || made.API.KubeVIPImage != defaultKubeVIPImage {
		t.Errorf("kube-vip needs none: %+v, %v", made, err)
	}

	in.ControlPlane = false
	if made, err := services(in, nil); err != nil || made != nil {
		t.Errorf("a worker: %+v, %v", made, err)
	}
}
