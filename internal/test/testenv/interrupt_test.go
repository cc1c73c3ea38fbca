package testenv

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// interrupted is the environment variable of the process that a test interrupts.
const interrupted = "CAPOLVM_TEST_INTERRUPTED"

func TestAnInterruptTidiesUpInReverse(t *testing.T) {
	if os.Getenv(interrupted) != "" {
		OnInterrupt(func() { fmt.Println("first") })
		OnInterrupt(func() { fmt.Println("second") })
		fmt.Println("ready")

		select {}
	}

	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), interrupted+"=1")
	output, err := command.StdoutPipe()
	check.Error(t, err, "")
	check.Error(t, command.Start(), "")

	lines := bufio.NewReader(output)
	line, err := lines.ReadString('\n')
	check.Error(t, err, "")
	check.Equal(t, "the first line", line, "ready\n")
	check.Error(t, command.Process.Signal(syscall.SIGTERM), "")

	rest, err := io.ReadAll(lines)
	check.Error(t, err, "")
	check.Equal(t, "what is tidied up", string(rest), "second\nfirst\n")
	check.Error(t, command.Wait(), "exit status 1")
}
