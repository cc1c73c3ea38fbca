// Package specs runs the specs of Cluster API's own test suite (sigs.k8s.io/cluster-api/test/e2e), unchanged, against
// this provider: real etcd, kube-apiserver and Cluster API managers, our manager, real Terraform or OpenTofu, and the
// engine simulator. Each spec has a range of addresses of its own, so that they can run at once.
//
// The cluster templates are those of config/templates, as clusterctl generates them; what a spec asks for that no user
// would is added to them here.
//
// These specs of Cluster API are not run:
//   - Self-hosted, clusterctl upgrade: they run the managers as Pods, and there is no kubelet here.
//   - Node drain, autoscaler, Kubernetes conformance, joining of old nodes: they run Pods in the workload cluster.
//   - KCP remediation: its control plane machines wait for a ConfigMap before they run kubeadm, by a script in their
//     user data; the guests of the simulator run none.
//   - KCP adoption: it counts the Secrets that have the label of the cluster's name, and knows of Cluster API's own
//     only. Terraform states have that label too.
//   - Machine pools: the provider has none.
//   - Runtime SDK and in-place updates: they call an extension at its Service, and Services lead nowhere here.
//
// This is a module of its own because the test framework of Cluster API needs much that must not be in the go.mod of
// the product, a client of Docker among it.
package specs
