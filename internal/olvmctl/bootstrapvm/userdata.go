package bootstrapvm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/ignition"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstream"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

const (
	// networkFile has the CNI configuration of the VM. For one node, a bridge is enough.
	networkFile = "/etc/cni/net.d/05-bootstrap.conflist"
	// staticPods is the kubelet's folder for static pods. The VM omits the static pods in the manifests, because they
	// belong to the new cluster. Most of them serve its endpoint.
	staticPods = "/etc/kubernetes/manifests/"
	// nodeBits4 and nodeBits6 are the prefix lengths of a node's networks. kubeadm's controller manager assigns these
	// networks.
	nodeBits4 = 24
	nodeBits6 = 64
)

// buildUserData creates keys and certificates, the user data from the kubeadm bootstrap provider, and a kubeconfig.
func (v *VM) buildUserData(o Options, found parts) error {
	config := found.controlPlane.Spec.KubeadmConfigSpec
	cluster := clusterConfiguration(config.ClusterConfiguration)
	cluster.ControlPlaneEndpoint = net.JoinHostPort(v.Address(), strconv.Itoa(apiServerPort))

	certificates := secret.NewCertificatesForInitialControlPlane(&cluster)
	if err := certificates.Generate(); err != nil {
		return fmt.Errorf("failed to create the certificates of the bootstrap VM: %w", err)
	}

	input, err := v.controlPlaneInput(o, config, cluster)
	if err != nil {
		return err
	}

	input.Certificates = certificates
	if v.Format == bootstrap.Ignition {
		v.Data, _, err = ignition.NewInitControlPlane(&ignition.ControlPlaneInput{
			ControlPlaneInput: input,
			Ignition:          &config.Ignition,
		})
	} else {
		v.Data, err = cloudinit.NewInitControlPlane(input)
	}

	if err != nil {
		return manifestError("the user data: %w", err)
	}

	return v.buildKubeconfig(cluster.ControlPlaneEndpoint, certificates)
}

// clusterConfiguration returns the settings that also apply to the VM: the sources of images, the DNS add-on and the
// encryption algorithm. The API server's options and an external etcd are only for the new cluster.
func clusterConfiguration(of bootstrapv1.ClusterConfiguration) bootstrapv1.ClusterConfiguration {
	out := bootstrapv1.ClusterConfiguration{
		ImageRepository:     of.ImageRepository,
		DNS:                 of.DNS,
		EncryptionAlgorithm: of.EncryptionAlgorithm,
	}
	out.Etcd.Local.ImageRepository, out.Etcd.Local.ImageTag = of.Etcd.Local.ImageRepository, of.Etcd.Local.ImageTag

	return out
}

// controlPlaneInput returns the input of the bootstrap provider for user data, without certificates.
func (v *VM) controlPlaneInput(
	o Options, config bootstrapv1.KubeadmConfigSpec, cluster bootstrapv1.ClusterConfiguration,
) (*cloudinit.ControlPlaneInput, error) {
	version, err := semver.ParseTolerant(v.Version)
	if err != nil {
		return nil, manifestError("spec.version of the KubeadmControlPlane: %w", err)
	}

	network := v.Network
	clusterText, err := kubeadmtypes.MarshalClusterConfigurationForVersion(&cluster, version, &upstream.AdditionalData{
		KubernetesVersion: &v.Version,
		ClusterName:       ptr.To(v.Name()),
		DNSDomain:         textOr(network.ServiceDomain),
		ServiceSubnet:     textOr(strings.Join(network.Services.CIDRBlocks, ",")),
		PodSubnet:         textOr(strings.Join(network.Pods.CIDRBlocks, ",")),
	})
	if err != nil {
		return nil, manifestError("the configuration of kubeadm: %w", err)
	}

	// The VM is the only node, so it must also run the pods of the management cluster.
	start := bootstrapv1.InitConfiguration{NodeRegistration: config.InitConfiguration.NodeRegistration}
	start.NodeRegistration.Taints = &[]corev1.Taint{}
	startText, err := kubeadmtypes.MarshalInitConfigurationForVersion(&start, version)
	if err != nil {
		return nil, manifestError("the configuration of kubeadm: %w", err)
	}

	files, err := filesOf(o, config.Files)
	if err != nil {
		return nil, err
	}

	cni, err := v.cniFile()
	if err != nil {
		return nil, err
	}

	return &cloudinit.ControlPlaneInput{
		BaseUserData: cloudinit.BaseUserData{
			PreKubeadmCommands: config.PreKubeadmCommands,
			AdditionalFiles:    append(files, cni),
			Users:              usersOf(config.Users),
			NTP:                ntpOf(config),
			KubernetesVersion:  version,
		},
		ClusterConfiguration: clusterText,
		InitConfiguration:    startText,
	}, nil
}

