// Package connection determines how to reach the engine of an OLVMCluster: its URL, credentials and CA. It also decides
// who may use them.
package connection

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Objects determine the connection to an engine, together with the OLVMCluster. An object is nil if it does not exist,
// or if nothing refers to it.
type Objects struct {
	Secret *corev1.Secret
	CA     *corev1.ConfigMap
	// Identity is the identity of the cluster. Namespace is the cluster's namespace. An identity may select the
	// namespace by its labels.
	Identity  *infrav1alpha1.OLVMClusterIdentity
	Namespace *corev1.Namespace
	Policy
}

// Policy is the administrator's choice by flags of the manager.
type Policy struct {
	// Unbound allows a Secret without allowed server URLs to be sent to any engine.
	AllowAnyEngine bool
	// IdentityNamespace is the only namespace for the Secrets and ConfigMaps of identities: the manager's own.
	// Command-line tools leave it empty to allow all namespaces.
	IdentityNamespace string
}

// BuildConfig returns the connection to the engine of a cluster. It refuses a Secret without allowed server URLs,
// unless AllowAnyEngine is set.
func BuildConfig(of Engine, objects Objects) (engine.Config, error) {
	server := of.Server
	base, err := engine.ParseBaseURL(server.ServerURL)
	if err != nil {
		return engine.Config{}, &blocker.Error{
			Reason:  infrav1.EngineUnreachableReason,
			Field:   "spec.olvmOvirtAPIServer.serverURL",
			Message: err.Error(),
		}
	}

	if GetIdentityName(of) != "" {
		err = checkIdentity(of, objects, base)
	} else {
		err = checkCredentials(of, objects.Secret, base, objects.AllowAnyEngine)
	}

	if err != nil {
		return engine.Config{}, err
	}

	return newConfig(of, objects, server.ServerURL)
}

// newConfig returns the connection to an engine. The caller has checked that the objects may be used for it.
func newConfig(of Engine, objects Objects, serverURL string) (engine.Config, error) {
	server, secret := of.Server, objects.Secret
	config := engine.Config{URL: serverURL, Insecure: server.InsecureSkipTLSVerify}
	config.Username, config.Password = GetLogin(secret)

	if err := checkLogin(config, describeSource(of, "credentialsSecret"), secret.Name); err != nil {
		return engine.Config{}, err
	}

	_, caNamed := CAKey(of, objects.Identity)
	if err := checkTrustKeys(secret, server, caNamed, describeSource(of, "credentialsSecret")); err != nil {
		return engine.Config{}, err
	}

	if GetIdentityName(of) == "" && secret.Namespace != "" && secret.Namespace != of.Key.Namespace {
		if err := checkTrustForForeignSecret(server, secret.Namespace); err != nil {
			return engine.Config{}, err
		}
	}

	return withCA(of, config, objects)
}

// withCA adds the CA of the cluster, its identity or the Secret.
func withCA(of Engine, config engine.Config, objects Objects) (engine.Config, error) {
	_, named := CAKey(of, objects.Identity)

	switch {
	case config.Insecure:
		return config, nil
	case !named:
		return withBundleOfSecret(config, objects.Secret, describeSource(of, "credentialsSecret"))
	}

	if GetIdentityName(of) == "" {
		if err := checkCAConfigMap(of, objects.CA); err != nil {
			return engine.Config{}, err
		}
	}

	config.CA = joinCertificates(objects.CA)
	_, err := engine.New(config)
	if len(config.CA) == 0 { // otherwise the client would use the trust store of the image
		err = errors.New("it is empty")
	}

	if err != nil {
		return engine.Config{}, &blocker.Error{
			Reason: infrav1.CAConfigMapInvalidReason,
			Field:  describeSource(of, "caConfigMap"),
			Message: fmt.Sprintf(
				"ConfigMap %q is invalid: %v; put the engine's CA certificate in PEM format into the key ca.crt",
				objects.CA.Name, err,
			),
		}
	}

	return config, nil
}

