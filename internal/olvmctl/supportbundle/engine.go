package supportbundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// engineEvents is the maximum number of events of a VM in a bundle.
const engineEvents = 100

// addEngine adds what the engine knows about the VMs of the cluster, with their disks and events.
func (g *gathering) addEngine(ctx context.Context) error {
	if !g.Engine {
		return errors.New("not requested")
	}

	var cluster infrav1.OLVMCluster
	key := client.ObjectKey{Namespace: g.In.Namespace, Name: g.cluster.Spec.InfrastructureRef.Name}
	if err := g.In.Get(ctx, key, &cluster); err != nil {
		return err
	}

	session, err := g.openSession(ctx, &cluster)
	if err != nil {
		return err
	}

	defer func() { _ = session.Logout(context.WithoutCancel(ctx)) }()

	dc, err := session.FindDataCenter(ctx, cluster.Spec.OLVMDatacenterName)
	if err != nil {
		return err
	}

	all, err := session.ListVMs(ctx)
	if err == nil {
		all, err = engine.FilterByDataCenter(
			ctx, session, dc, all,
		) // another data center may have VMs with the same names
	}

	if err != nil {
		return err
	}

	machines := map[string]bool{}
	for _, machine := range g.listMachines() {
		machines[machine.Name] = true
	}

	for i := range all {
		if machines[all[i].Name] {
			if err := g.addVM(ctx, session, &all[i]); err != nil {
				g.addProblem("VM "+all[i].Name, err)
			}
		}
	}

	return nil
}

// openSession opens a session with the credentials of the cluster. If the credentials come from another namespace, it
// also removes them from the bundle.
func (g *gathering) openSession(ctx context.Context, cluster *infrav1.OLVMCluster) (*engine.Client, error) {
	objects, err := connection.ReadObjects(ctx, g.In, connection.ClusterEngine(cluster))
	if err != nil {
		return nil, err
	}

	if objects.Secret != nil {
		g.noteSecret(objects.Secret)
	}

	config, err := connection.BuildConfig(connection.ClusterEngine(cluster), objects)
	if err != nil {
		return nil, err
	}

	return engine.New(config)
}

// addVM adds what the engine knows about a VM.
func (g *gathering) addVM(ctx context.Context, session *engine.Client, vm *engine.VM) error {
	var out bytes.Buffer

	fmt.Fprintf(&out, "VM %s %s is %s\ncomment: %s\nhost: %s\nstarted: %s\nchanges wait for a restart: %v\n", vm.Name,
		vm.ID, vm.Status, vm.CommentText(), engine.RefID(vm.Host), vm.StartTime, vm.ChangesWait)

	attachments, disksErr := session.ListDiskAttachments(ctx, vm.ID)
	for i := range attachments {
		disk, err := session.FetchDisk(ctx, attachments[i].DiskID())
		if err != nil {
			disksErr = errors.Join(disksErr, err)
			continue
		}

		fmt.Fprintf(&out, "disk %s %s is %s: %d bytes, %s, boots %v\n", disk.AliasText(), disk.ID, disk.Status,
			disk.ProvisionedSize, attachments[i].Interface, attachments[i].IsBootDisk())
	}

	events, eventsErr := session.ListEvents(ctx, "event_vm = "+vm.Name, engineEvents)
	for _, event := range slices.Backward(events) {
		fmt.Fprintf(&out, "%s %s %d: %s\n", event.Time, event.Severity, event.Code, event.Description)
	}

	g.addFile("engine/"+vm.Name+".txt", out.Bytes())

	return errors.Join(disksErr, eventsErr)
}
