package connection

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// identityPath is the field with an OLVMCluster's identity.
const identityPath = "spec.olvmOvirtAPIServer.identityRef"

// GetIdentityName returns the name of a cluster's OLVMClusterIdentity, or "".
func GetIdentityName(of Engine) string {
	if ref := of.Server.IdentityRef; ref != nil {
		return ref.Name
	}

	return ""
}

// CredentialsKey returns the name of the Secret with the credentials: the cluster's own Secret, or that of its
// identity. It returns false if the name is unknown.
func CredentialsKey(
	of Engine, identity *infrav1alpha1.OLVMClusterIdentity,
) (types.NamespacedName, bool) {
	if GetIdentityName(of) == "" {
		name := of.Server.CredentialsSecret
		return ResolveKey(name, of), name.Name != ""
	}

	if identity == nil {
		return types.NamespacedName{}, false
	}

	return types.NamespacedName(identity.Spec.CredentialsSecret), true
}

// CAKey returns the name of the ConfigMap with the engine's CA, from the cluster or its identity. It returns false if
// there is none, or if it is unknown.
func CAKey(of Engine, identity *infrav1alpha1.OLVMClusterIdentity) (types.NamespacedName, bool) {
	if GetIdentityName(of) == "" {
		name := of.Server.CAConfigMap
		if name == nil {
			return types.NamespacedName{}, false
		}

		return ResolveKey(*name, of), name.Name != ""
	}

	if identity == nil || identity.Spec.CAConfigMap == nil {
		return types.NamespacedName{}, false
	}

	return types.NamespacedName(*identity.Spec.CAConfigMap), true
}

// checkIdentity checks that the identity exists, allows the cluster and the engine, and has a Secret. To reveal
// nothing, it returns the same message for missing identities and for those of others.
func checkIdentity(of Engine, objects Objects, base *url.URL) error {
	identity := objects.Identity
	if identity == nil || !CanUse(identity, of.Key.Namespace, objects.Namespace) {
		return blocker.New(infrav1.CredentialsNotAllowedReason, identityPath,
			"OLVMClusterIdentity %q does not exist, or does not allow namespace %q; an administrator can add the "+
				"namespace to its allowedNamespaces", GetIdentityName(of), of.Key.Namespace)
	}

	// The API server also checks this, but not for manifests read from files by a command.
	server := of.Server
	if server.InsecureSkipTLSVerify || server.CAConfigMap != nil || server.CredentialsSecret.Name != "" {
		return blocker.New(infrav1.CredentialsNotAllowedReason, identityPath,
			"an OLVMClusterIdentity contains credentials and CA, and requires verified certificates; remove "+
				"credentialsSecret, caConfigMap and insecureSkipTLSVerify")
	}

	if err := checkIdentityNamespace(identity, objects.IdentityNamespace, identityPath); err != nil {
		return err
	}

	if !listsEngine(identity.Spec.AllowedServerURLs, base) {
		return blocker.New(infrav1.EngineNotAllowedReason, identityPath,
			"OLVMClusterIdentity %q does not allow the URL %s; an administrator can add the URL to its "+
				"allowedServerURLs",
			identity.Name, base)
	}

	if objects.Secret == nil {
		return blocker.New(infrav1.CredentialsNotFoundReason, identityPath,
			"the Secret of OLVMClusterIdentity %q does not exist; an administrator can create it with the keys "+
				"username and password", identity.Name)
	}

	if identity.Spec.CAConfigMap != nil && objects.CA == nil {
		return blocker.New(infrav1.CAConfigMapInvalidReason, identityPath,
			"the CA's ConfigMap of OLVMClusterIdentity %q does not exist; an administrator can create it with the "+
				"engine's CA certificate under the key ca.crt", identity.Name)
	}

	return nil
}

// checkIdentityNamespace checks that an identity's Secret and ConfigMap are in this namespace. An empty namespace
// allows all. Without this check, the author of an identity could use the Secret of any tenant. field is the field for
// the error, in the object that uses the identity.
func checkIdentityNamespace(identity *infrav1alpha1.OLVMClusterIdentity, namespace, field string) error {
	named := []infrav1alpha1.ObjectOfNamespace{identity.Spec.CredentialsSecret}
	if ca := identity.Spec.CAConfigMap; ca != nil {
		named = append(named, *ca)
	}

	for _, object := range named {
		if namespace != "" && object.Namespace != namespace {
			return blocker.New(infrav1.CredentialsNotAllowedReason, field,
				"the Secret and the ConfigMap of OLVMClusterIdentity %q must be in the manager's namespace %s; an "+
					"administrator can move them there", identity.Name, namespace)
		}
	}

	return nil
}

