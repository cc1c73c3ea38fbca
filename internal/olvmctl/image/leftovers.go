package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
)

// This file removes the objects left by killed runs.

// These are the marks of a VM used to create a template: its run, and the name of the template.
const (
	ownerMark  = "capolvm image "
	ofTemplate = " of template "
)

// run is the creation of one template. Its process holds the lock of a file. With this lock, a later run on the same
// machine can tell leftovers from objects in use.
type run struct {
	id   string
	lock *os.File
}

// runState is what is known about the state of a run.
type runState int

const (
	runElsewhere runState = iota // a run of another machine or user; it may still be running
	runAlive
	runDead
)

// runFile returns the path of the file of a run.
func runFile(id string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("failed to find the folder for the files of runs: %w", err)
	}

	return filepath.Join(base, "capolvm", "image-runs", id), nil
}

// beginRun begins a run. If the process is killed, its file remains, and shows that the run has ended.
func beginRun() (*run, error) {
	out := &run{id: uuid.NewString()}

	path, err := runFile(out.id)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}

	if err == nil {
		out.lock, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	}

	if err != nil {
		return nil, fmt.Errorf("failed to create the file of the run: %w", err)
	}

	if err = filelock.Exclusive(out.lock); err != nil {
		out.endRun()

		return nil, fmt.Errorf("failed to create the file of the run: %w (set XDG_CACHE_HOME)", err)
	}

	return out, nil
}

// endRun ends the run.
func (r *run) endRun() {
	_ = os.Remove(r.lock.Name())
	_ = r.lock.Close()
}

// stateOfRun finds out whether the process of a run is still running.
func stateOfRun(id string) runState {
	if _, err := uuid.Parse(id); err != nil { // the ID is part of a file name
		return runElsewhere
	}

	path, err := runFile(id)
	if err != nil {
		return runElsewhere
	}

	file, err := os.Open(path)
	if err != nil {
		return runElsewhere
	}
	defer file.Close()

	switch err := filelock.Exclusive(file); {
	case err == nil:
		return runDead
	case errors.Is(err, filelock.ErrHeld):
		return runAlive
	}

	return runElsewhere // unknown
}

// removeLeftovers removes VMs and disks left by killed runs on this machine. If a run for the same template may still
// be running elsewhere, it only prints its objects.
func (t NodeTemplate) removeLeftovers(ctx context.Context, client *engine.Client, dc *engine.DataCenter) error {
	vms, err := client.ListVMs(ctx)
	if err == nil {
		vms, err = engine.FilterByDataCenter(ctx, client, dc, vms)
	}

	if err != nil {
		return err
	}

	for i := range vms {
		mark, marked := strings.CutPrefix(vms[i].CommentText(), ownerMark)
		id, template, _ := strings.Cut(mark, ofTemplate)

		neverRan := vms[i].Status.IsOff() || vms[i].Status == engine.VMImageLocked
		if !marked || !neverRan {
			continue
		}

		if err := t.removeOf(id, "VM "+vms[i].Name, template == t.Name, func() error {
			return removeVM(ctx, client, vms[i].ID)
		}); err != nil {
			return err
		}
	}

	disks, err := client.FindDisksNotFromTemplates(ctx, dc, t.Disk)
	if err != nil {
		return err
	}

	for i := range disks {
		if id := disks[i].UploadRun(); id != "" {
			if err := t.removeOf(id, "disk "+t.Disk+" ("+disks[i].ID.String()+")", true, func() error {
				return client.RemoveDisk(ctx, disks[i].ID, nil)
			}); err != nil {
				return err
			}
		}
	}

	return nil
}

// removeOf removes an object of a killed run. If the run is elsewhere and for the same template, removeOf only prints
// the object.
func (t NodeTemplate) removeOf(id, what string, sameTemplate bool, remove func() error) error {
	switch state := stateOfRun(id); {
	case state == runDead:
		_, _ = fmt.Fprintf(t.Out, "removing %s, left over from a killed run\n", what)

		return remove()
	case state == runElsewhere && sameTemplate:
		_, _ = fmt.Fprintf(t.Out, "%s belongs to another run for this template; if no run is active on another "+
			"machine, delete it in the engine\n", what)
	}

	return nil
}

// removeVM removes a VM that was never started. It keeps the disks of the VM, because they may have existed before.
func removeVM(ctx context.Context, client *engine.Client, id engine.ID) error {
	return engine.Wait(ctx, "VM "+id.String()+" to be deleted", func(ctx context.Context) (bool, string, error) {
		vm, err := client.FetchVM(ctx, id)
		if engine.IsNotFound(err) {
			return true, "", nil
		} else if err != nil || vm.Status.IsBusy() {
			return false, string(engine.VMImageLocked), err
		}

		err = client.DetachForeignDisks(ctx, id, func(*engine.DiskAttachment, *engine.Disk) bool { return false })
		if err == nil {
			err = client.DeleteVM(ctx, id)
		}

		if engine.IsNotFound(err) {
			err = nil
		}

		return false, string(vm.Status), err // the next request confirms the deletion
	}, nil)
}
