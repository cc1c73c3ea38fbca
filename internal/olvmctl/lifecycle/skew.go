package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file implements Kubernetes's version skew policy. API servers are upgraded by one minor version at a time, and
// never downgraded. kubelets may skip versions, because an upgrade replaces their machines. They are never newer than
// the API servers, and at most three minor versions older.

const (
	// kubeletLag is the maximum number of minor versions a kubelet may be older than the API servers.
	kubeletLag = 3
	// earlyKubeletLag is the maximum for kubelets older than minor version earlyKubelet.
	earlyKubeletLag = 2
	earlyKubelet    = 25
)

// pool is a group of workers with the versions of its machines.
type pool struct {
	name     string
	versions []string
}

// checkSkew returns an error if the cluster cannot be upgraded. now is the currently requested version of the control
// plane, and deployments are the MachineDeployments. checkSkew also considers the versions of the machines, because an
// earlier rollout may not have finished.
func (u *upgrade) checkSkew(ctx context.Context, now string, deployments []*unstructured.Unstructured) error {
	if u.Version == "" {
		return nil
	}

	var machines clusterv1.MachineList
	err := u.List(ctx, &machines, client.InNamespace(u.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: u.Name,
	})
	if err != nil {
		return fmt.Errorf("failed to list the machines: %w", err)
	}

	var controlPlane []string
	pools := map[string]*pool{}

	for _, one := range deployments {
		pools[one.GetName()] = &pool{one.GetKind() + " " + one.GetName(), []string{versionOf(one)}}
	}

	for i := range machines.Items {
		machine := &machines.Items[i]
		name := machine.Labels[clusterv1.MachineDeploymentNameLabel]
		_, controls := machine.Labels[clusterv1.MachineControlPlaneLabel]

		switch {
		case machine.Spec.Version == "" || !machine.DeletionTimestamp.IsZero() || isToCome(machine, u.Version):
		case controls:
			controlPlane = append(controlPlane, machine.Spec.Version)
		case pools[name] != nil:
			pools[name].versions = append(pools[name].versions, machine.Spec.Version)
		default:
			pools[machine.Name] = &pool{"Machine " + machine.Name, []string{machine.Spec.Version}}
		}
	}

	// A requested version can be withdrawn if no machine has it.
	if !isOlder(u.Version, now) || len(controlPlane) == 0 || slices.Contains(controlPlane, now) {
		controlPlane = slices.Insert(controlPlane, 0, now)
	}

	var list []pool
	for _, name := range slices.Sorted(maps.Keys(pools)) { // for the same error each time
		list = append(list, *pools[name])
	}

	return checkVersionSkew(controlPlane, list, u.Version)
}

// isToCome reports whether a machine requests the new version but does not run it yet. The machine has no node, or its
// kubelet has another version, for example because its VM template has another version.
func isToCome(machine *clusterv1.Machine, version string) bool {
	if !isOlder(version, machine.Spec.Version) {
		return false
	}

	if machine.Status.NodeInfo != nil && machine.Status.NodeInfo.KubeletVersion != "" {
		return !isOlder(version, machine.Status.NodeInfo.KubeletVersion)
	}

	return machine.Status.NodeRef.Name == ""
}

// isOlder reports whether a version is older than another one.
func isOlder(version, than string) bool {
	one, err := semver.ParseTolerant(version)
	other, otherErr := semver.ParseTolerant(than)

	return err == nil && otherErr == nil && one.LT(other)
}

// checkVersionSkew returns an error if the control plane and the pools cannot be upgraded to a version.
func checkVersionSkew(controlPlane []string, pools []pool, to string) error {
	for _, from := range controlPlane {
		if err := checkUpgrade(from, to); err != nil {
			return fmt.Errorf("control plane: %w", err)
		}
	}

	for _, one := range pools {
		for _, from := range one.versions {
			if err := checkKubeletLag(from, to, controlPlane[0]); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
	}

	return nil
}

// checkKubeletLag returns an error if kubelets are too old for the new API servers, because API servers are upgraded
// first. now is the version of the control plane.
func checkKubeletLag(kubelet, to, now string) error {
	before, err := semver.ParseTolerant(kubelet)
	if err != nil {
		return fmt.Errorf("invalid version %q: %w", kubelet, err)
	}

	after, err := semver.ParseTolerant(to)
	if err != nil {
		return fmt.Errorf("--kubernetes-version: %w", err)
	}

	lag := uint64(kubeletLag)
	if before.Minor < earlyKubelet {
		lag = earlyKubeletLag
	}

	// A rollout does not increase an existing skew, because it replaces the old machines.
	if running, err := semver.ParseTolerant(now); err == nil && running.Minor == after.Minor {
		return nil
	}

	if after.Minor > before.Minor+lag {
		return fmt.Errorf("its kubelets have version %s, which supports API servers up to v%d.%d; first upgrade "+
			"them to %s, the version of the control plane", kubelet, before.Major, before.Minor+lag, now)
	}

	return nil
}

// checkUpgrade returns an error if a control plane cannot be upgraded from one version to another.
func checkUpgrade(from, to string) error {
	before, err := semver.ParseTolerant(from)
	if err != nil {
		return fmt.Errorf("invalid version %q: %w", from, err)
	}

	after, err := semver.ParseTolerant(to)
	switch {
	case err != nil:
		return fmt.Errorf("--kubernetes-version: %w", err)
	case after.LT(before):
		return fmt.Errorf("--kubernetes-version: cannot downgrade from %s to %s", from, to)
	case after.Major != before.Major || after.Minor > before.Minor+1:
		return fmt.Errorf("--kubernetes-version: from %s to %s is more than one minor version; upgrade to v%d.%d first",
			from, to, before.Major, before.Minor+1)
	}

	return nil
}
