package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
)

// accessFlags configure the credentials and the CA of the engine.
type accessFlags struct {
	caFile, credentials string
	// bound restricts the credentials to the engines named with them. Commands that read manifests set it, because the
	// manifests may come from a stranger. Commands that read a cluster file do not, because the file belongs to the
	// user.
	bound bool
}

func (a *accessFlags) addFlags(set *pflag.FlagSet) {
	set.StringVar(&a.caFile, "ca-file", "",
		"PEM file with the engine's CA; overrides the CA in the manifests or in the cluster file")
	set.StringVar(&a.credentials, "credentials", "",
		"file with a Secret with the engine's username and password; overrides OLVM_USERNAME and OLVM_PASSWORD")
}

//nolint:gosec // a help text
const credentialsHelp = `olvmctl connects to the engine in the OLVMCluster, with the credentials in the Secret and
the CA in the ConfigMap of the manifests. To override the credentials, set OLVM_USERNAME and
OLVM_PASSWORD, or use --credentials. To override the CA, use --ca-file. olvmctl sends these
credentials only to an engine listed in OLVM_URL, or in allowedServerURLs in the file of
--credentials, and only if the engine's certificate is valid.`

// loadCredentials reads the credentials from files and from the environment. Missing values are empty. clusterFile is
// the path of the cluster file. It is empty if the command reads manifests.
func (a *accessFlags) loadCredentials(clusterFile string) (preview.Credentials, error) {
	var out preview.Credentials
	out.Username, out.Password = engine.CleanLogin(os.Getenv("OLVM_USERNAME"), os.Getenv("OLVM_PASSWORD"))
	out.ServerURLs = strings.FieldsFunc(os.Getenv("OLVM_URL"), func(r rune) bool {
		return r == ',' || unicode.IsSpace(r)
	})
	out.Anywhere = !a.bound
	out.Places = a.credentialPlaces(clusterFile, out.Username != "" || a.credentials != "")

	if a.credentials != "" {
		var err error
		var urls []string
		if out.Username, out.Password, urls, err = readCredentials(a.credentials); err != nil {
			return out, fmt.Errorf("--credentials: %w", err)
		}

		if len(urls) > 0 {
			out.ServerURLs = urls
		}
	}

	if (out.Username == "") != (out.Password == "") {
		return out, errors.New("OLVM_USERNAME and OLVM_PASSWORD must be set together")
	}

	if a.caFile != "" {
		var err error
		if out.CA, err = os.ReadFile(a.caFile); err != nil {
			return out, fmt.Errorf("--ca-file: %w", err)
		}
	}

	return out, nil
}

// credentialPlaces returns where the user can correct the connection to the engine: in the cluster file, or else in the
// manifests. given reports whether the credentials come from outside the manifests.
func (a *accessFlags) credentialPlaces(clusterFile string, given bool) blocker.Places {
	out := blocker.Places{CA: blocker.OfManifests.CA + ", or use --ca-file"}

	if clusterFile != "" {
		const server = ": providers.olvm.olvmOvirtAPIServer."
		out.CA, out.URL = clusterFile+server+"serverCAPath", clusterFile+server+"serverURL"
	}

	if clusterFile != "" || given {
		out.Credentials = a.describeSource()
	}

	if a.caFile != "" {
		out.CA = "--ca-file"
	}

	return out
}

// describeSource describes the source of the credentials for error messages.
func (a *accessFlags) describeSource() string {
	if a.credentials != "" {
		return "--credentials"
	}

	return "OLVM_USERNAME and OLVM_PASSWORD"
}

// readCredentials reads a Secret in the format written by olvmctl init. It returns the login and the URLs of its
// engines.
func readCredentials(path string) (username, password string, urls []string, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", "", nil, err
	}

	if content, err = manifest.DecodeText(content); err != nil {
		return "", "", nil, fmt.Errorf("%s: %w", path, err)
	}

	var secret corev1.Secret
	if err := yaml.UnmarshalStrict(content, &secret); err != nil {
		return "", "", nil, fmt.Errorf("%s is not a Secret manifest: %w", path, err)
	}

	username, password = connection.GetLogin(&secret)
	if secret.Kind != "Secret" || username == "" || password == "" {
		return "", "", nil, fmt.Errorf("%s is not a Secret manifest with username and password", path)
	}

	return username, password, connection.AllowedServerURLs(&secret), nil
}
