package templates

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// variable matches a variable of clusterctl, possibly standing for a list.
var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// controlPlane is the part of a KubeadmControlPlane, and of its template, read by the tests.
type controlPlane struct {
	KubeadmConfigSpec struct {
		ClusterConfiguration struct {
			APIServer struct {
				ExtraArgs []struct{ Name, Value string }
			}
		}
	}
	Rollout struct {
		Before struct{ CertificatesExpiryDays int }
	}
}

// controlPlanes returns the control planes of all shipped templates, by file.
func controlPlanes(t *testing.T) map[string]controlPlane {
	t.Helper()
	names, err := fs.Glob(Files, "*.yaml")
	check.Error(t, err, "")
	out := map[string]controlPlane{}

	for _, name := range names {
		text, err := fs.ReadFile(Files, name)
		check.Error(t, err, "")

		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var object struct {
				Kind string
				Spec struct {
					controlPlane
					Template struct{ Spec controlPlane }
				}
			}
			check.Error(t, yaml.Unmarshal(variable.ReplaceAll([]byte(document), []byte("0")), &object), "")

			switch object.Kind {
			case "KubeadmControlPlane":
				out[name] = object.Spec.controlPlane
			case "KubeadmControlPlaneTemplate":
				out[name] = object.Spec.Template.Spec
			}
		}
	}

	// The topology uses the ClusterClass's. RKE2 and Kamaji have kinds of their own.
	if len(out) != len(names)-3 {
		t.Fatalf("%d of %d templates have a control plane", len(out), len(names))
	}

	return out
}

// TestNoTokenNamesAUserOrGroupOfKubernetes requires a prefix for each name from a token: otherwise, editors of an
// issuer's directory could become system:masters.
func TestNoTokenNamesAUserOrGroupOfKubernetes(t *testing.T) {
	t.Parallel()
	issuers := 0

	for name, plane := range controlPlanes(t) {
		arguments := map[string]string{}
		for _, argument := range plane.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs {
			arguments[argument.Name] = argument.Value
		}

		if arguments["oidc-issuer-url"] == "" {
			continue
		}

		issuers++

		for _, claim := range []string{"oidc-username", "oidc-groups"} {
			if arguments[claim+"-claim"] != "" {
				check.Equal(t, name+": "+claim+"-prefix", arguments[claim+"-prefix"], "oidc:")
			}
		}
	}

	check.Equal(t, "templates with an issuer", issuers, 1)
}

// TestControlPlanesAreRolledOutBeforeTheirCertificatesExpire expects Cluster API to replace machines once their
// certificates have three weeks left.
func TestControlPlanesAreRolledOutBeforeTheirCertificatesExpire(t *testing.T) {
	t.Parallel()

	for name, plane := range controlPlanes(t) {
		check.Equal(t, name+": days", plane.Rollout.Before.CertificatesExpiryDays, 21)
	}
}

// TestTheHoldersOfServicesOutliveAStallOfEtcd expects the same lease as the endpoint holder's.
func TestTheHoldersOfServicesOutliveAStallOfEtcd(t *testing.T) {
	t.Parallel()
	text, err := fs.ReadFile(Files, "cluster-template-service-load-balancers.yaml")
	check.Error(t, err, "")

	for _, want := range []string{
		`vip_leaseduration, value: "15"`, `vip_renewdeadline, value: "10"`, `vip_retryperiod, value: "2"`,
	} {
		check.Contains(t, "kube-vip", string(text), want)
	}
}

// TestTheSamplesAreRolledOutBeforeTheirCertificatesExpire expects the same of the samples as of the templates.
func TestTheSamplesAreRolledOutBeforeTheirCertificatesExpire(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../samples/*.yaml")
	check.Error(t, err, "")

	planes := 0

	for _, file := range append(files, "../../internal/olvmctl/clusterfile/oci.yaml") {
		content, err := os.ReadFile(file)
		check.Error(t, err, "")

		for object := range strings.SplitSeq(string(content), "\n---\n") {
			if strings.Contains(object, "\nkind: KubeadmControlPlane\n") {
				planes++

				check.Contains(t, file, object, "\n  rollout:\n    before:\n      certificatesExpiryDays: 21\n")
			}
		}
	}

	check.Equal(t, "control planes", planes, 4)
}
