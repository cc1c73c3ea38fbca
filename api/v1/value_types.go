package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The types here are texts with the rules that hold wherever one of them is a field.

// Size is an amount of memory or storage: a number with a unit, such as 16GB, 16G, 16GiB or 16Gi, which are all
// 16 * 2^30 bytes. It is a whole number of MB.
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule=`size(self) == 0 || (self.matches('^ *[0-9]+([.][0-9]+)? *([kKmMgGtT][iI]?)?[bB]? *$') && [double(self.find('[0-9.]+')) * {"": 0.00000095367431640625, 'K': 0.0009765625, 'M': 1.0, 'G': 1024.0, 'T': 1048576.0}[self.find('[kKmMgGtT]').upperAscii()]].all(mb, mb >= 256.0 && mb <= 12582912.0 && mb == double(int(mb))))`,message="write a number with a unit, such as 16GB or 16Gi: a whole number of MB from 256MB to 12TB, with units that are powers of 1024"
type Size = string

// IPAddress is an address of one interface or service, of either family. Loopback is right: machines of the simulator
// have such addresses.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=45
// +kubebuilder:validation:XValidation:rule=`isIP(self) && !ip(self).isUnspecified() && !cidr('224.0.0.0/3').containsIP(self) && !cidr('ff00::/8').containsIP(self)`,message="write the IP address of one machine, such as 10.20.30.5 or fd00::5, without port, prefix length or zone"
type IPAddress = string

// IPv4Range is a single address, an inclusive range a-b, or a CIDR block.
// +kubebuilder:validation:MaxLength=39
// +kubebuilder:validation:XValidation:rule=`isCIDR(self.trim()) ? cidr(self.trim()).ip().family() == 4 : isIP(self.find('^[^-]*').trim()) && ip(self.find('^[^-]*').trim()).family() == 4 && isIP(self.find('[^-]*$').trim()) && ip(self.find('[^-]*$').trim()).family() == 4 && !self.matches('-.*-')`,message="write an IPv4 address, a range such as 10.20.30.10-10.20.30.20, or a CIDR block"
// +kubebuilder:validation:XValidation:rule=`!self.matches('^ *([0-9]{1,3}[.]){3}[0-9]{1,3} *- *([0-9]{1,3}[.]){3}[0-9]{1,3} *$') || int(self.find('[0-9]+')) * 16777216 + int(self.find('[0-9]+[.][0-9]+').find('[0-9]+$')) * 65536 + int(self.find('[0-9]+[.][0-9]+ *-').find('[0-9]+')) * 256 + int(self.find('[0-9]+ *-').find('[0-9]+')) <= int(self.find('- *[0-9]+').find('[0-9]+')) * 16777216 + int(self.find('- *[0-9]+[.][0-9]+').find('[0-9]+$')) * 65536 + int(self.find('[0-9]+[.][0-9]+ *$').find('[0-9]+')) * 256 + int(self.find('[0-9]+ *$').find('[0-9]+'))`,message="the range ends before it begins; swap its ends"
type IPv4Range = string

// IPv6Range is a single address, an inclusive range a-b, or a CIDR block. A rule that compares all addresses costs more
// than an API server allows. This one compares the last group of ends that differ in nothing else; the manager compares
// others.
// +kubebuilder:validation:MaxLength=81
// +kubebuilder:validation:XValidation:rule=`isCIDR(self.trim()) ? cidr(self.trim()).ip().family() == 6 : isIP(self.find('^[^-]*').trim()) && ip(self.find('^[^-]*').trim()).family() == 6 && isIP(self.find('[^-]*$').trim()) && ip(self.find('[^-]*$').trim()).family() == 6 && !self.matches('-.*-')`,message="write an IPv6 address, a range such as fd00::10-fd00::20, or a CIDR block"
// +kubebuilder:validation:XValidation:rule=`!self.contains('-') || !self.contains(':') || !isIP(self.find('^[^-]*').trim()) || !isIP(self.find('[^-]*$').trim()) || !cidr(self.find('^[^-]*').trim() + '/112').containsIP(self.find('[^-]*$').trim()) || ('000' + self.find('[^:]*-').find('[^ -]*').lowerAscii()).find('.{4}$') <= ('000' + self.find('[^:]*$').find('[^ ]*').lowerAscii()).find('.{4}$')`,message="the range ends before it begins; swap its ends"
type IPv6Range = string

