package localplane

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/atomicfile"
)

// kubeconfigName is the name of the context, the cluster and the user in a plane's kubeconfig.
const kubeconfigName = "capolvm-local"

// envtestStopGrace is the time etcd and kube-apiserver get to end.
const envtestStopGrace = 30 * time.Second

// KeepToLoopback makes an API server of envtest start even on a machine without a default route. Without this, the
// server looks for an address to advertise. Endpoints reject loopback addresses, so the Service kubernetes gets none,
// but nothing uses it.
func KeepToLoopback(server *envtest.APIServer) {
	server.Configure().Set("advertise-address", "127.0.0.1").Set("endpoint-reconciler-type", "none")
}

// startControlPlane starts etcd and kube-apiserver, and creates the users.
func (p *Plane) startControlPlane(ctx context.Context) error {
	if p.options.DataDir != "" { // no other process runs this plane now
		if ended, err := endOrphans(p.options.Dir); err != nil {
			return err
		} else if ended > 0 {
			p.ReportProgress("ended %d processes of an earlier start that was killed", ended)
		}
	}

	if err := p.configureEtcd(); err != nil {
		return err
	}

	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.undo = append(p.undo, stop)

	go p.keepRenewing(renewing)

	if err := p.startEnvtest(ctx); err != nil {
		return err
	}

	admin, err := p.control.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, &rest.Config{})
	if err != nil {
		return fmt.Errorf("failed to create the administrator: %w", err)
	}

	p.Config = admin.Config()
	p.Config.QPS, p.Config.Burst = 200, 400

	scheme, err := Scheme()
	if err != nil {
		return err
	}

	if p.Client, err = client.New(p.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("failed to create a client: %w", err)
	}

	if err := p.waitForDefaultNamespace(ctx); err != nil {
		return err
	}

	if p.Kubeconfig, err = p.createUserKubeconfig("admin", "system:masters"); err != nil {
		return err
	}

	p.ManagerKubeconfig, err = p.createUserKubeconfig(managerUser)

	return err
}

// startEnvtest starts etcd and kube-apiserver with envtest. It does not use envtest's Environment: that reports a
// failure only after five attempts, and waits only five seconds for the default namespace.
func (p *Plane) startEnvtest(ctx context.Context) error {
	etcd, err := newOutput("etcd", p.options.Dir)
	if err != nil {
		return err
	}
	defer etcd.closeParentEnd()

	server, err := newOutput("kube-apiserver", p.options.Dir)
	if err != nil {
		return err
	}
	defer server.closeParentEnd()

	p.control.Etcd.Out, p.control.Etcd.Err = etcd.stdout, etcd.log
	p.control.APIServer.Out, p.control.APIServer.Err = server.stdout, server.log

	started := make(chan struct{})
	go func() {
		err = p.control.Start()
		close(started)
	}()

	p.undo = append(p.undo, func() {
		etcd.process.stopped.Store(true)
		server.process.stopped.Store(true)
		_ = p.control.Stop()
		<-started // an interrupt does not wait for this
		_ = p.control.Stop()
	})

	select {
	case <-started:
	case <-ctx.Done():
		return ctx.Err()
	}

	if err != nil {
		etcd.closeParentEnd()
		server.closeParentEnd()

		return explainStart(err, etcd.process, server.process)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.processes = append(p.processes, etcd.process, server.process)

	return nil
}

// explainStart adds the output of the failed process to an error of envtest. The error names only the process.
func explainStart(err error, etcd, server *Process) error {
	failed := etcd
	if strings.Contains(err.Error(), server.Name) {
		failed = server
	}

	select {
	case <-failed.Done(): // the log has its whole output
	case <-time.After(time.Second):
	}

	return fmt.Errorf("%s did not start; last lines of %s:\n%s\n%w", failed.Name, failed.LogFile, failed.logTail(),
		err)
}

// waitForDefaultNamespace waits until kube-apiserver has created the namespace. This happens shortly after it starts to
// serve.
func (p *Plane) waitForDefaultNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()

	for {
		err := p.Client.Get(ctx, client.ObjectKey{Name: metav1.NamespaceDefault}, &corev1.Namespace{})
		if err == nil {
			return nil
		}

		select {
		case <-ctx.Done():
			return fmt.Errorf("failed to get the default namespace: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// createUserKubeconfig creates a user, and writes the user's kubeconfig.
func (p *Plane) createUserKubeconfig(name string, groups ...string) (string, error) {
	user, err := p.control.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return "", fmt.Errorf("failed to create user %s: %w", name, err)
	}

	// Refer to the certificates by their files, because renewals change these files.
	config := clientcmdapi.NewConfig()
	from := user.Config()
	config.CurrentContext = kubeconfigName
	config.Clusters[kubeconfigName] = &clientcmdapi.Cluster{
		Server:                   "https://" + strings.Trim(strings.TrimPrefix(from.Host, "https://"), "/"),
		CertificateAuthorityData: from.CAData,
	}
	config.AuthInfos[kubeconfigName] = &clientcmdapi.AuthInfo{ClientCertificate: from.CertFile, ClientKey: from.KeyFile}
	config.Contexts[kubeconfigName] = &clientcmdapi.Context{Cluster: kubeconfigName, AuthInfo: kubeconfigName}

	path := filepath.Join(p.options.Dir, name+".kubeconfig")
	content, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("failed to encode the kubeconfig of %s: %w", name, err)
	}

	return path, atomicfile.Write(path, content, 0o600)
}
