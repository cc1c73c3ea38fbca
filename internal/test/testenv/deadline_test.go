package testenv

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// slowSetup is the environment variable of the process whose setup is slow.
const slowSetup = "CAPOLVM_TEST_SLOW_SETUP"

func TestMain(m *testing.M) {
	if pause, err := time.ParseDuration(os.Getenv(slowSetup)); err == nil {
		time.Sleep(pause)
	}

	os.Exit(RunAfterSetup(m))
}

// TestTheTimeOfASetupCountsForTheDeadline runs this binary with a time limit of an hour and a setup of one second.
func TestTheTimeOfASetupCountsForTheDeadline(t *testing.T) {
	if os.Getenv(slowSetup) != "" {
		end, limited := t.Deadline()
		check.Equal(t, "it has a deadline", limited, true)

		if left := time.Until(end); left > time.Hour-time.Second {
			t.Errorf("%s are left of the hour", left)
		}

		return
	}

	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1h")
	command.Env = append(os.Environ(), slowSetup+"=1s")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, output)
	}
}

func TestASetupThatTakesAllTheTimeLeavesSome(t *testing.T) {
	check.Equal(t, "what is left", leftOf(time.Minute, time.Hour), time.Second)
}