// CheckIdentityObjects reads the objects of an identity, and returns a *blocker.Error if nobody can use the identity
// with any engine. The error's field belongs to the identity. CheckIdentityObjects reads no objects outside the
// policy's namespace.
func CheckIdentityObjects(
	ctx context.Context, reader client.Reader, identity *infrav1alpha1.OLVMClusterIdentity, policy Policy,
) error {
	if err := checkIdentityNamespace(identity, policy.IdentityNamespace, "spec.credentialsSecret"); err != nil {
		return err
	}

	of := Engine{Server: infrav1.OvirtAPIServer{
		IdentityRef: &infrav1.OLVMClusterIdentityReference{Name: identity.Name},
	}}
	objects := Objects{Identity: identity, Policy: policy}
	if err := objects.readNamed(ctx, reader, of); err != nil {
		return err
	}

	if err := checkAllowedUse(identity); err != nil {
		return err
	}

	switch {
	case objects.Secret == nil:
		return blocker.New(infrav1.CredentialsNotFoundReason, "spec.credentialsSecret",
			"Secret %s does not exist; create it with the keys username and password",
			identity.Spec.CredentialsSecret.Name)
	case identity.Spec.CAConfigMap != nil && objects.CA == nil:
		return blocker.New(infrav1.CAConfigMapInvalidReason, "spec.caConfigMap",
			"ConfigMap %s does not exist; create it with the engine's CA certificate under the key ca.crt",
			identity.Spec.CAConfigMap.Name)
	}

	_, err := newConfig(of, objects, identity.Spec.AllowedServerURLs[0])

	return err
}

// checkAllowedUse checks that an identity allows some namespace and some engine.
func checkAllowedUse(identity *infrav1alpha1.OLVMClusterIdentity) error {
	const field = "spec.allowedNamespaces"

	switch allowed := identity.Spec.AllowedNamespaces; {
	case allowed == nil, len(allowed.List) == 0 && (allowed.Selector == nil || isEmptied(*allowed.Selector)):
		return blocker.New(infrav1.NoNamespaceAllowedReason, field,
			"it allows no namespace; list some, or set selector: {} to allow all")
	default:
		if _, err := metav1.LabelSelectorAsSelector(allowed.Selector.ToKubernetes()); err != nil {
			return blocker.New(infrav1.NoNamespaceAllowedReason, field+".selector", "it is invalid: %v; correct it",
				err)
		}
	}

	if len(identity.Spec.AllowedServerURLs) == 0 {
		return blocker.New(infrav1.EngineNotAllowedReason, "spec.allowedServerURLs", "it allows no engine; list some")
	}

	for i, url := range identity.Spec.AllowedServerURLs {
		if _, err := engine.ParseBaseURL(url); err != nil {
			return blocker.New(infrav1.EngineNotAllowedReason, fmt.Sprintf("spec.allowedServerURLs[%d]", i), "%v", err)
		}
	}

	return nil
}

// CanUse reports whether a namespace may use an identity. object is nil if the namespace's labels are unknown. Then the
// list and the empty selector can still allow it. An empty list allows no namespace, nor does a selector with an empty
// part. An empty selector allows all.
func CanUse(identity *infrav1alpha1.OLVMClusterIdentity, namespace string, object *corev1.Namespace) bool {
	allowed := identity.Spec.AllowedNamespaces

	switch {
	case allowed == nil:
		return false
	case slices.Contains(allowed.List, namespace):
		return true
	case allowed.Selector == nil || isEmptied(*allowed.Selector):
		return false
	case allowed.Selector.MatchLabels == nil && allowed.Selector.MatchExpressions == nil:
		return true // selector: {} selects all namespaces, even with unknown labels
	case object == nil:
		return false
	}

	selector, err := metav1.LabelSelectorAsSelector(allowed.Selector.ToKubernetes())

	return err == nil && selector.Matches(labels.Set(object.Labels))
}

// isEmptied reports whether a selector has an empty part. Removing the last label must not select all namespaces.
func isEmptied(selector infrav1.LabelSelector) bool {
	return selector.MatchLabels != nil && len(selector.MatchLabels) == 0 ||
		selector.MatchExpressions != nil && len(selector.MatchExpressions) == 0
}

// ListsEngine reports whether one of the URLs belongs to an engine.
func ListsEngine(urls []string, serverURL string) bool {
	base, err := engine.ParseBaseURL(serverURL)

	return err == nil && listsEngine(urls, base)
}

// listsEngine reports whether one of the URLs belongs to an engine.
func listsEngine(urls []string, base *url.URL) bool {
	return slices.ContainsFunc(urls, func(text string) bool {
		allowed, err := engine.ParseBaseURL(text)
		return err == nil && strings.EqualFold(allowed.Host, base.Host) && allowed.Path == base.Path
	})
}

// describeSource names, for messages, the source of a part of the connection: a field of the cluster, or its identity.
func describeSource(of Engine, field string) string {
	if name := GetIdentityName(of); name != "" && of.Key.Name == "" {
		return "spec." + field // of the identity itself
	} else if name != "" {
		return fmt.Sprintf("%s (OLVMClusterIdentity %s)", identityPath, name)
	}

	return "spec.olvmOvirtAPIServer." + field
}
