package clusterfile

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAClusterFileHasTheURLsThatAClientHas expects validate to reject the same URLs as a client of the engine, with the
// same messages. Accepted URLs must have their normalized form everywhere.
func TestAClusterFileHasTheURLsThatAClientHas(t *testing.T) {
	const good = "https://engine.example.com/ovirt-engine"

	for _, url := range []string{
		good, good + "/", good + "/api", good + "/api/", " " + good + " ", "engine.example.com", "//engine.example.com/api",
		good + "/webadmin", good + "/webadmin/?locale=en_US#vms", good + "/api/vms", good + "?a=b",
		"https://admin:s3cret@engine.example.com", "https://admin:s3/cret@engine.example.com", "http://engine.example.com",
		"https://", "ssh://engine", "engine.example.com:99999", "https://engine.example.com/ovirt engine",
	} {
		t.Run(strings.ReplaceAll(url, "/", "|"), func(t *testing.T) {
			s := read(t, "current.yaml", "serverURL: "+good, fmt.Sprintf("serverURL: %q", url))
			problems := s.Validate()
			check.Lacks(t, "problems", texts(problems), "s3")

			_, err := engine.ParseBaseURL(url)
			check.Equal(t, "it is refused", HasErrors(problems), err != nil)

			if err != nil {
				check.Contains(t, "problems", texts(problems), "olvmOvirtAPIServer.serverURL: "+err.Error())
				return
			}

			check.Equal(t, "the URL to write is told",
				strings.Contains(texts(problems), "olvmctl uses "+good+" instead"), url != good)
			check.Equal(t, "the manifests have it", s.templateVariables()["OLVM_SERVER_URL"], good)
			check.Equal(t, "the OLVMCluster has it", s.clusterSpec().OLVMOvirtAPIServer.ServerURL, good)

			objects, err := s.StorageDriver("csi@internal", "secret")
			check.Error(t, err, "")

			secret := decoded[corev1.Secret](t, objects, "Secret", "ovirt-csi-creds")
			check.Equal(t, "the storage driver has it", string(secret.Data["ovirt_url"]), good+"/api")

			var configuration map[string]any
			check.Error(t, kyaml.Unmarshal(secret.Data["ovirt-config.yaml"], &configuration), "")
			check.Equal(t, "so has its configuration", configuration["ovirt_url"], any(good+"/api"))
		})
	}
}
