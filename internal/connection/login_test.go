package connection_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// oddPassword has special characters of forms, shells, URLs, YAML, JSON, XML, HCL and terminals.
const oddPassword = `p@ss:w&rd=+%41 $HOME ${x} %{y} "q" 'a' \ #ü€🙂 <a>]]>&amp; `

// TestAnOddPasswordLogsInHoweverItsSecretWasMade logs in with Secrets as kubectl, echo and editors on Windows write
// them. The engine and Terraform get the same password.
func TestAnOddPasswordLogsInHoweverItsSecretWasMade(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{Username: "odd@internal", Password: oddPassword})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	data := func(username, password string) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{"username": []byte(username), "password": []byte(password)}}
	}

	for name, secret := range map[string]*corev1.Secret{
		"as it is":                    data("odd@internal", oddPassword),
		"of echo":                     data("odd@internal\n", oddPassword+"\n"),
		"of a file of Windows":        data("odd@internal\r\n", oddPassword+"\r\n"),
		"with the mark of Windows":    data("\ufeffodd@internal\r\n", "\ufeff"+oddPassword+"\r\n"),
		"with several line breaks":    data("odd@internal\n\n", oddPassword+"\n\n"),
		"with blanks around the user": data(" odd@internal\t", oddPassword),
		"in the format of OpenShift": {
			Data: map[string][]byte{
				"ovirt_username": []byte("odd@internal\n"), "ovirt_password": []byte(oddPassword + "\n"),
			},
		},
		"with an empty key before": {
			Data: map[string][]byte{
				"username": []byte("\n"), "ovirt_username": []byte("odd@internal"), "password": []byte(oddPassword),
			},
		},
		"in stringData": {
			StringData: map[string]string{"username": "odd@internal", "password": oddPassword + "\n"},
		},
		"in stringData beside old data": {
			Data: data("old@internal", "old").Data, StringData: map[string]string{
				"username": "odd@internal", "password": oddPassword,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOfOwn(string(sim.CA()))
			w.server().ServerURL = sim.URL()
			secret.Name = "login"
			w.objects.Secret = secret

			config, err := connection.BuildConfig(connection.ClusterEngine(w.cluster), w.objects)
			check.Error(t, err, "")
			check.Equal(t, "user", config.Username, "odd@internal")
			check.Equal(t, "password", config.Password, oddPassword)

			session, err := engine.New(config)
			check.Error(t, err, "")

			_, err = session.ListVMs(t.Context())
			check.Error(t, err, "")
			check.Equal(t, "the password of Terraform", terraformPassword(t, session, config), oddPassword)
		})
	}
}

// terraformPassword returns the password of a configuration.
func terraformPassword(t *testing.T, session *engine.Client, config engine.Config) string {
	t.Helper()

	configuration, err := render.DestroyConfiguration(connection.RenderEngine(session, config), render.OwnVM)
	check.Error(t, err, "")

	var values map[string]string
	check.Error(t, json.Unmarshal(configuration.Files[render.SecretsFile], &values), "")

	return values["ovirt_password"]
}

// TestAPasswordThatIsNoTextIsRefused uses passwords from files in other encodings. Terraform would get a different
// password.
func TestAPasswordThatIsNoTextIsRefused(t *testing.T) {
	for name, password := range map[string]string{
		"in Latin-1": "s3cret\xfc", "in UTF-16": "\xff\xfes\x003\x00c\x00", "with a NUL": "s3cret\x00",
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOfOwn(certificate(t))
			w.objects.Secret.Data["password"] = []byte(password)

			_, err := connection.BuildConfig(connection.ClusterEngine(w.cluster), w.objects)
			check.Error(t, err, `Secret "login": the password is not text in UTF-8`)
			check.Lacks(t, "error", err.Error(), "s3cret")

			_, err = engine.New(engine.Config{URL: server, Username: "u", Password: password})
			check.Error(t, err, "the password is not text in UTF-8")
		})
	}
}

// TestAControllerTellsTheURLToWrite verifies that the error of a refused URL names the field and the URL to write.
func TestAControllerTellsTheURLToWrite(t *testing.T) {
	for _, url := range []string{
		server + "/webadmin/?locale=en_US#vms", server + "/api/vms", "https://admin:s3cret@engine.example.com",
		"http://engine.example.com",
	} {
		w := worldOfOwn(certificate(t))
		w.server().ServerURL = url

		_, err := connection.BuildConfig(connection.ClusterEngine(w.cluster), w.objects)

		var field *blocker.Error
		check.Equal(t, "it is of a field", errors.As(err, &field), true)
		check.Equal(t, "field", field.Field, "spec.olvmOvirtAPIServer.serverURL")
		check.Equal(t, "the URL to write", strings.HasSuffix(field.Message, "; write "+server), true)
		check.Lacks(t, "message", field.Message, "s3cret")
	}
}
