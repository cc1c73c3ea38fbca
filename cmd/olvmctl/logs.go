package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// logs are the flags of the logs command.
type logs struct {
	streams
	management
	follow, manager bool
	output          string
}

// entry is a line of the logs.
type entry struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Type    string    `json:"type,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message"`
}

func newLogsCommand(s streams) *cobra.Command {
	o := &logs{streams: s}
	command := &cobra.Command{
		Use:   "logs MACHINE",
		Short: "Show the Terraform runs of a machine, and what else happened to it",
		Long: `logs shows the events of a Machine and its OLVMMachine in their order: runs with
what they changed, or why they failed, and what the conditions went through. The API server keeps
events for an hour; the last run is kept with the machine, and is shown always.

With --manager the lines of the manager's log about the machine are among them.`,
		Example: "  olvmctl logs prod-md-0-x7k2p-9qwzt -n prod --follow",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkOutput(o.output, "text", "json"); err != nil {
				return err
			}

			if o.follow && o.output == "json" {
				return errors.New("--follow: its output is text; leave -o json away")
			}

			if err := o.connect(); err != nil {
				return err
			}

			return o.run(command.Context(), args[0])
		},
	}
	o.addFlags(command)
	command.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on with what happens from now on")
	command.Flags().BoolVar(&o.manager, "manager", false, "show the lines of the manager's log about the machine, too")
	command.Flags().StringVarP(&o.output, "output", "o", "text", "output: text or json")

	return command
}

func (o *logs) run(ctx context.Context, name string) error {
	machine, err := o.machine(ctx, name)
	if err != nil {
		return err
	}

	entries, err := o.entries(ctx, machine)
	if err != nil {
		return err
	}

	if o.manager {
		lines, err := o.managerLines(ctx, machine)
		if err != nil {
			return err
		}

		entries = append(entries, lines...)
	}

	slices.SortStableFunc(entries, func(a, b entry) int { return a.Time.Compare(b.Time) })
	if o.output == "json" {
		return encode(o.out, o.output, append([]entry{}, entries...))
	}

	seen := map[entry]bool{}

	for {
		for _, e := range entries {
			if seen[e] {
				continue
			}

			seen[e] = true
			if _, err := fmt.Fprintln(o.out, e); err != nil {
				return err
			}
		}

		if !o.follow {
			return nil
		}

		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pollInterval):
		}

		if entries, err = o.entries(ctx, machine); err != nil {
			return err
		}
	}
}

// String is a line for people.
func (e entry) String() string {
	words := []string{e.Time.Local().Format(time.DateTime), e.Kind}
	if e.Type == corev1.EventTypeWarning {
		words = append(words, "WARNING")
	}

	if e.Reason != "" {
		words = append(words, e.Reason+":")
	}

	return strings.Join(append(words, strings.ReplaceAll(strings.TrimSpace(e.Message), "\n", "\n    ")), " ")
}

// machine is the OLVMMachine of that name, or of the Machine of that name.
func (o *logs) machine(ctx context.Context, name string) (*infrav1.OLVMMachine, error) {
	var machine clusterv1.Machine
	err := o.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: name}, &machine)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get Machine %s: %w", name, err)
	}

	var out infrav1.OLVMMachine
	err = o.Get(ctx, client.ObjectKey{
		Namespace: o.namespace,
		Name:      cmp.Or(machine.Spec.InfrastructureRef.Name, name),
	}, &out)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf(
			"there is no Machine %s in namespace %s; say which with -n, and see olvmctl describe for the names",
			name,
			o.namespace,
		)
	} else if err != nil {
		return nil, fmt.Errorf("failed to get OLVMMachine %s: %w", name, err)
	}

	return &out, nil
}

// entries are the events of a machine, and its last run where that has no event any more.
func (o *logs) entries(ctx context.Context, machine *infrav1.OLVMMachine) ([]entry, error) {
	var list eventsv1.EventList
	if err := o.List(ctx, &list, client.InNamespace(o.namespace)); err != nil {
		return nil, fmt.Errorf("failed to list events: %w", err)
	}

	names := []string{machine.Name}
	for _, owner := range machine.OwnerReferences {
		if owner.Kind == "Machine" {
			names = append(names, owner.Name)
		}
	}

	var out []entry
	ran := false

	for i := range list.Items {
		event := &list.Items[i]
		kind := event.Regarding.Kind
		if kind != "OLVMMachine" && kind != "Machine" || !slices.Contains(names, event.Regarding.Name) {
			continue
		}

		at := event.EventTime.Time
		if event.Series != nil {
			at = event.Series.LastObservedTime.Time
		}

		if at.IsZero() {
			at = event.DeprecatedLastTimestamp.Time // of older recorders
		}

		out = append(out, entry{at, event.Regarding.Kind, event.Type, event.Reason, event.Note})
		ran = ran || strings.HasSuffix(event.Reason, "Apply") || strings.HasSuffix(event.Reason, "Destroy")
	}

	if t := machine.Status.Terraform; t != nil && t.LastRun != nil && !ran {
		run := t.LastRun
		out = append(
			out,
			entry{
				run.CompletionTime.Time,
				"OLVMMachine",
				"",
				run.Result + run.Operation,
				fmt.Sprintf(
					"the last of %d runs: %d added, %d changed, %d destroyed, in %.0f s",
					t.Runs,
					run.Added,
					run.Changed,
					run.Destroyed,
					run.CompletionTime.Sub(run.StartTime.Time).Seconds(),
				),
			},
		)
	}

	return out, nil
}

// managerPods are those of our manager.
var managerPods = client.MatchingLabels{"control-plane": "capolvm-controller-manager"}

// managerLines are the lines of the manager's log about a machine.
func (o *logs) managerLines(ctx context.Context, machine *infrav1.OLVMMachine) ([]entry, error) {
	config, err := o.loader().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}

	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client of the management cluster: %w", err)
	}

	var pods corev1.PodList
	if err := o.List(ctx, &pods, managerPods); err != nil {
		return nil, fmt.Errorf("failed to list the manager's pods: %w", err)
	}

	if len(pods.Items) == 0 {
		return nil, errors.New("--manager: the management cluster has no pod of the manager")
	}

	var out []entry

	for i := range pods.Items {
		pod := &pods.Items[i]
		stream, err := clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Timestamps: true,
		}).Stream(ctx)
		if err != nil {
			return nil, fmt.Errorf("failed to read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}

		lines, err := linesAbout(stream, machine.Namespace+"/"+machine.Name)
		_ = stream.Close()
		if err != nil {
			return nil, fmt.Errorf("failed to read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}

		out = append(out, lines...)
	}

	return out, nil
}

// linesAbout are the lines of a log, each with its time before it, that name an object.
func linesAbout(log io.Reader, object string) ([]entry, error) {
	var out []entry
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 1<<20)

	for scanner.Scan() {
		stamp, line, _ := strings.Cut(scanner.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err == nil && strings.Contains(line, `"`+object+`"`) {
			out = append(out, entry{Time: at, Kind: "manager", Message: line})
		}
	}

	return out, scanner.Err()
}
