package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodes"
)

// nodeFlags are the flags for Linux machines as guests.
type nodeFlags struct {
	folders []string
	netns   string
}

// thisNetNS stands for the network namespace of this process.
const thisNetNS = "this"

func (f *nodeFlags) addFlags(set *pflag.FlagSet) {
	set.StringArrayVar(
		&f.folders, "node-image", nil,
		"directory of an image for VMs to boot from, as printed by make node-image; can be repeated, for several "+
			"versions of Kubernetes; requires --guests=nodes",
	)
	set.StringVar(
		&f.netns, "node-netns", fmt.Sprintf("ovirtsim-%d", os.Getpid()),
		"network namespace for the networks of VMs; created if it does not exist; \"this\" selects the namespace of "+
			"the simulator; requires --guests=nodes",
	)
}

// openImages opens the images.
func (f *nodeFlags) openImages() ([]nodeimage.Image, error) {
	var out []nodeimage.Image

	for _, folder := range f.folders {
		image, err := nodeimage.Open(folder)
		if err != nil {
			return nil, fmt.Errorf("--node-image: %w", err)
		}

		out = append(out, image)
	}

	if len(out) == 0 {
		return nil, errors.New("--guests=nodes needs --node-image with a folder that make node-image has built")
	}

	return out, nil
}

// nodeImages describes the possible uses of the images.
func (f *nodeFlags) nodeImages() ([]ovirtsim.NodeImage, error) {
	images, err := f.openImages()
	var out []ovirtsim.NodeImage

	for _, image := range images {
		out = append(out, ovirtsim.NodeImage{Kubernetes: image.Kubernetes, Ignition: image.Ignition})
	}

	return out, err
}

// startGuests starts Linux machines as guests. It returns a function to remove everything they have left. The same
// happens if this process ends in another way. Only the disks of VMs remain, with the state of the simulator.
func (f *nodeFlags) startGuests(state string, log logr.Logger) (_ ovirtsim.Guest, stop func(), err error) {
	if err := machine.Check(); err != nil {
		return nil, nil, err
	}

	images, err := f.openImages()
	if err != nil {
		return nil, nil, err
	}

	site := machine.Site{Group: fmt.Sprintf("ovirtsim-%d", os.Getpid()), Links: nodes.LinkPrefix()}
	options := nodes.Options{Images: images, Group: site.Group, Log: log, Dir: filepath.Join(state, "nodes")}
	if state == "" {
		// Use the folder of the image, because its files can be linked there.
		site.Dir = filepath.Join(filepath.Dir(images[0].Dir()), fmt.Sprintf("disks-%d", os.Getpid()))
		options.Dir = site.Dir
	}

	site.Loops = options.Dir

	if f.netns != thisNetNS {
		options.NetNS, site.NetNS = f.netns, f.netns
		site.Made, err = machine.EnsureNetNS(f.netns)
	}

	var clean func() error
	if err == nil {
		clean, err = site.StartCleaner()
	}

	if err != nil {
		return nil, nil, errors.Join(err, site.Remove())
	}

	if err := machine.RaiseLimits(); err != nil {
		fmt.Fprintln(os.Stderr, "more than about five machines will not start: the limits of this host stay:", err)
	}

	return nodes.New(options), func() {
		if err := clean(); err != nil {
			log.Error(err, "Failed to clean up after machines")
		}
	}, nil
}

// describeNetworks explains how users can reach the networks of VMs.
func (f *nodeFlags) describeNetworks() string {
	if slices.Contains([]string{thisNetNS, ""}, f.netns) {
		return "the networks of VMs are in the network namespace of the simulator"
	}

	return fmt.Sprintf("the networks of VMs are in network namespace %[1]s: ip netns exec %[1]s kubectl ...", f.netns)
}
