package clusterfile

import (
	"bytes"
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/config"
	"github.com/capolvm/cluster-api-provider-olvm/internal/manifest"
)

// csiCA is the file of the engine's CA in the pods of the storage driver.
const csiCA = "/etc/ovirt-ca/ca.crt"

// WantsStorageDriver says whether the oVirt CSI driver is to be installed; asked, that the file says so, and not a
// default.
func (s *Source) WantsStorageDriver() (wanted, asked bool) {
	install := s.Providers.OLVM.CSIDriver.Install
	return ptr.Deref(install, true), install != nil
}

// StorageDriverSecret is where the credentials of the storage driver are in the cluster.
func (s *Source) StorageDriverSecret() client.ObjectKey {
	driver := s.Providers.OLVM.CSIDriver

	return client.ObjectKey{
		Namespace: cmp.Or(driver.Namespace, "ovirt-csi"),
		Name:      cmp.Or(driver.CredsSecretName, "ovirt-csi-creds"),
	}
}

// StorageDriver are the manifests of the oVirt CSI driver, for the cluster itself. With credentials of the engine they
// have their Secret, with the keys that Oracle's CLI gives it, and the driver's configuration.
func (s *Source) StorageDriver(username, password string) ([]*unstructured.Unstructured, error) {
	driver, server := s.Providers.OLVM.CSIDriver, s.Providers.OLVM.OvirtAPIServer
	key := s.StorageDriverSecret()
	namespace, secret := key.Namespace, key.Name
	ca := cmp.Or(driver.CAConfigMapName, "ovirt-csi-ca.crt")
	variables := map[string]string{
		"CSI_NAMESPACE":  namespace,
		"CSI_SECRET":     secret,
		"CSI_CA":         ca,
		"CSI_REGISTRY":   s.Registry,
		"CSI_DRIVER":     cmp.Or(driver.CSIDriverName, "csi.ovirt.org"),
		"CSI_CONTROLLER": cmp.Or(driver.ControllerPluginName, "ovirt-csi-controller-plugin"),
		"CSI_NODE":       cmp.Or(driver.NodePluginName, "ovirt-csi-node-plugin"),
	}
	content, err := config.Files.ReadFile("addons/ovirt-csi-driver.yaml")
	if err != nil {
		return nil, fmt.Errorf("failed to read the manifests of the storage driver: %w", err)
	}

	content, err = yamlprocessor.NewSimpleProcessor().
		Process(content, func(name string) (string, error) { return variables[name], nil })
	if err != nil {
		return nil, fmt.Errorf("failed to fill in the manifests of the storage driver: %w", err)
	}

	objects, err := manifest.Read(content)
	if err != nil {
		return nil, fmt.Errorf("failed to read the manifests of the storage driver: %w", err)
	}

	certificates, err := s.CA()
	if err != nil {
		return nil, err
	}

	settings := map[string]any{
		"ovirt_url":      server.ServerURL + "/api",
		"ovirt_username": username,
		"ovirt_password": password,
		"ovirt_insecure": server.InsecureSkipTLSVerify,
	}
	if len(certificates) > 0 {
		settings["ovirt_cafile"] = csiCA
	}

	configuration, err := kyaml.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the configuration of the storage driver: %w", err)
	}

	var more []runtime.Object
	if username != "" {
		more = append(more, &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret},
			Data: map[string][]byte{
				"ovirt_url":         []byte(server.ServerURL + "/api"),
				"ovirt_username":    []byte(username),
				"ovirt_password":    []byte(password),
				"ovirt-config.yaml": configuration,
			},
		})
	}

	if len(certificates) > 0 {
		more = append(more, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ca},
			Data:       map[string]string{"ca.crt": string(bytes.Join(certificates, nil))},
		})
	}

	for _, object := range more {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("failed to encode an object: %w", err)
		}

		unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
		objects = append(objects, &unstructured.Unstructured{Object: fields})
	}

	return objects, nil
}
