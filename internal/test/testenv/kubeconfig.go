package testenv

import (
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig with a server, and with a token that no server accepts.
func WriteKubeconfig(t *testing.T, path, server string) {
	t.Helper()
	const name = "test"

	config := api.NewConfig()
	config.CurrentContext = name
	config.Clusters[name] = &api.Cluster{Server: server}
	config.AuthInfos[name] = &api.AuthInfo{Token: "none"}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
}