// DomainName is a domain in which a guest looks for names.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="write a domain of lower case letters, digits, dashes and dots, such as lab.example.com"
// +kubebuilder:validation:XValidation:rule=`!self.matches('[^.]{64}')`,message="a domain has parts of 1 to 63 characters between its dots; correct it"
type DomainName = string

// MACAddress is that of one network interface.
// +kubebuilder:validation:MaxLength=17
// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$')`,message="write a MAC address such as 56:6f:00:00:00:01"
// +kubebuilder:validation:XValidation:rule=`!self.matches('^[0-9A-Fa-f][13579BDFbdf]:') && self != '00:00:00:00:00:00'`,message="write the MAC address of one network interface: the second digit of a group's address is odd, and 00:00:00:00:00:00 is none"
type MACAddress = string

// MACAddressRange is a MAC address, or an inclusive range a-b of them.
// +kubebuilder:validation:MaxLength=35
// +kubebuilder:validation:XValidation:rule=`self.matches('^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(-([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2})?$')`,message="write a MAC address such as 56:6f:00:00:00:01, or a range such as 56:6f:00:00:00:01-56:6f:00:00:00:ff"
// +kubebuilder:validation:XValidation:rule=`!self.matches('(^|-)[0-9A-Fa-f][13579BDFbdf]:') && !self.matches('(^|-)00:00:00:00:00:00')`,message="write MAC addresses of network interfaces: the second digit of a group's address is odd, and 00:00:00:00:00:00 is none"
// +kubebuilder:validation:XValidation:rule=`!self.contains('-') || self.find('^[^-]*').lowerAscii() <= self.find('[^-]*$').lowerAscii()`,message="the range ends before it begins; swap its ends"
type MACAddressRange = string

// EngineURL is the base URL of an engine.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:XValidation:rule=`!self.contains('://') || self.matches('^ *(?i:https)://')`,message="the URL of an engine begins with https://; write for example https://engine.example.com/ovirt-engine"
// +kubebuilder:validation:XValidation:rule=`!self.matches('[@?#]')`,message="write the base URL of the engine without a user, a query and a fragment; users belong in the credentials"
// +kubebuilder:validation:XValidation:rule=`self.matches('[@?#]') || (self.contains('://') ? !self.matches('^ *(?i:https)://') || self.matches('^ *(?i:https)://([^]/?#@:<>"^{|} []+|[[][0-9a-fA-F:.]+[]])(:(0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)?(/[^<>"^{|} ]*)? *$') && !self.matches('://(?i:https?)(:|/|$)') : self.matches('^ */*([^]/?#@:<>"^{|} []+|[[][0-9a-fA-F:.]+[]])(:(0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)?(/[^<>"^{|} ]*)? *$') && !self.matches('^ */*(?i:https?)(:|/|$)'))`,message="write the URL of an engine, with a host and with a port from 1 to 65535 or none, for example https://engine.example.com/ovirt-engine"
// +kubebuilder:validation:XValidation:rule=`!self.matches('/(apidoc|docs|services|sso|userportal|vm-console|web-ui|webadmin)(/|$)') && !self.matches('/api/+([^v/]|v[^4]|v4[^/]|v4/+[^/])')`,message="this is a page of the engine; write its base URL, such as https://engine.example.com/ovirt-engine"
type EngineURL = string

