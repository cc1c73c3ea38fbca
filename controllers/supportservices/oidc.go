package supportservices

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/servingcert"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// connectorsKey is the key of Dex's connectors in their Secret.
const connectorsKey = "connectors.yaml"

// ensureOIDCFiles returns the configuration of an OIDC provider's VM.
func (r *Reconciler) ensureOIDCFiles(
	ctx context.Context, s *scope, service *serviceFacts, vm *vmOfService,
) ([]bootstrap.File, error) {
	connectors, err := r.readRequiredSecret(ctx, s, service, "connectorsSecretName", service.OIDC.ConnectorsSecretName)
	if err != nil {
		return nil, err
	}

	out, err := service.NewOIDC(connectors[connectorsKey])
	if err != nil {
		return nil, err
	}

	if address := getAddress(vm.machine); address.IsValid() && !out.IsServedBy(address) {
		return nil, service.NewInvalidError("issuer",
			"its host is %s, but the VM has %s; give OLVMMachineTemplate %s only the address of the URL, or use the "+
				"VM's address in the URL",
			out.Host, address, service.VM.MachineTemplateName)
	}

	ca, err := r.readRequiredSecret(ctx, s, service, "caSecretName", service.OIDC.CASecretName)
	if err != nil {
		return nil, err
	}

	authority, err := servingcert.ParseAuthority(ca[corev1.TLSCertKey], ca[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, service.NewInvalidError("caSecretName",
			"Secret %s: %v; it needs the certificate and the key of a CA in tls.crt and tls.key",
			service.OIDC.CASecretName, err)
	}

	out.Authority = authority.PEM
	if err := r.ensureCertificate(ctx, s, &out, authority); err != nil {
		return nil, err
	}

	return out.BuildFiles()
}

// readRequiredSecret reads a Secret referenced by a service. A missing Secret is an error.
func (r *Reconciler) readRequiredSecret(
	ctx context.Context, s *scope, service *serviceFacts, field, name string,
) (map[string][]byte, error) {
	key := client.ObjectKey{Namespace: s.object.Namespace, Name: name}
	data, err := r.readSecret(ctx, key)
	if err == nil && data == nil {
		err = service.NewInvalidError(field,
			"there is no Secret %q in namespace %s; create it, or correct the name", key.Name, key.Namespace)
	}

	return data, err
}

// ensureCertificate sets the certificate of an OIDC provider. It stores the certificate in a Secret, and uses it again
// while it is valid.
func (r *Reconciler) ensureCertificate(
	ctx context.Context, s *scope, out *support.OIDC, authority *servingcert.Authority,
) error {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.object.Namespace, Name: s.object.Spec.ClusterName + "-oidc-serving"}
	err := r.APIReader.Get(ctx, key, secret)
	exists := err == nil

	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("failed to get Secret %s: %w", key, err)
	case exists && !metav1.IsControlledBy(secret, s.object):
		return blocker.New(infrav1.InfraServiceFailureReason, "Secret "+key.Name,
			"the controller needs this name for the certificate of the cluster's issuer, but the Secret belongs to "+
				"something else; remove it")
	}

	out.Certificate, out.Key = secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	if authority.IsValidFor(out.Certificate, out.Key, out.Host) {
		return nil
	}

	made, err := authority.Sign(out.Host)
	if err != nil {
		return err
	}

	if out.Certificate, out.Key, err = servingcert.EncodePEM(made); err != nil {
		return err
	}

	before := secret.DeepCopy()
	secret.Data = map[string][]byte{corev1.TLSCertKey: out.Certificate, corev1.TLSPrivateKeyKey: out.Key}

	if exists {
		err = r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	} else {
		secret.Namespace, secret.Name, secret.Type = key.Namespace, key.Name, corev1.SecretTypeTLS
		secret.Labels = map[string]string{clusterv1.ClusterNameLabel: s.object.Spec.ClusterName}
		secret.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(s.object, infrav1alpha1.GroupVersion.WithKind(support.Kind)),
		}
		err = r.Client.Create(ctx, secret)
	}

	if err != nil {
		return fmt.Errorf("failed to store the certificate in Secret %s: %w", key, err)
	}

	return nil
}
