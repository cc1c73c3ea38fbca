package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/image"
)

// managesItself reports whether a kubeconfig that was written before is that of a cluster that has its own objects;
// unsure is why that cannot be known. A kubeconfig of another cluster is an error, for it would be written over.
func (o *start) managesItself(ctx context.Context, cluster readCluster) (own bool, unsure, err error) {
	if !fileExists(o.kubeconfigOut) {
		return false, nil, nil
	}

	server, err := serverOf(o.kubeconfigOut)
	if err != nil {
		return false, nil, fmt.Errorf("%w; move it away, or name another file with --kubeconfig-out", err)
	}

	wanted := wantedServer(cluster.objects)
	in := management{kubeconfig: o.kubeconfigOut, namespace: o.namespace}
	if err := in.connect(); err != nil {
		return false, nil, err
	}

	limited, cancel := context.WithTimeout(ctx, ownLimit)
	defer cancel()
	var found clusterv1.Cluster

	err = in.Get(limited, client.ObjectKey{Namespace: o.namespace, Name: cluster.Name}, &found)
	switch {
	case err == nil && (wanted == "" || wanted == server || wanted == serverAt(&found)):
		return true, nil, nil
	case wanted != "" && wanted != server:
		return false, nil, otherServer(o.kubeconfigOut, server, cluster.Name, wanted)
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return false, nil, nil // it has another management cluster
	}

	return false, fmt.Errorf(
		"whether %s manages itself is not known, for the server of %s does not answer: %w; delete or move that file "+
			"if the cluster is gone",
		cluster.Name,
		o.kubeconfigOut,
		err,
	), nil
}

// wantedServer is the server of the cluster of manifests; empty where they do not say it.
func wantedServer(objects []*unstructured.Unstructured) string {
	for _, object := range objects {
		if object.GetKind() == "OLVMCluster" {
			host, _, _ := unstructured.NestedString(object.Object, "spec", "controlPlaneEndpoint", "host")
			port, _, _ := unstructured.NestedInt64(object.Object, "spec", "controlPlaneEndpoint", "port")
			if host != "" && port != 0 {
				return "https://" + clusterv1.APIEndpoint{
					Host: host,
					Port: int32(port),
				}.String() //nolint:gosec // the schema has it
			}
		}
	}

	return ""
}

// otherServer reports that a kubeconfig is that of another cluster.
func otherServer(path, server, name, wanted string) error {
	return fmt.Errorf(
		"%s is the kubeconfig of another cluster: its server is %s, that of %s is %s; name another file with "+
			"--kubeconfig-out, or move it away",
		path,
		server,
		name,
		wanted,
	)
}

// prepare asks the engine for all that the cluster file names, and makes the template that is missing; then it has a
// management cluster. The engine of a cluster that is there already is not asked: its addresses are taken by itself.
// Where the management cluster does not have it, it may be its own: unsure is why that is not known.
func (o *start) prepare(ctx context.Context, cluster readCluster, unsure error) error {
	in, err := o.isIn(ctx, cluster.Name)
	if err != nil {
		return err
	}

	if in != nil {
		if err := o.logIn(ctx, in, cluster); err != nil {
			return err
		}

		return o.ensureManagement(ctx, &o.steps)
	}

	if unsure != nil {
		return unsure
	}

	if o.image != "" {
		err := o.do("Making the template "+cluster.Providers.OLVM.ControlPlaneMachine.VMTemplateName, func() error {
			return o.makeTemplate(ctx)
		})
		if err != nil {
			return err
		}
	}

	err = o.do("Asking the engine", func() error { return errors.Join(askEngine(ctx, cluster.objects, o.access)...) })
	if err != nil {
		return err
	}

	return o.ensureManagement(ctx, &o.steps)
}

// isIn is the management cluster if it has the cluster; else nil. A local one that has stopped is started.
func (o *start) isIn(ctx context.Context, name string) (*management, error) {
	m := o.management
	isLocal, err := m.isLocal()
	if err != nil {
		return nil, err
	}

	if isLocal && !newLocal().exists() {
		return nil, nil
	}

	if err := m.run(ctx, &o.steps); err != nil {
		return nil, err
	}

	if err := m.connect(); err != nil {
		return nil, err
	}

	err = m.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, &clusterv1.Cluster{})
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("failed to ask the management cluster for Cluster %s: %w", name, err)
	}

	return &m, nil
}

