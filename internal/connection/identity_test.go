package connection_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const server = "https://engine.example.com/ovirt-engine"

func identity(allowed *infrav1alpha1.AllowedNamespaces) *infrav1alpha1.OLVMClusterIdentity {
	return &infrav1alpha1.OLVMClusterIdentity{
		ObjectMeta: metav1.ObjectMeta{Name: "production"},
		Spec: infrav1alpha1.OLVMClusterIdentitySpec{
			CredentialsSecret: infrav1alpha1.ObjectOfNamespace{Namespace: "vault", Name: "engine"},
			AllowedServerURLs: []string{server},
			AllowedNamespaces: allowed,
		},
	}
}

func TestWhoMayUseAnIdentity(t *testing.T) {
	labels := metav1.ObjectMeta{Name: "team-a", Labels: map[string]string{"engine": "production"}}
	labelled := &corev1.Namespace{ObjectMeta: labels}
	byLabel := &infrav1.LabelSelector{MatchLabels: labelled.Labels}
	none := &infrav1.LabelSelector{MatchExpressions: []infrav1.LabelRule{{Key: "a", Operator: "Near"}}}

	for name, test := range map[string]struct {
		allowed *infrav1alpha1.AllowedNamespaces
		object  *corev1.Namespace
		want    bool
	}{
		"nobody is named":            {nil, labelled, false},
		"an object without anything": {&infrav1alpha1.AllowedNamespaces{}, labelled, false},
		"an emptied list":            {&infrav1alpha1.AllowedNamespaces{List: []string{}}, labelled, false},
		"emptied labels": {&infrav1alpha1.AllowedNamespaces{
			Selector: &infrav1.LabelSelector{MatchLabels: map[string]string{}},
		}, labelled, false},
		"emptied expressions": {&infrav1alpha1.AllowedNamespaces{
			Selector: &infrav1.LabelSelector{MatchExpressions: []infrav1.LabelRule{}},
		}, labelled, false},
		"by name":         {&infrav1alpha1.AllowedNamespaces{List: []string{"b", "team-a"}}, nil, true},
		"another by name": {&infrav1alpha1.AllowedNamespaces{List: []string{"team-b"}}, labelled, false},
		"by label":        {&infrav1alpha1.AllowedNamespaces{Selector: byLabel}, labelled, true},
		"by a label that it lacks": {
			&infrav1alpha1.AllowedNamespaces{Selector: byLabel}, &corev1.Namespace{}, false,
		},
		"labels that are not known": {&infrav1alpha1.AllowedNamespaces{Selector: byLabel}, nil, false},
		"an empty selector": {
			&infrav1alpha1.AllowedNamespaces{Selector: &infrav1.LabelSelector{}}, labelled, true,
		},
		"a selector that means nothing": {&infrav1alpha1.AllowedNamespaces{Selector: none}, labelled, false},
	} {
		check.Equal(t, name, connection.CanUse(identity(test.allowed), "team-a", test.object), test.want)
	}
}

// TestAnotherUserOfAClusterWithAnIdentity connects as the user of a jump host, with its own credentials.
func TestAnotherUserOfAClusterWithAnIdentity(t *testing.T) {
	scheme := clientgoscheme.Scheme
	check.Error(t, api.AddToScheme(scheme), "")

	secret := func(namespace, name, user string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Data: map[string][]byte{
				"username": []byte(user), "password": []byte("p"), infrav1.AllowedServerURLsKey: []byte(server),
			},
		}
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		identity(&infrav1alpha1.AllowedNamespaces{List: []string{"team-a"}}),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}},
		secret("vault", "engine", "admin@internal"), secret("team-a", "jump", "jump@internal"),
	).Build()
	cluster := &infrav1.OLVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c"}}
	cluster.Spec.OLVMOvirtAPIServer = infrav1.OvirtAPIServer{
		ServerURL: server, IdentityRef: &infrav1.OLVMClusterIdentityReference{Name: "production"},
	}

	objects, err := connection.ReadObjects(t.Context(), reader, connection.ClusterEngine(cluster))
	check.Error(t, err, "")
	config, err := connection.BuildConfig(connection.ClusterEngine(cluster), objects)
	check.Error(t, err, "")
	check.Equal(t, "the user of the identity", config.Username, "admin@internal")

	objects.IdentityNamespace = "vault"
	_, err = connection.BuildConfig(connection.ClusterEngine(cluster), objects)
	check.Error(t, err, "")

	objects.IdentityNamespace = "capolvm-system"
	_, err = connection.BuildConfig(connection.ClusterEngine(cluster), objects)
	check.Error(t, err, `OLVMClusterIdentity "production" must be in the manager's namespace capolvm-system`)

	config, err = connection.ReadConfigForUser(
		t.Context(), reader, connection.ClusterEngine(cluster), "jump", connection.Policy{},
	)
	check.Error(t, err, "")
	check.Equal(t, "the other user", config.Username, "jump@internal")

	_, err = connection.ReadConfigForUser(
		t.Context(), reader, connection.ClusterEngine(cluster), "missing", connection.Policy{})
	check.Error(t, err, `Secret "missing" does not exist`)

	check.Error(t, reader.Delete(t.Context(), secret("vault", "engine", "")), "")
	objects, err = connection.ReadObjects(t.Context(), reader, connection.ClusterEngine(cluster))
	check.Error(t, err, "")
	_, err = connection.BuildConfig(connection.ClusterEngine(cluster), objects)
	check.Error(t, err, `the Secret of OLVMClusterIdentity "production" does not exist`)

	_, ok := connection.CredentialsKey(connection.ClusterEngine(cluster), nil)
	check.Equal(t, "the Secret of an identity that is not known", ok, false)
	check.Equal(t, "the Secret of its own", client.ObjectKey{Namespace: "vault", Name: "engine"},
		func() client.ObjectKey {
			key, _ := connection.CredentialsKey(connection.ClusterEngine(cluster), objects.Identity)
			return key
		}())
}

