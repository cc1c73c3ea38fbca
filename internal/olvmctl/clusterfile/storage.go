package clusterfile

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/config"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// defaultCSIDriver is the default name of the driver in the cluster.
const defaultCSIDriver = "csi.ovirt.org"

// csiCA is the path of the engine's CA in the pods of the storage driver.
const csiCA = "/etc/ovirt-ca/ca.crt"

// WantsStorageDriver reports whether to install the oVirt CSI driver. asked is true if the file itself requests it, and
// false if it is a default.
func (s *Source) WantsStorageDriver() (wanted, asked bool) {
	install := s.Providers.OLVM.CSIDriver.Install
	return ptr.Deref(install, true), install != nil
}

// StorageDriverSecret returns the key of the storage driver's Secret in the workload cluster.
func (s *Source) StorageDriverSecret() client.ObjectKey {
	driver := s.Providers.OLVM.CSIDriver

	return client.ObjectKey{
		Namespace: cmp.Or(driver.Namespace, "ovirt-csi"),
		Name:      cmp.Or(driver.CredsSecretName, "ovirt-csi-creds"),
	}
}

// StorageDriver returns the manifests of the oVirt CSI driver for the workload cluster. If there are credentials of the
// engine, the manifests include a Secret. It has the keys used by Oracle's CLI, and the configuration of the driver.
func (s *Source) StorageDriver(username, password string) ([]*unstructured.Unstructured, error) {
	objects, err := s.driverManifests()
	if err != nil {
		return nil, err
	}

	certificates, err := s.CA()
	if err != nil {
		return nil, err
	}

	more := s.storageClassObjects()

	if username != "" {
		secret, err := s.driverSecret(username, password, len(certificates) > 0)
		if err != nil {
			return nil, err
		}

		more = append(more, secret)
	}

	if len(certificates) > 0 {
		more = append(more, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.StorageDriverSecret().Namespace, Name: s.driverCA()},
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

// driverCA returns the name of the ConfigMap with the engine's CA.
func (s *Source) driverCA() string {
	return cmp.Or(s.Providers.OLVM.CSIDriver.CAConfigMapName, "ovirt-csi-ca.crt")
}

// driverManifests returns the manifests of the driver itself, with its names filled in.
func (s *Source) driverManifests() ([]*unstructured.Unstructured, error) {
	driver, key := s.Providers.OLVM.CSIDriver, s.StorageDriverSecret()
	variables := map[string]string{
		"CSI_NAMESPACE":  key.Namespace,
		"CSI_SECRET":     key.Name,
		"CSI_CA":         s.driverCA(),
		"CSI_REGISTRY":   s.Registry,
		"CSI_DRIVER":     cmp.Or(driver.CSIDriverName, defaultCSIDriver),
		"CSI_CONTROLLER": cmp.Or(driver.ControllerPluginName, "ovirt-csi-controller-plugin"),
		"CSI_NODE":       cmp.Or(driver.NodePluginName, "ovirt-csi-node-plugin"),
	}

	return addOnManifests("ovirt-csi-driver", variables)
}

// addOnManifests returns the manifests of one of our add-ons, with its variables filled in. It fills in texts of the
// objects, not of the file: no value can add a field.
func addOnManifests(name string, variables map[string]string) ([]*unstructured.Unstructured, error) {
	content, err := config.Files.ReadFile("addons/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("failed to read the manifests of %s: %w", name, err)
	}

	objects, err := manifest.Read(content)
	if err != nil {
		return nil, fmt.Errorf("failed to read the manifests of %s: %w", name, err)
	}

	var pairs []string
	for variable, value := range variables {
		pairs = append(pairs, "${"+variable+"}", value)
	}

	replacer := strings.NewReplacer(pairs...)

	for _, object := range objects {
		object.Object, _ = replaceTexts(object.Object, replacer).(map[string]any)
	}

	return objects, nil
}

// replaceTexts returns a value with replacements in all of its texts except keys.
func replaceTexts(value any, replacer *strings.Replacer) any {
	switch value := value.(type) {
	case string:
		return replacer.Replace(value)
	case map[string]any:
		for key, field := range value {
			value[key] = replaceTexts(field, replacer)
		}
	case []any:
		for i, item := range value {
			value[i] = replaceTexts(item, replacer)
		}
	}

	return value
}

// driverSecret returns the Secret with the driver's credentials and configuration. With withCA, the driver verifies the
// engine with the CA of the cluster file.
func (s *Source) driverSecret(username, password string, withCA bool) (*corev1.Secret, error) {
	server, key := s.Providers.OLVM.OvirtAPIServer, s.StorageDriverSecret()
	settings := map[string]any{
		"ovirt_url":      s.EngineURL() + "/api",
		"ovirt_username": username,
		"ovirt_password": password,
		"ovirt_insecure": server.InsecureSkipTLSVerify,
	}
	if withCA {
		settings["ovirt_cafile"] = csiCA
	}

	configuration, err := kyaml.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the configuration of the storage driver: %w", err)
	}

	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Data: map[string][]byte{
			"ovirt_url":         []byte(s.EngineURL() + "/api"),
			"ovirt_username":    []byte(username),
			"ovirt_password":    []byte(password),
			"ovirt-config.yaml": configuration,
		},
	}, nil
}