func textOr(text string) *string {
	if text == "" {
		return nil
	}

	return &text
}

func ntpOf(config bootstrapv1.KubeadmConfigSpec) *bootstrapv1.NTP {
	if !config.NTP.IsDefined() {
		return nil
	}

	return &config.NTP
}

// usersOf returns users without their passwords, because the passwords are in Secrets.
func usersOf(users []bootstrapv1.User) []bootstrapv1.User {
	out := slices.Clone(users)
	for i := range out {
		out[i].PasswdFrom = bootstrapv1.PasswdSource{}
	}

	return out
}

// filesOf returns the files of control plane machines, with their content. It omits static pods.
func filesOf(o Options, files []bootstrapv1.File) ([]bootstrapv1.File, error) {
	var out []bootstrapv1.File

	for i, file := range files {
		if strings.HasPrefix(file.Path, staticPods) {
			continue
		}

		if from := file.ContentFrom.Secret; from.Name != "" {
			content, err := valueOf(o, "Secret", from.Name, from.Key)
			if err != nil {
				return nil, manifestError("spec.kubeadmConfigSpec.files[%d] of the KubeadmControlPlane: %w", i, err)
			}

			file.Content, file.ContentFrom = string(content), bootstrapv1.FileSource{}
		}

		out = append(out, file)
	}

	return out, nil
}

// valueOf returns a value of a Secret or ConfigMap in the manifests.
func valueOf(o Options, kind, name, key string) ([]byte, error) {
	for _, object := range o.Manifests {
		if object.GetKind() != kind || object.GetName() != name {
			continue
		}

		if text, found, _ := unstructured.NestedString(object.Object, "stringData", key); found {
			return []byte(text), nil
		}

		text, found, _ := unstructured.NestedString(object.Object, "data", key)
		if found && kind == "Secret" {
			return base64.StdEncoding.DecodeString(text)
		}

		if found {
			return []byte(text), nil
		}
	}

	return nil, fmt.Errorf("key %s of %s %s not found in the manifests, and there is no management cluster yet "+
		"that could contain it; add it to the manifests", key, kind, name)
}

// cniFile returns the file with the CNI configuration.
func (v *VM) cniFile() (bootstrapv1.File, error) {
	var ranges [][]map[string]string
	var routes []map[string]string

	for _, block := range v.Network.Pods.CIDRBlocks {
		pods, err := netip.ParsePrefix(block)
		if err != nil {
			return bootstrapv1.File{}, manifestError("spec.clusterNetwork.pods of Cluster %s: %w", v.Cluster, err)
		}

		bits, everywhere := nodeBits6, "::/0"
		if pods.Addr().Is4() {
			bits, everywhere = nodeBits4, "0.0.0.0/0"
		}

		own := netip.PrefixFrom(pods.Addr(), max(bits, pods.Bits())).Masked()
		ranges = append(ranges, []map[string]string{{"subnet": own.String()}})
		routes = append(routes, map[string]string{"dst": everywhere})
	}

	if len(ranges) == 0 {
		return bootstrapv1.File{}, manifestError(
			"spec.clusterNetwork.pods of Cluster %s is empty, but the VM's pods need addresses; add a CIDR block",
			v.Cluster,
		)
	}

	content, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       "bootstrap",
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": map[string]any{"type": "host-local", "ranges": ranges, "routes": routes},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}, "", "  ")

	return bootstrapv1.File{
		Path:        networkFile,
		Owner:       "root:root",
		Permissions: "0644",
		Content:     string(content) + "\n",
	}, err
}

// buildKubeconfig creates the kubeconfig for the administrator of the VM's cluster.
func (v *VM) buildKubeconfig(endpoint string, certificates secret.Certificates) error {
	pair := certificates.GetByPurpose(secret.ClusterCA).KeyPair
	ca, err := certs.DecodeCertPEM(pair.Cert)
	if err != nil {
		return fmt.Errorf("the certificate of the bootstrap VM: %w", err)
	}

	key, err := certs.DecodePrivateKeyPEM(pair.Key)
	if err != nil {
		return fmt.Errorf("the key of the bootstrap VM: %w", err)
	}

	config, err := kubeconfig.New(v.Name(), "https://"+endpoint, ca, key)
	if err == nil {
		v.Kubeconfig, err = clientcmd.Write(*config)
	}

	if err != nil {
		return fmt.Errorf("the kubeconfig of the bootstrap VM: %w", err)
	}

	return nil
}