// checkLogin checks that the Secret has a user name and a password.
func checkLogin(config engine.Config, field, secretName string) error {
	var missing []string
	if config.Username == "" {
		missing = append(missing, "username")
	}

	if config.Password == "" {
		missing = append(missing, "password")
	}

	if len(missing) == 0 {
		if err := engine.CheckLogin(config.Username, config.Password); err != nil {
			return blocker.New(infrav1.CredentialsNotFoundReason, field, "Secret %q: %v", secretName, err)
		}

		return nil
	}

	return blocker.New(infrav1.CredentialsNotFoundReason, field,
		"Secret %q has no key %s; add it", secretName, strings.Join(missing, " and no key "))
}

// checkCredentials checks that the Secret exists, is allowed for the cluster, and may be sent to the engine.
func checkCredentials(of Engine, secret *corev1.Secret, base *url.URL, allowAnyEngine bool) error {
	const field = "spec.olvmOvirtAPIServer.credentialsSecret"
	named := of.Server.CredentialsSecret
	key := ResolveKey(named, of)

	switch {
	case secret == nil && key.Namespace != of.Key.Namespace, secret != nil && !IsAllowed(secret, of.Key.Namespace):
		return &blocker.Error{
			Reason:  infrav1.CredentialsNotAllowedReason,
			Field:   field,
			Message: describeNotShared("Secret", key, of.Key.Namespace),
		}
	case secret == nil:
		return &blocker.Error{
			Reason:  infrav1.CredentialsNotFoundReason,
			Field:   field,
			Message: fmt.Sprintf("Secret %q does not exist; create it with the keys username and password", named.Name),
		}
	case !isForEngine(secret, base, allowAnyEngine):
		return &blocker.Error{
			Reason: infrav1.EngineNotAllowedReason,
			Field:  field,
			Message: fmt.Sprintf(
				"Secret %q does not allow the URL %s; its owner can add the URL to the key %s",
				secret.Name, base, infrav1.AllowedServerURLsKey),
		}
	}

	return nil
}

// checkCAConfigMap checks that the cluster's ConfigMap exists and is allowed for the cluster.
func checkCAConfigMap(of Engine, ca *corev1.ConfigMap) error {
	const field = "spec.olvmOvirtAPIServer.caConfigMap"
	named := of.Server.CAConfigMap
	key := ResolveKey(*named, of)

	switch {
	case ca == nil && key.Namespace != of.Key.Namespace, ca != nil && !IsAllowed(ca, of.Key.Namespace):
		return &blocker.Error{
			Reason:  infrav1.CAConfigMapInvalidReason,
			Field:   field,
			Message: describeNotShared("ConfigMap", key, of.Key.Namespace),
		}
	case ca == nil:
		return &blocker.Error{
			Reason: infrav1.CAConfigMapInvalidReason,
			Field:  field,
			Message: fmt.Sprintf(
				"ConfigMap %q does not exist; create it with the engine's CA certificate under the key ca.crt",
				named.Name,
			),
		}
	}

	return nil
}

// joinCertificates returns the CA of a ConfigMap in PEM.
func joinCertificates(ca *corev1.ConfigMap) []byte {
	var bundle strings.Builder
	for _, key := range slices.Sorted(maps.Keys(ca.Data)) {
		bundle.WriteString(strings.TrimSpace(ca.Data[key]) + "\n")
	}

	return []byte(bundle.String())
}

// describeNotShared returns one message for missing objects and for objects not shared, to hide whether they exist.
func describeNotShared(kind string, key types.NamespacedName, namespace string) string {
	return fmt.Sprintf(
		"%s %s does not exist, or does not allow namespace %q; its owner can add the namespace to the annotation %s",
		kind, key, namespace, infrav1.AllowedNamespacesAnnotation,
	)
}

