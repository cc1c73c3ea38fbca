package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Site holds the resources that the machines of a process share. These resources end with the process.
type Site struct {
	// Group is the parent cgroup of the machines, and Dir is the folder with their disks. Each may be "".
	Group, Dir string
	// Loops is the folder with the files of disks. Removing the site detaches the loop devices of these files; "" means
	// no folder.
	Loops string
	// NetNS is the network namespace with the machines' networks; "" means the namespace of this process. Made reports
	// that the namespace was created for these machines. In other namespaces, Remove deletes the links with the prefix
	// Links; "" means none.
	NetNS string
	Made  bool
	Links string
}

// StartCleaner starts a separate process, the cleaner. The cleaner removes the site when the returned function is
// called, or when this process ends for any reason. The function waits until the site is removed.
func (s Site) StartCleaner() (func() error, error) {
	content, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}

	cleaner := exec.Command("/proc/self/exe") //nolint:noctx // it ends after this process
	cleaner.Args = []string{cleanerName}
	cleaner.Stderr = os.Stderr
	cleaner.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so keyboard interrupts do not reach it
	input, err := cleaner.StdinPipe()
	if err == nil {
		err = cleaner.Start()
	}

	if err == nil {
		_, err = input.Write(append(content, '\n'))
	}

	if err != nil {
		return nil, fmt.Errorf("failed to start the cleaner of machines: %w", err)
	}

	return func() error {
		return errors.Join(input.Close(), cleaner.Wait())
	}, nil
}

// runCleaner is the cleaner's main function.
func runCleaner() error {
	var site Site
	decoder := json.NewDecoder(os.Stdin)
	if err := decoder.Decode(&site); err != nil {
		return fmt.Errorf("failed to read what is to be cleaned: %w", err)
	}

	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}

	return site.Remove()
}

// Remove removes the site after the kernel has ended the processes in the site's groups.
func (s Site) Remove() error {
	var problems []error

	if s.Group != "" && !removeGroups(s.Group, time.Now().Add(cleanLimit)) {
		problems = append(problems, fmt.Errorf("cgroup %s cannot be removed", s.Group))
	}

	switch {
	case s.Made:
		problems = append(problems, IP("", "netns", "delete", s.NetNS))
	case s.Links != "":
		problems = append(problems, s.removeLinks())
	}

	if s.Loops != "" {
		problems = append(problems, closeDisks(s.Loops))
	}

	if s.Dir != "" {
		problems = append(problems, os.RemoveAll(s.Dir))
	}

	return errors.Join(problems...)
}

// removeLinks removes the bridges of networks. The machines' links disappear with the bridges.
func (s Site) removeLinks() error {
	args := []string{"-json", "link", "show", "type", "bridge"}
	if s.NetNS != "" {
		args = append([]string{"-netns", s.NetNS}, args...)
	}

	output, err := exec.Command("ip", args...).Output() //nolint:noctx // at once
	if err != nil {
		return fmt.Errorf("failed to list the networks of machines: %w", err)
	}

	var links []struct {
		Name string `json:"ifname"`
	}
	if err := json.Unmarshal(output, &links); err != nil {
		return fmt.Errorf("failed to list the networks of machines: %w", err)
	}

	var problems []error

	for _, link := range links {
		if strings.HasPrefix(link.Name, s.Links) {
			problems = append(problems, IP(s.NetNS, "link", "delete", link.Name))
		}
	}

	return errors.Join(problems...)
}

// EnsureNetNS creates a named network namespace if it does not exist, and reports whether it did.
func EnsureNetNS(name string) (made bool, err error) {
	if _, err := os.Stat("/run/netns/" + name); err == nil {
		return false, nil
	}

	if err := IP("", "netns", "add", name); err != nil {
		return false, err
	}

	return true, IP(name, "link", "set", "lo", "up")
}

// SiteAddress is the address at which machines reach services in the namespace of SetUpSite.
const SiteAddress = "10.196.0.1"

// SetUpSite prepares this process's new network namespace for the programs of a management plane. It sets up the
// loopback interface, an address, and a default route that leads nowhere. The networks of machines are in the same
// namespace.
func SetUpSite() error {
	const site = "site"

	for _, step := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", site, "type", "bridge"},
		{"address", "add", SiteAddress + "/24", "dev", site},
		{"link", "set", site, "up"},
		{"route", "add", "default", "via", "10.196.0.2"},
	} {
		if err := IP("", step...); err != nil {
			return err
		}
	}

	return nil
}