// PortRange is a TCP port, or an inclusive range a-b of them.
// +kubebuilder:validation:MaxLength=11
// +kubebuilder:validation:XValidation:rule=`self.matches('^[0-9]{1,5}(-[0-9]{1,5})?$') && self.split('-').all(p, int(p) >= 1 && int(p) <= 65535)`,message="write a port from 1 to 65535, or a range of them such as 30002-30011"
// +kubebuilder:validation:XValidation:rule=`!self.matches('^[0-9]{1,5}-[0-9]{1,5}$') || int(self.split('-')[0]) <= int(self.split('-')[1])`,message="the range ends before it begins; swap its ends"
type PortRange = string

// ProxyURL is the URL of an HTTP proxy.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:XValidation:rule=`self.matches('^(?i:https?)://([^/?#@\\s]*@)?([^]/?#@:\\[\\s]+|[[][0-9a-fA-F:.]+[]])(:(0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)?(/[^\\s]*)?$')`,message="write the URL of a proxy, such as http://proxy.example.com:3128, with a port from 1 to 65535 or none"
type ProxyURL = string

// ObjectName is the name of a Kubernetes object.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')`,message="write the name of an object: lower case letters, digits, dashes and dots, with a letter or digit at both ends"
type ObjectName = string

// UserName is a user of a guest.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z_][a-z0-9_-]*$')`,message="write a user's name: lower case letters, digits, underscores and dashes, beginning with a letter or underscore"
type UserName = string

// AuthorizedKey is a public key, as in the file authorized_keys.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=8192
// +kubebuilder:validation:XValidation:rule=`!self.trim().matches('[\\n\\r]') && self.matches('(^|[ ,])(ssh|ecdsa|sk)-[^ ]+ +[A-Za-z0-9+/]')`,message="write one public key on one line, such as ssh-ed25519 AAAA... me@example.com"
type AuthorizedKey = string

// NamespaceName is the name of a namespace.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="write the name of a namespace: lower case letters, digits and dashes, with a letter or digit at both ends"
type NamespaceName = string

// LabelName is a name that becomes part of names of VMs and of objects.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="write lower case letters, digits and dashes, with a letter or digit at both ends"
type LabelName = string

// EngineName is the name of an object of the engine.
// +kubebuilder:validation:MaxLength=255
// +kubebuilder:validation:XValidation:rule=`!self.startsWith(' ') && !self.endsWith(' ') && !self.endsWith('\n')`,message="write a name without spaces and line breaks at its ends"
type EngineName = string

// EngineTag is a tag of the engine.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=50
// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9_-]+$')`,message="write a tag of the engine: letters, digits, dashes and underscores"
type EngineTag = string

// DeviceName is the name of a network interface or a disk in the engine.
// +kubebuilder:validation:MaxLength=50
// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z0-9._-]*$')`,message="write letters, digits, dots, dashes and underscores"
type DeviceName = string

// InterfaceName is the name of a network interface in a guest.
// +kubebuilder:validation:MaxLength=15
// +kubebuilder:validation:XValidation:rule=`self.matches('^[!-.0-9;-~]*$') && !(self in ['.', '..'])`,message="write what the guest calls the network interface, such as enp1s0: without spaces, slashes and colons"
type InterfaceName = string

// ContainerImage is the name of a container image.
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule=`size(self) == 0 || self.matches('^(([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?|[[][0-9a-fA-F:]+[]])(:[0-9]{1,5})?/)?[a-z0-9]+(([.]|_|__|-+|/)[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}))?$')`,message="write a container image such as registry.example.com/project/image:v1.2.3, without scheme and spaces"
type ContainerImage = string

// NoProxyEntry is a name, a domain, an address or a network that is asked without a proxy.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule=`self.contains('/') ? isCIDR(self) : self.matches('^([*]|[*]?[.]?[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?[.]?(:[0-9]{1,5})?|[[]?[0-9a-fA-F]*:[0-9a-fA-F:.]*[]]?(:[0-9]{1,5})?)$') && (!self.matches('^[0-9]+[.][0-9.]+$') || isIP(self))`,message="write one name, domain, IP address or network in each item, such as .example.com, 10.20.30.5 or 10.20.0.0/16: no URL and no list"
type NoProxyEntry = string

