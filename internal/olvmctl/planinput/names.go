package planinput

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
)

// checkNames rejects an object if its name or namespace is invalid for the API server. Names become names of VMs and
// parts of reports, and manifests may be untrusted. It sets a missing namespace to default. Objects that plans ignore
// may lack a name.
func checkNames(object *unstructured.Unstructured) error {
	if object.GetNamespace() == "" {
		object.SetNamespace("default")
	}

	if problems := validation.IsDNS1123Label(object.GetNamespace()); len(problems) > 0 {
		return nameError(object, "metadata.namespace", object.GetNamespace(), problems)
	}

	if name := object.GetName(); name != "" || isRead(object) {
		if problems := nameProblems(object, name); len(problems) > 0 {
			return nameError(object, "metadata.name", name, problems)
		}
	}

	return nil
}

// isRead reports whether the plan may depend on an object.
func isRead(object *unstructured.Unstructured) bool {
	group := object.GroupVersionKind().Group

	return group == "" || strings.HasSuffix(group, "cluster.x-k8s.io")
}

// nameProblems returns the API server's objections to a name. Most kinds require DNS subdomain names. The exceptions,
// such as RBAC kinds, are kinds that plans ignore.
func nameProblems(object *unstructured.Unstructured, name string) []string {
	switch {
	case name == "":
		return []string{"required"}
	case object.GetKind() == "Namespace":
		return validation.IsDNS1123Label(name)
	case isRead(object):
		return validation.IsDNS1123Subdomain(name)
	}

	return content.IsPathSegmentName(name)
}

func nameError(object *unstructured.Unstructured, field, value string, problems []string) error {
	return errors.New(plaintext.OneLine(fmt.Sprintf("%s: %s: invalid value %q: %s", object.GetKind(), field, value,
		strings.Join(problems, "; "))))
}
