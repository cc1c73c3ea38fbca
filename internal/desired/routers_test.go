package desired

import (
	"slices"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// routed returns a cluster with a virtual router of each kind.
func routed() (infrav1.OLVMClusterSpec, *infrav1alpha1.OLVMSupportServices) {
	of := &infrav1alpha1.OLVMSupportServices{}
	of.Spec.LoadBalancers = []infrav1alpha1.SupportLoadBalancer{{Name: "a", VirtualIP: "10.0.0.7"}, {Name: "b"}}

	return infrav1.OLVMClusterSpec{
		ControlPlaneServices: &infrav1.ControlPlaneServices{VirtualIPProvider: "Keepalived", IngressVirtualIP: "10.0.0.6"},
	}, of
}

func TestRouterIDsAreChosenOnceAndFreeOfCollisions(t *testing.T) {
	t.Parallel()
	asked, of := routed()
	first, err := ChooseRouterIDs("ns/a", asked, of, nil, nil)
	check.Error(t, err, "")
	check.Length(t, "routers", first.All(), 3)
	distinct := slices.Compact(slices.Sorted(slices.Values(first.All())))
	check.Length(t, "IDs", distinct, 3)

	if distinct[0] < 1 || distinct[2] > maxRouterID {
		t.Errorf("the IDs are %v", distinct)
	}

	again, err := ChooseRouterIDs("ns/a", asked, of, nil, nil)
	check.Error(t, err, "")
	check.Equal(t, "the same cluster elsewhere", again, first)

	other, err := ChooseRouterIDs("ns/a", asked, of, nil, first.All())
	check.Error(t, err, "")
	check.Length(t, "IDs beside the others", slices.Compact(slices.Sorted(
		slices.Values(slices.Concat(first.All(), other.All())))), 6)

	has := RouterIDs{APIRouter: 7, IngressRouter: 9, BalancerRouter("a"): 11}
	kept, err := ChooseRouterIDs("ns/a", asked, of, has, []int{7})
	check.Error(t, err, "")
	check.Equal(t, "IDs that machines have", kept, has)

	asked.ControlPlaneServices = &infrav1.ControlPlaneServices{VirtualIPProvider: "KubeVIP"}
	of.Spec.LoadBalancers[0].VirtualIP = ""
	none, err := ChooseRouterIDs("ns/a", asked, of, has, nil)
	check.Error(t, err, "")
	check.Equal(t, "nobody needs any", none, RouterIDs{})
}

func TestRouterIDsThatAreWritten(t *testing.T) {
	t.Parallel()
	asked, of := routed()
	asked.ControlPlaneServices.VirtualRouterID = 51
	got, err := ChooseRouterIDs("ns/a", asked, of, RouterIDs{APIRouter: 7}, nil)
	check.Error(t, err, "")
	check.Equal(t, "the ID that is written", got[APIRouter], 51)

	_, err = ChooseRouterIDs("ns/a", asked, of, nil, []int{51})
	check.Error(t, err, "spec.controlPlaneServices.virtualRouterID: 51 is the ID of another virtual router")

	of.Spec.LoadBalancers[0].VirtualRouterID = 51
	_, err = ChooseRouterIDs("ns/a", asked, of, nil, nil)
	check.Error(t, err, "OLVMSupportServices spec.loadBalancers[0].virtualRouterID: 51 is the ID of another virtual router")
}

func TestRouterIDsAreUsedUp(t *testing.T) {
	t.Parallel()

	var all []int
	for id := 1; id <= maxRouterID; id++ {
		all = append(all, id)
	}

	asked, of := routed()
	_, err := ChooseRouterIDs("ns/a", asked, of, nil, all)
	check.Error(t, err, "other clusters of this engine use all 255 IDs")

	got, err := ChooseRouterIDs("ns/a", asked, of, nil, slices.Delete(all, 99, 100))
	check.Error(t, err, "other clusters of this engine use all 255 IDs")
	check.Equal(t, "the one that is free", got[APIRouter], 100)
}

func TestRouterIDsThatAreRecorded(t *testing.T) {
	t.Parallel()

	tests := map[string]struct {
		annotation, problem string
		want                RouterIDs
	}{
		"none yet":    {"", "", RouterIDs{}},
		"two of them": {`{"api":51,"lb/a":7}`, "", RouterIDs{APIRouter: 51, BalancerRouter("a"): 7}},
		"no JSON": {
			"51", "metadata.annotations[" + infrav1.RouterIDsAnnotation + "]: ", RouterIDs{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &infrav1.OLVMCluster{}
			c.Annotations = map[string]string{infrav1.RouterIDsAnnotation: test.annotation}
			got, err := ParseRouterIDs(c)
			check.Error(t, err, test.problem)
			check.Equal(t, "IDs", got, test.want)
		})
	}
}

func TestRouterIDsWithoutThoseOfAnotherCluster(t *testing.T) {
	t.Parallel()
	ours := RouterIDs{APIRouter: 51, IngressRouter: 52, BalancerRouter("a"): 53}
	check.Equal(t, "without two", ours.Without(RouterIDs{APIRouter: 53, "other": 51}), RouterIDs{IngressRouter: 52})
	check.Equal(t, "without none", ours.Without(nil), ours)
}
