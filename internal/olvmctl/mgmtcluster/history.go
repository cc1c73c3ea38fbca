package mgmtcluster

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
)

// longestLine is the length of the longest line in a manager's log, in bytes.
const longestLine = 1 << 20

// managerPods selects the pods of this provider's manager.
var managerPods = client.MatchingLabels{"control-plane": "capolvm-controller-manager"}

// HistoryEntry is an entry in the history of a machine.
type HistoryEntry struct {
	Time time.Time `json:"time"`
	// Kind is the kind of the source. It is OLVMMachine, Machine, or manager for a line in the manager's log.
	Kind    string `json:"kind"`
	Type    string `json:"type,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// String returns the entry as a line for users.
func (e HistoryEntry) String() string {
	words := []string{e.Time.Local().Format(time.DateTime), e.Kind}
	if e.Type == corev1.EventTypeWarning {
		words = append(words, "WARNING")
	}

	if e.Reason != "" {
		words = append(words, e.Reason+":")
	}

	return strings.Join(append(words, strings.ReplaceAll(strings.TrimSpace(e.Message), "\n", "\n    ")), " ")
}

// FindMachine returns the OLVMMachine with this name, or the OLVMMachine of the Machine with this name.
func (c *Cluster) FindMachine(ctx context.Context, name string) (*infrav1.OLVMMachine, error) {
	var machine clusterv1.Machine
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &machine)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get Machine %s: %w", name, err)
	}

	var out infrav1.OLVMMachine
	key := client.ObjectKey{Namespace: c.Namespace, Name: cmp.Or(machine.Spec.InfrastructureRef.Name, name)}
	if err := c.Get(ctx, key, &out); apierrors.IsNotFound(err) {
		return nil, c.NotFound(ctx, name, "Machine")
	} else if err != nil {
		return nil, fmt.Errorf("failed to get OLVMMachine %s: %w", name, err)
	}

	return &out, nil
}

// ListHistory returns the events of a machine. If the event of the last run has expired, it adds this run from the
// status.
func (c *Cluster) ListHistory(ctx context.Context, machine *infrav1.OLVMMachine) ([]HistoryEntry, error) {
	var list eventsv1.EventList
	if err := c.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("failed to list events: %w", err)
	}

	names := []string{machine.Name}
	for _, owner := range machine.OwnerReferences {
		if owner.Kind == "Machine" {
			names = append(names, owner.Name)
		}
	}

	var out []HistoryEntry
	ran := false

	for i := range list.Items {
		event := &list.Items[i]
		kind := event.Regarding.Kind
		if kind != "OLVMMachine" && kind != "Machine" || !slices.Contains(names, event.Regarding.Name) {
			continue
		}

		out = append(out, HistoryEntry{TimeOf(event), kind, event.Type, event.Reason, event.Note})
		ran = ran || strings.HasSuffix(event.Reason, "Apply") || strings.HasSuffix(event.Reason, "Destroy")
	}

	if t := machine.Status.Terraform; t != nil && t.LastRun != nil && !ran {
		out = append(out, lastRun(t))
	}

	return out, nil
}

// TimeOf returns the time when an event was last observed.
func TimeOf(event *eventsv1.Event) time.Time {
	switch {
	case event.Series != nil && !event.Series.LastObservedTime.IsZero():
		return event.Series.LastObservedTime.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	}

	return event.DeprecatedLastTimestamp.Time // set by older recorders
}

// lastRun returns the last run recorded in a status.
func lastRun(t *infrav1.TerraformStatus) HistoryEntry {
	run := t.LastRun

	return HistoryEntry{
		Time:   run.CompletionTime.Time,
		Kind:   "OLVMMachine",
		Reason: run.Result + run.Operation,
		Message: fmt.Sprintf("run %d, the last one: %d added, %d changed, %d destroyed, in %.0f s", t.Runs, run.Added,
			run.Changed, run.Destroyed, run.CompletionTime.Sub(run.StartTime.Time).Seconds()),
	}
}

// ListFullHistory returns the history of a machine in the order of time. If manager is set, the history includes the
// lines about the machine in the manager's log. since limits the lines from pods. The zero time means all lines.
func (c *Cluster) ListFullHistory(
	ctx context.Context, machine *infrav1.OLVMMachine, manager bool, since time.Time,
) ([]HistoryEntry, error) {
	entries, err := c.ListHistory(ctx, machine)
	if err != nil {
		return nil, err
	}

	if manager {
		lines, err := c.readManagerHistory(ctx, machine, since)
		if err != nil {
			return nil, err
		}

		entries = append(entries, withoutEvents(lines, entries)...)
	}

	slices.SortStableFunc(entries, func(a, b HistoryEntry) int { return a.Time.Compare(b.Time) })

	return entries, nil
}

// withoutEvents returns the lines of a manager's log except those about events already among the entries.
func withoutEvents(lines, entries []HistoryEntry) []HistoryEntry {
	return slices.DeleteFunc(lines, func(line HistoryEntry) bool {
		return strings.Contains(line.Message, `"Event occurred" `) &&
			slices.ContainsFunc(entries, func(event HistoryEntry) bool {
				return strings.Contains(line.Message, " reason="+strconv.Quote(event.Reason)+" ") &&
					strings.HasSuffix(line.Message, " note="+strconv.Quote(event.Message))
			})
	})
}

// errManagerIsLocal reports that the manager is a process of the local management cluster.
var errManagerIsLocal = errors.New("the manager is a process")

// findManagers returns the pods of the manager, and a client for their logs.
func (c *Cluster) findManagers(ctx context.Context) (*kubernetes.Clientset, []corev1.Pod, error) {
	clients, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to create a client of the management cluster: %w", err)
	}

	var pods corev1.PodList
	if err := c.List(ctx, &pods, managerPods); err != nil {
		return nil, nil, fmt.Errorf("failed to list the manager's pods: %w", err)
	}

	switch {
	case len(pods.Items) > 0:
		return clients, pods.Items, nil
	case c.Kubeconfig == LocalOfUser().Kubeconfig():
		return nil, nil, errManagerIsLocal
	}

	return nil, nil, errors.New("no pod of the manager found in the management cluster")
}

// readManagerHistory returns the lines about a machine from the logs of the manager's pods. It skips pods that have not
// started yet, or are already deleted.
func (c *Cluster) readManagerHistory(
	ctx context.Context, machine *infrav1.OLVMMachine, since time.Time,
) ([]HistoryEntry, error) {
	clients, pods, err := c.findManagers(ctx)
	if errors.Is(err, errManagerIsLocal) {
		return LocalOfUser().readManagerHistory(machine)
	}

	if err != nil {
		return nil, fmt.Errorf("--manager: %w", err)
	}

	var out []HistoryEntry

	for i := range pods {
		pod := &pods[i]
		options := &corev1.PodLogOptions{Timestamps: true}
		if !since.IsZero() {
			options.SinceTime = &metav1.Time{Time: since}
		}

		stream, err := clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
		if apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) {
			continue
		}

		if err != nil {
			return nil, fmt.Errorf("failed to read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}

		lines, err := linesAbout(stream, podLine, machine)
		_ = stream.Close()
		if err != nil {
			return nil, fmt.Errorf("failed to read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}

		out = append(out, lines...)
	}

	return out, nil
}

// ReadManagerLogs returns the last lines of the manager's logs by pod name. For a local management cluster, it returns
// the log of the manager's process.
func (c *Cluster) ReadManagerLogs(ctx context.Context, lines int) (map[string][]byte, error) {
	clients, pods, err := c.findManagers(ctx)
	if errors.Is(err, errManagerIsLocal) {
		content, err := os.ReadFile(localplane.ManagerLog(LocalOfUser().dir))
		return map[string][]byte{"manager": lastLines(content, lines)}, err
	}

	if err != nil {
		return nil, err
	}

	out := map[string][]byte{}
	var problems []error

	for i := range pods {
		pod := &pods[i]
		options := &corev1.PodLogOptions{TailLines: ptr.To(int64(lines))}

		content, err := clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
		if err != nil {
			problems = append(problems, fmt.Errorf("pod %s: %w", pod.Name, err))
			continue
		}

		out[pod.Name] = content
	}

	return out, errors.Join(problems...)
}

// lastLines returns the given number of last lines of a text.
func lastLines(text []byte, lines int) []byte {
	for at := len(text) - 1; at > 0; at-- {
		if text[at-1] != '\n' {
			continue
		}

		if lines--; lines == 0 {
			return text[at:]
		}
	}

	return text
}

// readManagerHistory returns the lines about a machine from the log of the manager. In a local management cluster, the
// manager is a process.
func (l Local) readManagerHistory(machine *infrav1.OLVMMachine) ([]HistoryEntry, error) {
	log, err := os.Open(localplane.ManagerLog(l.dir))
	if err != nil {
		return nil, fmt.Errorf("failed to read the manager's log: %w", err)
	}
	defer log.Close()

	lines, err := linesAbout(log, klogLine, machine)
	if err != nil {
		return nil, fmt.Errorf("failed to read the manager's log %s: %w", log.Name(), err)
	}

	return lines, nil
}

// linesAbout returns the lines about a machine from a log. read splits a line into its time and the rest.
func linesAbout(
	log io.Reader, read func(line string) (at time.Time, rest string, err error), machine *infrav1.OLVMMachine,
) ([]HistoryEntry, error) {
	object := strconv.Quote(machine.Namespace + "/" + machine.Name)
	var out []HistoryEntry
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, longestLine)

	for scanner.Scan() {
		if !strings.Contains(scanner.Text(), object) {
			continue
		}

		if at, line, err := read(scanner.Text()); err == nil {
			out = append(out, HistoryEntry{Time: at, Kind: "manager", Message: line})
		}
	}

	return out, scanner.Err()
}

// podLine splits a line of a pod's log into the time stamp of the kubelet and the rest.
func podLine(line string) (at time.Time, rest string, err error) {
	stamp, rest, _ := strings.Cut(line, " ")
	at, err = time.Parse(time.RFC3339Nano, stamp)

	return at, rest, err
}

// klogLine splits a line written by klog. Its time has no year, and is in local time.
func klogLine(line string) (at time.Time, rest string, err error) {
	const layout = "0102 15:04:05.000000"

	if len(line) <= len(layout) {
		return at, "", errors.New("no time found")
	}

	at, err = time.ParseInLocation(layout, line[1:1+len(layout)], time.Local)
	if err != nil {
		return at, "", err
	}

	now := time.Now()
	at = at.AddDate(now.Year(), 0, 0)
	if at.After(now.AddDate(0, 0, 1)) { // the line is from last year
		at = at.AddDate(-1, 0, 0)
	}

	return at, line, nil
}
