package clusterfile

// These are the networks of a cluster on OCI.
const (
	vcnNetwork          = "10.0.0.0/16"
	controlPlaneNetwork = "10.0.1.0/24"
	endpointNetwork     = "10.0.0.8/29"
	serviceNetwork      = "10.0.0.32/27"
	workerNetwork       = "10.0.64.0/20"
	anywhere            = "0.0.0.0/0"
)

// These are the numbers of network protocols.
const (
	icmp = "1"
	ipip = "4"
	tcp  = "6"
	udp  = "17"
)

// ociRule permits traffic between machines and a network.
type ociRule struct {
	description, network, protocol string
	// from and to are the first and the last port, or 0 for a protocol without ports.
	from, to int
}

func portRule(description, network, protocol string, number int) ociRule {
	return ociRule{description, network, protocol, number, number}
}

// ociNetwork returns the network created for a cluster. It has subnets for the endpoint, Services, the control plane
// and workers, and the traffic permitted between them.
func ociNetwork(apiServer int32) object {
	subnet := func(role, kind, network string) object {
		return object{"name": role, "role": role, "type": kind, "cidr": network}
	}

	return object{"vcn": object{
		"cidr": vcnNetwork,
		"subnets": []any{
			subnet("control-plane-endpoint", "public", endpointNetwork),
			subnet("service-lb", "public", serviceNetwork),
			subnet("control-plane", "private", controlPlaneNetwork),
			subnet("worker", "private", workerNetwork),
		},
		"networkSecurityGroup": object{"list": []any{
			securityGroup("control-plane-endpoint", endpointRules(int(apiServer)),
				[]ociRule{portRule("API servers", controlPlaneNetwork, tcp, int(apiServer))}),
			securityGroup(
				"control-plane", controlPlaneRules(int(apiServer)), []ociRule{{"All", anywhere, "all", 0, 0}},
			),
			securityGroup("worker", workerRules(), []ociRule{{"All", anywhere, "all", 0, 0}}),
			securityGroup("service-lb", serviceRules(),
				[]ociRule{
					{"Ports of Services on nodes", workerNetwork, tcp, 30000, 32767},
					portRule("kube-proxy's health", workerNetwork, tcp, 10256),
				}),
		}},
	}}
}

func endpointRules(apiServer int) []ociRule {
	return []ociRule{portRule("API servers", anywhere, tcp, apiServer), {"Path discovery", vcnNetwork, icmp, 3, 4}}
}

func controlPlaneRules(apiServer int) []ociRule {
	out := []ociRule{
		portRule("API servers, from the endpoint", endpointNetwork, tcp, apiServer),
		portRule("API servers, from each other", controlPlaneNetwork, tcp, apiServer),
		portRule("API servers, from workers", workerNetwork, tcp, apiServer),
		{"etcd", controlPlaneNetwork, tcp, 2379, 2380},
		portRule("Kubelets, from API servers", controlPlaneNetwork, tcp, 10250),
		portRule("Kubelets, from workers", workerNetwork, tcp, 10250),
	}

	return append(out, nodeRules()...)
}

func workerRules() []ociRule {
	out := []ociRule{
		portRule("Kubelets, from API servers", controlPlaneNetwork, tcp, 10250),
		portRule("Kubelets, from workers", workerNetwork, tcp, 10250),
		{"Ports of Services on nodes, from load balancers", serviceNetwork, tcp, 30000, 32767},
		portRule("kube-proxy's health, from load balancers", serviceNetwork, tcp, 10256),
		{"Ports of Services on nodes, from workers", workerNetwork, tcp, 30000, 32767},
	}

	return append(out, nodeRules()...)
}

func serviceRules() []ociRule {
	return []ociRule{
		{"Path discovery", vcnNetwork, icmp, 3, 4},
		portRule("HTTP", anywhere, tcp, 80),
		portRule("HTTPS", anywhere, tcp, 443),
	}
}

// nodeRules returns the rules of all nodes: for the pod networks of Calico and flannel, and for SSH.
func nodeRules() []ociRule {
	out := []ociRule{{"Path discovery", vcnNetwork, icmp, 3, 4}, portRule("SSH", anywhere, tcp, 22)}

	for _, network := range []string{controlPlaneNetwork, workerNetwork} {
		out = append(
			out,
			portRule("Calico with BGP", network, tcp, 179),
			ociRule{"Calico with IP in IP", network, ipip, 0, 0},
			portRule("Calico with Typha", network, tcp, 5473),
			portRule("Calico with VXLAN", network, udp, 4789),
			portRule("flannel with VXLAN", network, udp, 8472),
		)
	}

	return out
}

// securityGroup returns the network security group for a role.
func securityGroup(role string, ingress, egress []ociRule) object {
	var in, out []any
	for _, rule := range ingress {
		in = append(in, object{"ingressRule": rule.toObject("source")})
	}

	for _, rule := range egress {
		out = append(out, object{"egressRule": rule.toObject("destination")})
	}

	return object{"name": role, "role": role, "ingressRules": in, "egressRules": out}
}

// toObject returns a rule in the format of Cluster API Provider OCI. end is source or destination.
func (r ociRule) toObject(end string) object {
	out := object{
		"description": r.description, end: r.network, end + "Type": "CIDR_BLOCK", "protocol": r.protocol,
		"isStateless": false,
	}

	ports := object{"destinationPortRange": object{"min": r.from, "max": r.to}}

	switch {
	case r.protocol == tcp && r.from > 0:
		out["tcpOptions"] = ports
	case r.protocol == udp:
		out["udpOptions"] = ports
	case r.protocol == icmp: // from and to are the type and the code
		out["icmpOptions"] = object{"type": r.from, "code": r.to}
	}

	return out
}
