package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_0"
	"github.com/vincent-petithory/dataurl"
)

// expectFollowers checks the user data that the engine has for control plane guests. The data must be Ignition of spec
// version 3.0. From it, each node must know the earlier nodes.
func (w *workload) expectFollowers(subnet int) {
	w.t.Helper()
	known := map[int]bool{} // by the number of known nodes
	w.eventually("the user data of the control plane can be read", func() error {
		for _, vm := range w.vms() {
			if !strings.Contains(vm.Name, "control-plane") {
				continue
			}

			nodes, err := w.followed(vm.ID.String(), subnet)
			if err != nil {
				return fmt.Errorf("VM %s: %w", vm.Name, err)
			}

			known[nodes] = true
		}

		return nil
	})

	for n := 1; n <= 3; n++ {
		if !known[n] {
			w.t.Errorf("no node was told of %d nodes: %v", n, known)
		}
	}
}

// followed returns the number of control plane nodes in a VM's user data.
func (w *workload) followed(id string, subnet int) (int, error) {
	data, err := driveOf(context.Background(), id)
	if err != nil {
		return 0, err
	}

	config, messages, err := v3_0.Parse([]byte(data))
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, messages.String())
	}

	nodes := 0

	for _, file := range config.Storage.Files {
		if file.Path != "/etc/capolvm/control-plane" {
			continue
		}

		content, err := dataurl.DecodeString(*file.Contents.Source)
		if err != nil {
			return 0, err
		}

		nodes = strings.Count(string(content.Data), fmt.Sprintf("127.20.%d.", subnet))
	}

	if nodes == 0 {
		return 0, errors.New("it knows no node, not even itself")
	}

	return nodes, nil
}
