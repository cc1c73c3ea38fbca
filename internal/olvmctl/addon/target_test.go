package addon

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAChartGoesToTheContextOfTheCluster has a kubeconfig whose current context is another cluster. Helm's environment
// variables name a third cluster.
func TestAChartGoesToTheContextOfTheCluster(t *testing.T) {
	config := clientcmdapi.NewConfig()
	for _, name := range []string{"prod", "other"} {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + name + ".example.com"}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: name}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}

	config.CurrentContext = "other"
	path := filepath.Join(t.TempDir(), "config")
	check.Error(t, clientcmd.WriteToFile(*config, path), "")

	for name, value := range map[string]string{
		"HELM_KUBECONTEXT": "other", "HELM_KUBEAPISERVER": "https://third.example.com", "HELM_KUBETOKEN": "third",
		"HELM_KUBEASUSER": "third", "HELM_KUBEINSECURE_SKIP_TLS_VERIFY": "true",
	} {
		t.Setenv(name, value)
	}

	for context, want := range map[string]string{"prod": "prod", "other": "other", "": "other"} {
		settings := settingsOf(Target{Kubeconfig: path, Context: context}, "apps")
		got, err := settings.RESTClientGetter().ToRESTConfig()
		check.Error(t, err, "")
		check.Equal(t, "the server", got.Host, "https://"+want+".example.com")
		check.Equal(t, "the user", got.BearerToken, want)
		check.Equal(t, "another user", got.Impersonate.UserName, "")
		check.Equal(t, "insecure", got.Insecure, false)
		check.Equal(t, "the namespace", settings.Namespace(), "apps")
	}
}
