// Command manager runs the controllers of Cluster API Provider OLVM.
package main

import (
	"os"

	"github.com/capolvm/cluster-api-provider-olvm/cmd/manager/command"
)

func main() { os.Exit(command.Main()) }
