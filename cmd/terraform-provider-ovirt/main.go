// Command terraform-provider-ovirt is the oVirt Terraform provider of this project as a stand-alone plugin.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

func main() {
	debug := flag.Bool("debug", false, "wait for a debugger, and print how to connect Terraform")
	showVersion := flag.Bool("version", false, "print the version and exit")
	flag.Parse()

	if *showVersion {
		fmt.Println(version.FormatLine("terraform-provider-ovirt"))
		return
	}

	sessions := &engine.Sessions{}

	// Terraform asks a plugin to end over its own connection, and Serve returns; others who want it to end send a
	// signal. SIGINT is not among them: it comes with every Ctrl-C, and Terraform decides what follows.
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		tfprovider.Logout(sessions)
		os.Exit(1)
	}()

	err := providerserver.Serve(context.Background(),
		func() provider.Provider { return tfprovider.New(tfprovider.Options{Sessions: sessions}) },
		providerserver.ServeOpts{Address: tfprovider.Address, Debug: *debug, ProtocolVersion: 5})
	tfprovider.Logout(sessions)
	if err != nil {
		log.Fatal(err)
	}
}
