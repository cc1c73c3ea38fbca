package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
)

// This file contains the demo's steps for real nodes. Each VM is a Linux machine that runs pods.

const (
	// netnsVariable and startVariable pass the network namespace and the start time to the inner demo.
	netnsVariable = "CAPOLVM_DEMO_NETNS"
	startVariable = "CAPOLVM_DEMO_START"

	// answersWithin limits the wait until each pod has answered.
	answersWithin = 3 * time.Minute
	// helloURL is the URL of the Service in config/samples/hello.yaml, at its node port on the control plane machine.
	helloURL = "http://10.198.0.10:30080"
)

// buildNodes builds the boot image of the VMs, and kubectl.
func (d *demo) buildNodes(ctx context.Context) (err error) {
	if d.image, err = (&nodeimage.Builder{Tools: d.tools, Say: d.reportProgress}).EnsureImage(ctx); err != nil {
		return err
	}

	return d.tools.Build(ctx, "plane", "kubectl")
}

// rerunInNetNS builds everything, and runs this demo again in a new network namespace. The namespace contains the
// networks of the VMs, so the whole demo can reach them. Afterwards, inNetNS removes the namespace.
func (d *demo) rerunInNetNS(ctx context.Context) (code int, err error) {
	if err := d.buildTools(ctx); err != nil {
		return 0, err
	}

	name := fmt.Sprintf("capolvm-demo-%d", os.Getpid())
	site := machine.Site{NetNS: name}
	site.Made, err = machine.EnsureNetNS(name)

	var clean func() error
	if err == nil {
		clean, err = site.StartCleaner()
	}

	if err != nil {
		return 0, errors.Join(err, site.Remove())
	}

	args := append([]string{"--net=/run/netns/" + name, os.Args[0]}, os.Args[1:]...)
	child := exec.Command("nsenter", args...) //nolint:gosec // this program with the same arguments
	child.Env = append(os.Environ(), netnsVariable+"="+name, startVariable+"="+strconv.FormatInt(d.start.Unix(), 10))
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return 0, errors.Join(fmt.Errorf("failed to enter a network namespace: %w", err), clean())
	}

	// Ctrl-C reaches the child directly, and the child cleans up. This process passes on the other signals.
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGHUP)

	go func() {
		for one := range told {
			_ = child.Process.Signal(one)
		}
	}()

	err = child.Wait()

	var failed *exec.ExitError
	if errors.As(err, &failed) {
		code, err = cmp.Or(max(failed.ExitCode(), 0), 1), nil
	}

	return code, errors.Join(err, clean())
}

// sinceVariable returns the start time of the outer demo, if this demo runs in the network namespace of an outer one.
// Otherwise, it returns now.
func sinceVariable(now time.Time) time.Time {
	seconds, err := strconv.ParseInt(os.Getenv(startVariable), 10, 64)
	if err != nil {
		return now
	}

	return time.Unix(seconds, 0)
}

// runPods runs a Deployment in the cluster, sends requests to its Service, and shows the pods.
func (d *demo) runPods(ctx context.Context) error {
	var secret corev1.Secret
	err := d.plane.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: clusterName + "-kubeconfig"}, &secret)
	if err != nil {
		return fmt.Errorf("failed to get the kubeconfig of the cluster: %w", err)
	}

	d.workload = filepath.Join(d.dir, "workload.kubeconfig")
	if err := os.WriteFile(d.workload, secret.Data["value"], 0o600); err != nil {
		return fmt.Errorf("failed to write the kubeconfig of the cluster: %w", err)
	}

	hello := filepath.Join(d.tools.Root(), "config", "samples", "hello.yaml")
	if err := d.runKubectl(ctx, d.out, "apply", "-f", hello); err != nil {
		return err
	}

	answers, err := d.queryService(ctx)
	if err != nil {
		return err
	}

	d.reportProgress("%s answered through Service hello, at %s\n", strings.Join(answers, " and "), helloURL)
	err = d.runKubectl(ctx, io.Discard, "wait", "--for=condition=Ready", "pods", "--all", "--all-namespaces",
		"--timeout=60s")
	if err != nil {
		return err
	}

	if err := d.runKubectl(ctx, d.out, "get", "nodes", "-o", "wide"); err != nil {
		return err
	}

	fmt.Fprintln(d.out)

	return d.runKubectl(ctx, d.out, "get", "pods", "-A", "-o", "wide")
}

// queryService sends requests to the Service until both pods have answered.
func (d *demo) queryService(ctx context.Context) ([]string, error) {
	// Use a new connection each time, because a Service chooses a pod for each connection.
	asking := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var answered []string

	seen := func() string { return fmt.Sprintf("%s: %d of 2 pods have answered", helloURL, len(answered)) }
	err := d.waitForGoal(ctx, goal{
		unmet: "not both pods have answered", limit: answersWithin, broken: d.findFailure,
		missing: func(context.Context) string { return seen() },
		look: func(ctx context.Context) (string, bool, error) {
			name, err := fetchName(ctx, asking, helloURL)
			if err == nil && !slices.Contains(answered, name) {
				answered = append(answered, name)
			}

			return seen(), len(answered) == 2, nil
		},
	})

	return answered, err
}

// fetchName returns the name of the pod that answers.
func fetchName(ctx context.Context, asking *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}

	answer, err := asking.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()

	content, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))

	return strings.TrimSpace(strings.TrimPrefix(string(content), "hello from ")), err
}

// runKubectl runs kubectl against the workload cluster, and writes its output to out.
func (d *demo) runKubectl(ctx context.Context, out io.Writer, args ...string) error {
	path, err := d.tools.Path("plane", "kubectl")
	if err != nil {
		return err
	}

	command := exec.CommandContext(ctx, path, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+d.workload)
	command.Stdout, command.Stderr = out, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", args[0], err)
	}

	return nil
}
