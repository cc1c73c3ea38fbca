// Command manager runs the controllers of Cluster API Provider OLVM.
package main

import (
	"os"

	"github.com/capolvm/cluster-api-provider-olvm/cmd/manager/command"
	"github.com/capolvm/cluster-api-provider-olvm/internal/providerprocess"
)

func main() {
	providerprocess.RunIfChild()
	os.Exit(command.Main())
}