// LabelKey is the key of a label.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule=`self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$')`,message="write the key of a label, such as inventory.infrastructure.cluster.x-k8s.io/host: at most 63 letters, digits, dashes, dots and underscores after the slash"
type LabelKey = string

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule=`size(self) == 0 || self.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$')`,message="write the value of a label: letters, digits, dashes, dots and underscores, with a letter or digit at both ends"
type LabelValue = string

// DataKey is a key in the data of a ConfigMap or a Secret.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:XValidation:rule=`self.matches('^[-._A-Za-z0-9]+$') && self != '.' && !self.startsWith('..')`,message="write a key of the object's data: letters, digits, dashes, dots and underscores"
type DataKey = string

// EngineUUID identifies an object of the engine.
// +kubebuilder:validation:MinLength=36
// +kubebuilder:validation:MaxLength=36
// +kubebuilder:validation:XValidation:rule=`self.matches('^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$')`,message="write the engine's UUID of the VM, such as 123e4567-e89b-12d3-a456-426614174000"
type EngineUUID = string

// IssuerURL is the URL of a provider of OpenID Connect.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule=`self.matches('^https://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[[][0-9a-fA-F:.]+[]])(:0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?(/[^?#\\s]*)?$')`,message="write the URL of the issuer, such as https://10.20.30.9:5556/dex: with a port from 1 to 65535 or none, and without user, query and fragment"
// +kubebuilder:validation:XValidation:rule=`!self.matches('^https://[0-9.]+(:|/|$)') || isIP(self.find('[0-9.]+'))`,message="the host looks like an IP address and is none; write one such as https://10.20.30.9:5556/dex, or a DNS name"
type IssuerURL = string

// RedirectURI is where a program gets its token.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:XValidation:rule=`self.matches('^[A-Za-z][A-Za-z0-9+.-]*:[^#\\s]+$')`,message="write a whole URI without a fragment, such as http://localhost:8000 or https://app.example.com/callback"
// +kubebuilder:validation:XValidation:rule=`!self.matches('^https?:') || self.matches('^https?://([^]/?#@:\\[\\s]+|[[][0-9a-fA-F:.]+[]])(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?([/?]|$)')`,message="write a URL with a host, and with a port from 1 to 65535 or none, such as https://app.example.com/callback"
type RedirectURI = string

// LabelSelector chooses objects by their labels, as the selectors of Kubernetes do. All that is set must match.
// +structType=atomic
type LabelSelector struct {
	// matchLabels are labels with the values that objects have. If omitted, matchExpressions alone choose.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule=`self.all(key, size(key) <= 317 && key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$'))`,message="a key cannot be that of a label; write one such as inventory.infrastructure.cluster.x-k8s.io/host"
	// +kubebuilder:validation:XValidation:rule=`self.all(key, size(self[key]) <= 63)`,message="the value of a label has at most 63 characters; shorten it"
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// matchExpressions are rules about labels. If omitted, matchLabels alone choose.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []LabelRule `json:"matchExpressions,omitempty"`
}

// LabelRule is a rule about the label of a key.
// +kubebuilder:validation:XValidation:rule=`(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)`,message="In and NotIn need values, and Exists and DoesNotExist have none; add or remove values",fieldPath=".values"
type LabelRule struct {
	// key of the label.
	// +required
	Key LabelKey `json:"key,omitempty"`

	// operator is In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator,omitempty"`

	// values for In and NotIn. Omit them with Exists and DoesNotExist.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Values []LabelValue `json:"values,omitempty"`
}

// ToKubernetes returns the selector as libraries of Kubernetes have it.
func (s *LabelSelector) ToKubernetes() *metav1.LabelSelector {
	if s == nil {
		return nil
	}

	out := &metav1.LabelSelector{MatchLabels: s.MatchLabels}
	for _, rule := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: rule.Key, Operator: metav1.LabelSelectorOperator(rule.Operator), Values: rule.Values,
		})
	}

	return out
}