// TestAnIdentitySaysWhatKeepsOthersFromUsingIt omits one part of an identity at a time.
func TestAnIdentitySaysWhatKeepsOthersFromUsingIt(t *testing.T) {
	const own = "manager"

	secret := func(data map[string]string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "engine"}, Data: bytesOf(data)}
	}
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "ca"}}
	login := map[string]string{"username": "admin@internal", "password": "secret"}

	for name, test := range map[string]struct {
		change       func(*infrav1alpha1.OLVMClusterIdentitySpec)
		there        []client.Object
		reason, want string
	}{
		"all is there": {nil, []client.Object{secret(login)}, "", ""},
		"its Secret is missing": {nil, nil, infrav1.CredentialsNotFoundReason,
			"spec.credentialsSecret: Secret engine does not exist; create it"},
		"a key is missing": {nil, []client.Object{secret(map[string]string{"username": "admin@internal"})},
			infrav1.CredentialsNotFoundReason, "spec.credentialsSecret: "},
		"its Secret is in another namespace": {func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
			spec.CredentialsSecret.Namespace = "tenant"
		}, []client.Object{secret(login)}, infrav1.CredentialsNotAllowedReason,
			"must be in the manager's namespace manager"},
		"its CA is in another namespace": {func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
			spec.CAConfigMap = &infrav1alpha1.ObjectOfNamespace{Namespace: "tenant", Name: "ca"}
		}, []client.Object{secret(login)}, infrav1.CredentialsNotAllowedReason,
			"must be in the manager's namespace manager"},
		"its CA is missing": {func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
			spec.CAConfigMap = &infrav1alpha1.ObjectOfNamespace{Namespace: own, Name: "ca"}
		}, []client.Object{secret(login)}, infrav1.CAConfigMapInvalidReason, "spec.caConfigMap: ConfigMap ca does not exist"},
		"its CA is empty": {func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
			spec.CAConfigMap = &infrav1alpha1.ObjectOfNamespace{Namespace: own, Name: "ca"}
		}, []client.Object{secret(login), ca}, infrav1.CAConfigMapInvalidReason, "spec.caConfigMap: "},
		"it is for no namespace": {func(spec *infrav1alpha1.OLVMClusterIdentitySpec) { spec.AllowedNamespaces = nil },
			[]client.Object{secret(login)}, infrav1.NoNamespaceAllowedReason,
			"spec.allowedNamespaces: it allows no namespace"},
		"its list is empty": {func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
			spec.AllowedNamespaces = &infrav1alpha1.AllowedNamespaces{}
		}, []client.Object{secret(login)}, infrav1.NoNamespaceAllowedReason, "it allows no namespace"},
		"its selector is none": {func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
			spec.AllowedNamespaces.Selector = &infrav1.LabelSelector{
				MatchExpressions: []infrav1.LabelRule{{Key: "a", Operator: "Near"}},
			}
		}, []client.Object{secret(login)}, infrav1.NoNamespaceAllowedReason, "spec.allowedNamespaces.selector: "},
		"an engine is none": {func(spec *infrav1alpha1.OLVMClusterIdentitySpec) {
			spec.AllowedServerURLs = append(spec.AllowedServerURLs, "ftp://engine")
		}, []client.Object{secret(login)}, infrav1.EngineNotAllowedReason, "spec.allowedServerURLs[1]: "},
	} {
		t.Run(name, func(t *testing.T) {
			of := identity(&infrav1alpha1.AllowedNamespaces{List: []string{"team"}})
			of.Spec.CredentialsSecret.Namespace = own

			if test.change != nil {
				test.change(&of.Spec)
			}

			reader := fake.NewClientBuilder().WithObjects(test.there...).Build()
			err := connection.CheckIdentityObjects(t.Context(), reader, of, connection.Policy{IdentityNamespace: own})
			check.Error(t, err, test.want)

			var problem *blocker.Error
			if errors.As(err, &problem) {
				check.Equal(t, "the reason", problem.Reason, test.reason)
			} else {
				check.Equal(t, "the reason", "", test.reason)
			}
		})
	}
}

func bytesOf(data map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range data {
		out[key] = []byte(value)
	}

	return out
}
