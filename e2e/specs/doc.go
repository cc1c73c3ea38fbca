// Package specs runs the specs in Cluster API's own test suite (sigs.k8s.io/cluster-api/test/e2e) without changes
// against this provider. It uses real etcd, kube-apiserver and managers of Cluster API, our manager, real Terraform or
// OpenTofu, and the engine simulator. Each spec has its own range of addresses, so that the specs can run in parallel.
//
// The cluster templates are those of config/templates, as clusterctl generates them. This package adds only what specs
// require but users usually do not.
//
// It does not run these specs of Cluster API:
//   - Self-hosted, clusterctl upgrade: they run the managers as Pods, and there is no kubelet here.
//   - Node drain, autoscaler, Kubernetes conformance, joining of old nodes: they run Pods in the workload cluster.
//   - KCP remediation: a script in the user data of its control plane machines waits for a ConfigMap before kubeadm;
//     the simulator's guests run no scripts.
//   - KCP adoption: it counts the Secrets with the label of the cluster's name, and expects only Cluster API's own.
//     Terraform states have this label too.
//   - Machine pools: the provider has none.
//   - Runtime SDK and in-place updates: they call an extension at its Service, and Services lead nowhere here.
//
// This package is a separate module, because Cluster API's test framework has many dependencies, such as a Docker
// client. They must not be in the product's go.mod.
package specs
