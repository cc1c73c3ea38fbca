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

// Site is what machines of one process have in common, and is gone with it.
type Site struct {
	// Group is the cgroup that those of the machines are in, and Dir the folder with their disks; each may be empty.
	Group, Dir string
	// Loops is the folder with the files of disks that have loop devices, which are given back; empty for none.
	Loops string
	// NetNS is the name of the network namespace with their networks; empty for that of this process. Made reports that
	// it was made for them. In another one the links whose names begin with Links are removed; empty is none.
	NetNS string
	Made  bool
	Links string
}

// Watch has a process of its own, the cleaner, remove the site when this process has called the returned function, or
// has ended in whatever way. The function waits until nothing is left.
func (s Site) Watch() (func() error, error) {
	content, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}

	cleaner := exec.Command("/proc/self/exe") //nolint:noctx // it ends after this process
	cleaner.Args = []string{cleanerName}
	cleaner.Stderr = os.Stderr
	cleaner.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt from the keyboard is not for it
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

// clean is the cleaner.
func clean() error {
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

// Remove removes the site, once the kernel has ended what was in its groups.
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

// removeLinks removes the bridges of networks; the links of machines end with these.
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

// EnsureNetNS makes the network namespace of a name, unless it is there, and reports whether it was made.
func EnsureNetNS(name string) (made bool, err error) {
	if _, err := os.Stat("/run/netns/" + name); err == nil {
		return false, nil
	}

	if err := IP("", "netns", "add", name); err != nil {
		return false, err
	}

	return true, IP(name, "link", "set", "lo", "up")
}

// SiteAddress is where machines reach what listens in the namespace of SetUpSite.
const SiteAddress = "10.196.0.1"

// SetUpSite gives the network namespace of this process, which is new, what programs of a management plane look for: a
// loopback, an address, and a way out, which leads nowhere. The networks of machines are beside it.
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