// checkTrustForForeignSecret checks how the cluster verifies an engine before it sends the Secret of another namespace.
// The CA must be a ConfigMap of the same namespace, a key of the Secret, or the trust store of the image.
func checkTrustForForeignSecret(server infrav1.OvirtAPIServer, owner string) error {
	const path = "spec.olvmOvirtAPIServer"

	switch ca := server.CAConfigMap; {
	case server.InsecureSkipTLSVerify:
		return &blocker.Error{
			Reason:  infrav1.CredentialsNotAllowedReason,
			Field:   path + ".insecureSkipTLSVerify",
			Message: "credentials of another namespace require a verified certificate; remove insecureSkipTLSVerify",
		}
	case ca != nil && ca.Namespace != owner:
		return &blocker.Error{
			Reason: infrav1.CAConfigMapInvalidReason,
			Field:  path + ".caConfigMap",
			Message: fmt.Sprintf("with credentials of namespace %s, the CA must be a ConfigMap of the same "+
				"namespace; use one from there",
				owner),
		}
	}

	return nil
}

// isForEngine reports whether a Secret may be sent to an engine. Without this check, the author of an OLVMCluster could
// choose any URL, and receive the password of any Secret allowed for its namespace. A key without a URL allows no
// engine.
func isForEngine(secret *corev1.Secret, base *url.URL, allowAnyEngine bool) bool {
	if secret.Namespace == "" { // it comes from a command line
		return true
	}

	if !hasEngineKey(secret) {
		return allowAnyEngine
	}

	return listsEngine(AllowedServerURLs(secret), base)
}

// engineKeys are the keys with engine URLs in a credentials Secret.
var engineKeys = []string{infrav1.AllowedServerURLsKey, "ovirt_url"}

// hasEngineKey reports whether a Secret has a key for allowed engines, even an empty one.
func hasEngineKey(secret *corev1.Secret) bool {
	return slices.ContainsFunc(engineKeys, func(key string) bool {
		_, data := secret.Data[key]
		_, text := secret.StringData[key]

		return data || text
	})
}

// AllowedServerURLs returns the engines allowed by the owner of a Secret.
func AllowedServerURLs(secret *corev1.Secret) []string {
	var listed strings.Builder

	for _, key := range engineKeys {
		listed.WriteString(string(secret.Data[key]) + "\n" + secret.StringData[key] + "\n")
	}

	return strings.FieldsFunc(listed.String(), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// IsAllowed reports whether a namespace may use a Secret or ConfigMap. The object's own namespace and the namespaces of
// its annotation may use it.
func IsAllowed(object metav1.Object, namespace string) bool {
	if object.GetNamespace() == namespace || object.GetNamespace() == "" { // from a command line
		return true
	}

	for _, name := range strings.Split(object.GetAnnotations()[infrav1.AllowedNamespacesAnnotation], ",") {
		if name = strings.TrimSpace(name); name == "*" || name == namespace {
			return true
		}
	}

	return false
}

// ResolveKey returns the full name of an object referenced by an OLVMCluster. The default namespace is the cluster's.
func ResolveKey(name infrav1.NamespacedName, of Engine) types.NamespacedName {
	key := types.NamespacedName{Namespace: name.Namespace, Name: name.Name}
	if key.Namespace == "" {
		key.Namespace = of.Key.Namespace
	}

	return key
}

// GetLogin returns the cleaned user name and password of a Secret, or "" for a missing one.
func GetLogin(secret *corev1.Secret) (username, password string) {
	first := func(keys ...string) string {
		for _, key := range keys {
			if text := secretText(secret, key); strings.TrimRight(text, "\r\n") != "" {
				return text
			}
		}

		return ""
	}

	return engine.CleanLogin(first("username", "ovirt_username"), first("password", "ovirt_password"))
}

// RenderEngine returns the connection to the engine for a configuration.
func RenderEngine(client *engine.Client, config engine.Config) render.Engine {
	return render.Engine{
		URL:      client.APIURL(),
		CA:       string(config.CA),
		Insecure: config.Insecure,
		Username: config.Username,
		Password: config.Password,
	}
}
