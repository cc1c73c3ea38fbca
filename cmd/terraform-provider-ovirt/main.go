// Command terraform-provider-ovirt is the oVirt Terraform provider of this project as a stand-alone plugin.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

func main() {
	debug := flag.Bool("debug", false, "wait for a debugger and print how to attach Terraform")
	flag.Parse()
	err := providerserver.Serve(context.Background(),
		func() provider.Provider { return tfprovider.New(tfprovider.Options{}) },
		providerserver.ServeOpts{Address: tfprovider.Address, Debug: *debug, ProtocolVersion: 5})
	if err != nil {
		log.Fatal(err)
	}
}
