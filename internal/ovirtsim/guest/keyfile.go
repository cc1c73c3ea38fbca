package guest

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
)

// keyfileFolder is the folder of NetworkManager's profiles.
const keyfileFolder = "/etc/NetworkManager/system-connections"

// addressKey matches the keys of addresses. A profile can have several addresses.
var addressKey = regexp.MustCompile(`^address(es)?[0-9]*$`)

// readKeyfiles reads the NetworkManager profiles in the files of a guest, in the order of their names. The warnings
// name each ignored profile with the reason.
func readKeyfiles(sys *system) (profiles []profile, warnings []string, err error) {
	var names []string

	for name := range sys.files {
		if path.Dir(name) == keyfileFolder && path.Ext(name) == ".nmconnection" {
			names = append(names, name)
		}
	}

	slices.Sort(names)

	for _, name := range names {
		if owner := sys.files[name].owner; owner != root {
			warnings = append(warnings, fmt.Sprintf("NetworkManager ignores %s: its owner is %s instead of root", name,
				owner))
			continue
		}

		if mode := sys.files[name].mode; mode&0o077 != 0 {
			warnings = append(
				warnings,
				fmt.Sprintf(
					"NetworkManager ignores %s: its permissions %04o are insecure, they must be 0600", name, mode,
				),
			)
			continue
		}

		p, ignored, err := readKeyfile(name, sys.read(name))
		if err != nil {
			return nil, nil, fmt.Errorf("network: %s: %w", name, err)
		}

		if ignored != "" {
			warnings = append(warnings, fmt.Sprintf("NetworkManager does not start %s: %s", name, ignored))
			continue
		}

		profiles = append(profiles, p)
	}

	return profiles, warnings, nil
}

// readKeyfile reads one profile. If the profile has no effect, ignored explains why.
func readKeyfile(name, text string) (p profile, ignored string, err error) {
	settings, err := readINI(text)
	if err != nil {
		return profile{}, "", err
	}

	p = profile{source: name}
	families := map[string][]setting{}

	for _, s := range settings {
		switch s.section + "." + s.key {
		case "connection.interface-name":
			p.device = s.value
		case "ethernet.mac-address", "802-3-ethernet.mac-address":
			p.mac = s.value
		case "connection.autoconnect":
			if s.value == "false" {
				ignored = "autoconnect is false"
			}
		case "connection.type":
			if s.value != "ethernet" && s.value != "802-3-ethernet" {
				return p, "", fmt.Errorf("connections of type %q are not simulated, only ethernet", s.value)
			}
		}

		families[s.section] = append(families[s.section], s)
	}

	if p.v4, err = readFamily(families["ipv4"], dhcp, netip.Addr.Is4); err != nil {
		return p, "", fmt.Errorf("[ipv4]: %w", err)
	}

	if p.v6, err = readFamily(families["ipv6"], autoconf, is6); err != nil {
		return p, "", fmt.Errorf("[ipv6]: %w", err)
	}

	if len(families["ipv4"]) == 0 {
		p.v4.method = dhcp // the default of NetworkManager
	}

	return p, ignored, nil
}

// readFamily reads the settings of one address family. The parameter auto is what the method "auto" means in this
// family.
func readFamily(settings []setting, auto method, family func(netip.Addr) bool) (addressing, error) {
	var out addressing

	for _, s := range settings {
		switch {
		case s.key == "method":
			switch s.value {
			case "manual":
				out.method = static
			case "auto":
				out.method = auto
			case "dhcp":
				out.method = dhcp
			case "link-local":
				if auto != autoconf {
					return out, fmt.Errorf("method %q is not simulated", s.value)
				}

				out.method = autoconf
			case "disabled", "ignore":
				out.method = off
			default:
				return out, fmt.Errorf("method %q is not simulated", s.value)
			}
		case s.key == "gateway":
			gateway, err := netip.ParseAddr(s.value)
			if err != nil {
				return out, fmt.Errorf("unusable gateway: %w", err)
			}

			out.gateway = gateway
		case addressKey.MatchString(s.key):
			for _, entry := range strings.Split(strings.TrimSuffix(s.value, ";"), ";") {
				if err := out.addEntry(entry, family); err != nil {
					return out, fmt.Errorf("unusable %s %q: %w", s.key, entry, err)
				}
			}
		}
	}

	if out.method == static && len(out.addresses) == 0 {
		return out, errors.New("method is manual and there is no address")
	}

	if out.method == off && len(out.addresses) > 0 {
		return out, errors.New("there are addresses, which no method or a disabled one does not use")
	}

	return out, out.checkGateway()
}

// addEntry adds an entry of the form ADDRESS/BITS[,GATEWAY].
func (a *addressing) addEntry(entry string, family func(netip.Addr) bool) error {
	address, gateway, _ := strings.Cut(entry, ",")
	prefix, err := netip.ParsePrefix(strings.TrimSpace(address))
	if err != nil {
		return err
	}

	if err := checkUsable(prefix, family); err != nil {
		return err
	}

	a.addresses = append(a.addresses, prefix)
	if gateway = strings.TrimSpace(gateway); gateway != "" {
		if a.gateway, err = netip.ParseAddr(gateway); err != nil {
			return fmt.Errorf("unusable gateway: %w", err)
		}
	}

	return nil
}
