package conformance

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// notHere maps skipped tests of go-ovirt-client to the reason.
var notHere = map[string]string{
	"TestBadURL": "it asks a web site on the internet",
	"TestVMNICWithMacCreation": "it wants a multicast MAC address on a network " +
		"interface, which an engine refuses",
	"TestVMNICUpdate": "it removes a vNIC profile while a network interface uses it, " +
		"which an engine refuses",
	"TestVMRemovalShouldRemoveAttachedDisks": "it wants disks to be gone at once, but an engine " +
		"removes them in the background",
	"TestVMSoundcardEnabled": "its VMs have names of more than 64 letters, " +
		"which an engine 4.5.8 refuses",
	"TestAffinityGroupCreation": "it looks for a 404 where an engine 4.5.8 answers 400 " +
		"for a group that is gone",
	"TestCannotRemoveTemplateIfVMIsNotCloned":   "the client repeats the refused call for 17 minutes",
	"TestCannotRemoveTemplateIfVMCloneIsNotSet": "the client repeats the refused call for 17 minutes",
}

// The authors of the client wrote these tests for real engines. Their expectations are the best executable description
// of an engine.
func TestTheClientsOwnTestsPassAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "client.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, "github.com/ovirt/go-ovirt-client/v3")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the tests of the client do not compile: %v\n%s", err, output)
	}

	list, err := exec.CommandContext(t.Context(), program, "-test.list", ".", "-client=live").Output()
	if err != nil {
		t.Fatal(err)
	}

	environment := append(os.Environ(), "OVIRT_URL="+sim.URL+"/api", "OVIRT_USERNAME="+sim.Username,
		"OVIRT_PASSWORD="+sim.Password, "OVIRT_CAFILE="+sim.CAFile)
	t.Run("each", func(t *testing.T) {
		for name := range strings.FieldsSeq(string(list)) {
			if !strings.HasPrefix(name, "Test") {
				continue
			}

			t.Run(name, func(t *testing.T) {
				if why := notHere[name]; why != "" {
					t.Skip(why)
				}

				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				var output bytes.Buffer
				one := exec.CommandContext(ctx, program, "-test.run", "^"+name+"$", "-test.v", "-client=live")
				one.Env, one.Stdout, one.Stderr = environment, &output, &output
				if err := one.Run(); err != nil {
					t.Fatalf("%v\n%s", err, output.String())
				}
			})
		}
	})
}
