package preview

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// predictDeleted returns the machines deleted first by Cluster API if an owner scales down. The order is: annotated
// machines, unhealthy machines, machines chosen by the deletion policy. If the policy leaves the choice open, out has
// fewer than count machines, and the rest come from candidates.
func predictDeleted(
	owner *unstructured.Unstructured, machines []*unstructured.Unstructured, count int64,
) (out, candidates []string) {
	rest := slices.Clone(machines)
	take := func(chosen *unstructured.Unstructured) {
		out = append(out, chosen.GetName())
		rest = slices.DeleteFunc(rest, func(m *unstructured.Unstructured) bool { return m == chosen })
	}

	isTaken := func(m *unstructured.Unstructured) bool { return slices.Contains(out, m.GetName()) }

	slices.SortStableFunc(rest, func(a, b *unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})

	marked := slices.DeleteFunc(slices.Clone(rest), func(m *unstructured.Unstructured) bool { return !isMarked(m) })
	for ; len(marked) > 0 && int64(len(out)) < count; marked = slices.DeleteFunc(marked, isTaken) {
		chosen := marked[0]
		if int64(len(out)+len(marked)) > count { // they compete
			if chosen = predictNext(owner, marked, rest); chosen == nil {
				return out, namesOf(marked)
			}
		}

		take(chosen)
	}

	if int64(len(out)) == count {
		return out, nil
	}

	unhealthy := unhealthyOf(owner, rest)

	if int64(len(out)+len(unhealthy)) > count {
		return out, namesOf(unhealthy)
	}

	for _, machine := range unhealthy {
		take(machine)
	}

	for int64(len(out)) < count && len(rest) > 0 {
		chosen := predictNext(owner, rest, rest)
		if chosen == nil && int64(len(rest)) > count-int64(len(out)) {
			return out, namesOf(rest)
		}

		take(cmp.Or(chosen, rest[0]))
	}

	return out, nil
}

func namesOf(objects []*unstructured.Unstructured) []string {
	var out []string
	for _, object := range objects {
		out = append(out, object.GetName())
	}

	return out
}

// unhealthyOf returns the machines deleted early because they are unhealthy. For a control plane it returns none,
// because a control plane ignores health here.
func unhealthyOf(
	owner *unstructured.Unstructured, machines []*unstructured.Unstructured,
) []*unstructured.Unstructured {
	if owner.GetKind() == "KubeadmControlPlane" {
		return nil
	}

	return slices.DeleteFunc(slices.Clone(machines), func(m *unstructured.Unstructured) bool { return !isUnhealthy(m) })
}

// predictNext returns the one of some machines chosen next by the owner's policy. all are the machines that the owner
// has until then. The machines are sorted by age. It returns nil if the policy may choose any of them.
func predictNext(
	owner *unstructured.Unstructured, machines, all []*unstructured.Unstructured,
) *unstructured.Unstructured {
	if oldest := machines[0].GetCreationTimestamp(); oldest.IsZero() {
		return nil // a machine of manifests has no age
	}

	if owner.GetKind() == "KubeadmControlPlane" {
		return oldestOfFullest(machines, all)
	}

	for _, path := range [][]string{
		{"spec", "deletion", "order"}, {"spec", "strategy", "rollingUpdate", "deletePolicy"}, {"spec", "deletePolicy"},
	} {
		switch order, _, _ := unstructured.NestedString(owner.Object, path...); order {
		case "Oldest":
			return machines[0]
		case "Newest":
			return machines[len(machines)-1]
		}
	}

	return nil
}

// oldestOfFullest returns the oldest of some machines in the failure domain with the most of them, and then with the
// most machines of all. A control plane chooses the same machine.
func oldestOfFullest(machines, all []*unstructured.Unstructured) *unstructured.Unstructured {
	domain := func(m *unstructured.Unstructured) string {
		name, _, _ := unstructured.NestedString(m.Object, "spec", "failureDomain")
		return name
	}
	count := func(machines []*unstructured.Unstructured) map[string]int {
		out := map[string]int{}
		for _, m := range machines {
			out[domain(m)]++
		}

		return out
	}
	eligible, total := count(machines), count(all)

	return slices.MaxFunc(machines, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(eligible[domain(a)]-eligible[domain(b)], total[domain(a)]-total[domain(b)])
	})
}