// logIn tries credentials that would take the place of those in the Secret: Cluster API and the storage driver could do
// nothing with wrong ones. It tries once, for engines lock users out after some failures.
func (o *start) logIn(ctx context.Context, in *management, cluster readCluster) error {
	given, err := o.read()
	if err != nil || given.Username == "" {
		return err
	}

	key := o.secretKey(cluster)
	var secret corev1.Secret
	if err := in.Get(ctx, key, &secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to get the credentials of the engine: %w", err)
	}

	if string(secret.Data["username"]) == given.Username && string(secret.Data["password"]) == given.Password {
		return nil
	}

	from := engineFlags{file: o.file, access: o.access}
	defer from.close(ctx)
	_, config, err := from.client()
	if err != nil {
		return err
	}

	if len(config.CA) == 0 && !config.Insecure { // then the management cluster may have it
		if config.CA, err = o.knownCA(ctx, in, cluster); err != nil {
			return err
		}
	}

	session, err := from.sessions.Get(config)
	if err != nil {
		return fmt.Errorf("the connection to the engine: %w", err)
	}

	return o.do("Logging in to the engine with other credentials", func() error {
		_, err := session.DataCenters(ctx)

		var refused *engine.AuthError
		switch {
		case errors.As(err, &refused):
			where := "OLVM_USERNAME and OLVM_PASSWORD"
			if o.credentials != "" {
				where = "--credentials"
			}

			return fmt.Errorf("%s: %w; correct it, or leave it away to go on with the Secret %s", where, refused, key)
		case err != nil:
			return fmt.Errorf("failed to try the credentials: %w", err)
		}

		return nil
	})
}

// knownCA is the CA of the engine that a management cluster has; nil for none.
func (o *start) knownCA(ctx context.Context, in *management, cluster readCluster) ([]byte, error) {
	ref := cluster.Providers.OLVM.OvirtAPIServer.CAConfigMap
	key := client.ObjectKey{Namespace: cmp.Or(ref.Namespace, o.namespace), Name: ref.Name}
	var ca corev1.ConfigMap
	if err := in.Get(ctx, key, &ca); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get the CA of the engine: %w", err)
	}

	var out []byte
	for _, certificate := range ca.Data {
		out = append(out, strings.TrimSpace(certificate)+"\n"...)
	}

	return out, nil
}

// makeTemplate makes the template of the control plane's machines, if there is none of its name.
func (o *start) makeTemplate(ctx context.Context) error {
	osType := desired.IgnitionOS
	if o.file.flavor != clusterfile.DefaultFlavor {
		osType = cloudInitOS
	}

	from := engineFlags{file: o.file, access: o.access}
	err := from.template(ctx, streams{out: io.Discard, err: indented{&o.steps}}, o.image, "", osType)
	var exists *image.ExistsError
	if errors.As(err, &exists) {
		o.say("it is there already")
		return nil
	}

	return err
}

// indented writes lines below a step.
type indented struct{ steps *steps }

func (i indented) Write(text []byte) (int, error) {
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		i.steps.say("%s", line)
	}

	return len(text), nil
}

// checkAlone succeeds when a move of the namespace moves no other cluster.
func (o *start) checkAlone(ctx context.Context, name string) error {
	others, err := o.others(ctx, name, client.InNamespace(o.namespace))
	if err != nil || len(others) == 0 {
		return err
	}

	return fmt.Errorf(
		"a cluster that manages itself takes all Clusters of its namespace along, and beside %s there is %s; give "+
			"it a namespace of its own with providers.olvm.namespace, or let it be managed from here",
		name,
		strings.Join(others, ", "),
	)
}

// pivot installs the providers in the cluster and moves its objects there.
func (o *start) pivot(ctx context.Context, name string) error {
	if err := o.checkAlone(ctx, name); err != nil { // also those that came in the meantime
		return err
	}

	to := management{kubeconfig: o.kubeconfigOut, namespace: o.namespace}
	if err := to.connect(); err != nil {
		return err
	}

	if err := o.move(ctx, &o.steps, &to); err != nil {
		return err
	}

	err := o.do("Waiting for the cluster to manage itself", func() error {
		return o.until(ctx, o.timeout, to.checkReady(name))
	})
	if err != nil {
		return err
	}

	return o.leave(ctx, &o.steps)
}
