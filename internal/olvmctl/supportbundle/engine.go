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

// engineEvents limits the engine's events of each VM in a bundle.
const engineEvents = 100

// engine adds the engine's view of the cluster's VMs, with disks and events.
func (g *gathering) engine(ctx context.Context) error {
	if !g.Engine {
		return errors.New("it was not asked for")
	}

	var cluster infrav1.OLVMCluster
	key := client.ObjectKey{Namespace: g.In.Namespace, Name: g.cluster.Spec.InfrastructureRef.Name}
	if err := g.In.Get(ctx, key, &cluster); err != nil {
		return err
	}

	session, err := g.connect(ctx, &cluster)
	if err != nil {
		return err
	}

	defer func() { _ = session.Logout(context.WithoutCancel(ctx)) }()

	dc, err := session.DataCenter(ctx, cluster.Spec.OLVMDatacenterName)
	if err != nil {
		return err
	}

	all, err := session.VMs(ctx)
	if err == nil {
		all, err = engine.Within(ctx, session, dc, all) // another data center may have VMs of the same names
	}

	if err != nil {
		return err
	}

	machines := map[string]bool{}
	for _, machine := range g.machines() {
		machines[machine.Name] = true
	}

	for i := range all {
		if machines[all[i].Name] {
			if err := g.vm(ctx, session, &all[i]); err != nil {
				g.problem("VM "+all[i].Name, err)
			}
		}
	}

	return nil
}

// connect opens a session with the cluster's credentials. It also removes these from the bundle if they come from
// another namespace.
func (g *gathering) connect(ctx context.Context, cluster *infrav1.OLVMCluster) (*engine.Client, error) {
	objects, err := connection.Read(ctx, g.In, connection.ClusterEngine(cluster))
	if err != nil {
		return nil, err
	}

	if objects.Secret != nil {
		g.note(objects.Secret)
	}

	config, err := connection.Config(connection.ClusterEngine(cluster), objects)
	if err != nil {
		return nil, err
	}

	return engine.New(config)
}

// vm adds the engine's view of a VM.
func (g *gathering) vm(ctx context.Context, session *engine.Client, vm *engine.VM) error {
	var out bytes.Buffer

	fmt.Fprintf(&out, "VM %s %s is %s\ncomment: %s\nhost: %s\nstarted: %s\nchanges wait for a restart: %v\n", vm.Name,
		vm.ID, vm.Status, vm.CommentText(), engine.RefID(vm.Host), vm.StartTime, vm.ChangesWait)

	attachments, disksErr := session.DiskAttachments(ctx, vm.ID)
	for i := range attachments {
		disk, err := session.Disk(ctx, attachments[i].DiskID())
		if err != nil {
			disksErr = errors.Join(disksErr, err)
			continue
		}

		fmt.Fprintf(&out, "disk %s %s is %s: %d bytes, %s, boots %v\n", disk.AliasText(), disk.ID, disk.Status,
			disk.ProvisionedSize, attachments[i].Interface, attachments[i].Boots())
	}

	events, eventsErr := session.Events(ctx, "event_vm = "+vm.Name, engineEvents)
	for _, event := range slices.Backward(events) {
		fmt.Fprintf(&out, "%s %s %d: %s\n", event.Time, event.Severity, event.Code, event.Description)
	}

	g.add("engine/"+vm.Name+".txt", out.Bytes())

	return errors.Join(disksErr, eventsErr)
}
