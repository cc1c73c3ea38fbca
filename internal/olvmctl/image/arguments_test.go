package image

import (
	"strings"
	"testing"
)

func TestEntriesGetTheirArguments(t *testing.T) {
	engine := Arguments{Platform: "openstack"}
	for name, test := range map[string]struct {
		arguments   Arguments
		entry, want string
	}{
		"QEMU becomes an engine": {engine,
			"title OL\noptions rw ignition.platform.id=qemu ignition.firstboot=1 console=ttyS0 " +
				"root=UUID=1\nlinux /vmlinuz\n",
			"title OL\noptions rw ignition.platform.id=openstack ignition.firstboot=1 console=tty0 " +
				"root=UUID=1\nlinux /vmlinuz\n"},
		"a platform that lacks is added": {engine, "options rw quiet\n",
			"options rw quiet ignition.platform.id=openstack\n"},
		"what fits stays, with its blanks": {engine,
			"options   rw\tignition.platform.id=openstack  console=tty0 \nlinux /vmlinuz",
			"options   rw\tignition.platform.id=openstack  console=tty0 \nlinux /vmlinuz"},
		"a serial console with a speed": {engine, "options console=ttyS0,115200n8 " +
			"ignition.platform.id=openstack", "options console=tty0 ignition.platform.id=openstack\n"},
		"both consoles become one": {engine, "options console=ttyS0 console=tty0 " +
			"ignition.platform.id=openstack\n", "options console=tty0 ignition.platform.id=openstack\n"},
		"other consoles stay": {engine, "options console=ttyS01 console=ttyAMA0 " +
			"ignition.platform.id=openstack\n", "options console=ttyS01 console=ttyAMA0 " +
			"ignition.platform.id=openstack\n"},
		"two platforms become one": {engine, "options ignition.platform.id=qemu " +
			"ignition.platform.id=metal rw\n", "options ignition.platform.id=openstack rw\n"},
		"blanks in quotes belong to an argument": {engine, "options dyndbg=\"file a  +p\" console=ttyS0 " +
			"ignition.platform.id=openstack\n", "options dyndbg=\"file a  +p\" console=tty0 " +
			"ignition.platform.id=openstack\n"},
		"a quote without an end is kept": {engine, "options ignition.platform.id=qemu " +
			"console=ttyS0 a=\"b  c\n", "options ignition.platform.id=openstack console=tty0 a=\"b  c\n"},
		"several lines of options are one list": {engine, "options ignition.platform.id=qemu\noptions console=ttyS0\n",
			"options ignition.platform.id=openstack\noptions console=tty0\n"},
		"an entry without options gets some": {engine, "title OL\nlinux /vmlinuz",
			"title OL\nlinux /vmlinuz\noptions ignition.platform.id=openstack\n"},
		"keys that only begin with options are others": {engine, "optionsx console=ttyS0\noptions " +
			"ignition.platform.id=openstack\n", "optionsx console=ttyS0\noptions ignition.platform.id=openstack\n"},
		"another platform": {Arguments{
			Platform: "vmware",
		}, "options ignition.platform.id=qemu\n", "options ignition.platform.id=vmware\n"},
		"further arguments come last, and once": {
			Arguments{Platform: "openstack", More: []string{"nosmt", "a=1", "nosmt"}},
			"options ignition.platform.id=qemu a=1 rw\n", "options ignition.platform.id=openstack a=1 rw nosmt\n"},
		"a serial console that is asked for is a second": {
			Arguments{Platform: "openstack", More: []string{"console=ttyS0"}},
			"options ignition.platform.id=qemu console=ttyS0\n",
			"options ignition.platform.id=openstack console=tty0 console=ttyS0\n"},
		"Oracle Cloud shows the serial console": {
			Arguments{Platform: "oraclecloud", KeepConsole: true},
			"options ignition.platform.id=qemu console=ttyS0\n",
			"options ignition.platform.id=oraclecloud console=ttyS0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.arguments.EditEntry(test.entry)
			if got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}

			if again := test.arguments.EditEntry(got); again != got {
				t.Errorf("a second time it becomes %q", again)
			}
		})
	}
}

func TestArgumentsThatAreNone(t *testing.T) {
	more := func(arguments ...string) Arguments { return Arguments{Platform: "openstack", More: arguments} }

	for name, test := range map[string]struct {
		arguments Arguments
		want      string
	}{
		"no platform":            {Arguments{}, `invalid Ignition platform ""`},
		"a platform of blanks":   {Arguments{Platform: "open stack"}, "invalid Ignition platform"},
		"two arguments in one":   {more("a b"), "one flag for each argument"},
		"a line of its own":      {more("a\"\ninitrd /evil\""), "is not a single kernel argument"},
		"a quote without an end": {more(`a="b`), "is not a single kernel argument"},
		"nothing":                {more(""), "is not a single kernel argument"},
		"the platform": {more("ignition.platform.id=qemu"),
			"--ignition-platform"},
	} {
		if err := test.arguments.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}

	if err := (Arguments{Platform: "openstack", More: []string{`dyndbg="file a +p"`, "quiet"}}).Validate(); err != nil {
		t.Error(err)
	}
}
