package clustertree

import (
	"cmp"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
)

// conditionProblem describes why a condition of an object is not true. It returns "" if the condition is true.
func conditionProblem(object conditions.Getter, condition string) string {
	found := conditions.Get(object, condition)
	switch {
	case found == nil:
		return condition + " is unknown"
	case found.Status == metav1.ConditionTrue:
		return ""
	}

	between := " "
	if strings.HasPrefix(found.Message, "* ") { // a message of Cluster API with a list
		between = "\n"
	}

	return strings.TrimRight(found.Reason+":"+between+found.Message, ": \n")
}

// causeOf returns why an object of this project is not ready, according to the condition that explains Ready. It
// returns "" if the object is ready or new. stuck is true if the problem remains until a user corrects it.
func causeOf(object conditions.Getter) (cause string, stuck bool) {
	ready := conditions.Get(object, infrav1.ReadyCondition)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return "", false
	}

	for _, c := range object.GetConditions() {
		if c.Type != infrav1.ReadyCondition && c.Reason == ready.Reason && c.Message != "" {
			return c.Reason + ": " + c.Message, blocker.IsStuckUntilFixed(c.Reason)
		}
	}

	return "", false
}

// machineTrouble returns the problem of a machine, or "" if it is ready and up to date. stuck is true if the problem
// remains until a user corrects it. version is the version requested by its owner.
func machineTrouble(
	machine *clusterv1.Machine, infra *infrav1.OLVMMachine, version string,
) (trouble string, stuck bool) {
	replaced := !machine.DeletionTimestamp.IsZero() || isReplaced(machine)

	if !replaced {
		if other := otherKubelet(machine, infra, version); other != "" {
			return other, true
		}
	}

	trouble = conditionProblem(machine, clusterv1.MachineReadyCondition)
	if trouble == "" || infra == nil {
		return trouble, false
	}

	cause, stuck := causeOf(infra)

	return cmp.Or(cause, trouble), stuck && !replaced // a replaced machine needs no correction
}

// explainOutdated explains why the VM of a ready machine does not match its spec. It returns "" if the VM matches, or
// if the machine is not ready and reports another problem.
func explainOutdated(infra *infrav1.OLVMMachine) string {
	if !conditions.IsTrue(infra, infrav1.ReadyCondition) || !conditions.IsFalse(infra, infrav1.UpToDateCondition) {
		return ""
	}

	return conditionProblem(infra, infrav1.UpToDateCondition)
}

// isReplaced reports whether a rollout replaces the machine because its owner requests other settings. Another kubelet
// version also makes a machine out of date, but with a different reason.
func isReplaced(machine *clusterv1.Machine) bool {
	c := conditions.Get(machine, clusterv1.MachineUpToDateCondition)

	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == clusterv1.MachineNotUpToDateReason
}

// otherKubelet describes the problem of a node whose kubelet has another version than its Machine. It returns "" if the
// versions agree, or if a rollout changes the version anyway.
func otherKubelet(machine *clusterv1.Machine, infra *infrav1.OLVMMachine, version string) string {
	node := machine.Status.NodeInfo
	if node == nil || node.KubeletVersion == "" || node.KubeletVersion == machine.Spec.Version ||
		machine.Spec.Version != version {
		return ""
	}

	image := "its image"
	if infra != nil {
		image = "VM template " + infra.Spec.VMTemplateName
	}

	if strings.HasPrefix(node.KubeletVersion, version+"+") { // Cluster API also compares build metadata
		return fmt.Sprintf("OtherKubelet: its node has kubelet %s, a build of the requested version %s, but "+
			"Cluster API treats it as another version; request %[1]s", node.KubeletVersion, version)
	}

	return fmt.Sprintf("OtherKubelet: its node has kubelet %s, but %s is requested; %s contains another version; "+
		"use one with %s", node.KubeletVersion, version, image, version)
}

// shortenMessage shortens a message to one line. If a message of Cluster API has a list, it keeps the first entry and
// the parents of this entry.
func shortenMessage(message string) string {
	var path []string

	for line := range strings.Lines(message) {
		text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "* "))
		if text == "" {
			continue
		}

		path = append(path, text)
		if !strings.HasSuffix(text, ":") {
			break
		}
	}

	return strings.TrimSuffix(strings.Join(path, " "), ":")
}
