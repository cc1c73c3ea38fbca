package blocker

import (
	"errors"
	"fmt"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestRemediesNameWhereTheUserLooks covers the errors of unusable engines, for authors of OLVMClusters and of cluster
// files.
func TestRemediesNameWhereTheUserLooks(t *testing.T) {
	file := Places{Credentials: "OLVM_USERNAME and OLVM_PASSWORD", CA: "cluster.yaml: serverCAPath", URL: "cluster.yaml: serverURL"}
	wrong := &engine.AuthError{Username: "admin@internal", Message: "the password is incorrect"}
	locked := &engine.AuthError{
		Username: "admin@internal",
		Message:  "Unable to log in because the user account is disabled or locked. Contact the system administrator.",
	}
	profile := &engine.AuthError{
		Username: "admin@ovirt",
		Message:  "access_denied Cannot authenticate user 'admin@ovirt': No valid profile found in credentials..",
	}
	untrusted := &engine.TLSError{Problem: engine.CertificateOfUnknownAuthority}
	away := &engine.UnreachableError{Err: errors.New("connection refused")}

	const unlock = "have the user unlocked or enabled, or its password renewed, in the engine"

	for name, test := range map[string]struct {
		err                       error
		manifests, ofFile, noWord string
	}{
		"a wrong password": {
			err:       wrong,
			manifests: "password in the Secret of spec.olvmOvirtAPIServer.credentialsSecret",
			ofFile:    "password in OLVM_USERNAME and OLVM_PASSWORD",
			noWord:    "unlock",
		},
		"a profile that is missing": {
			err:       profile,
			manifests: "the user name in the Secret of spec.olvmOvirtAPIServer.credentialsSecret: for example admin@internal, or admin@ovirt@internalsso",
			ofFile:    "Correct the user name in OLVM_USERNAME and OLVM_PASSWORD: for example admin@internal, or admin@ovirt@internalsso",
			noWord:    "and password",
		},
		"a user that is locked": {err: locked, manifests: unlock, ofFile: unlock, noWord: "correct"},
		"another CA": {
			err:       untrusted,
			manifests: "into the ConfigMap of spec.olvmOvirtAPIServer.caConfigMap",
			ofFile:    "into cluster.yaml: serverCAPath",
			noWord:    "password",
		},
		"an engine that is away": {
			err:       away,
			manifests: "check spec.olvmOvirtAPIServer.serverURL and that the engine is up",
			ofFile:    "check cluster.yaml: serverURL and that the engine is up",
			noWord:    "password",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, inCondition := ExplainEngineError(fmt.Errorf("machine a: %w", test.err))
			check.Contains(t, "the condition", inCondition, test.manifests)

			explained := AddRemedy(fmt.Errorf("machine a: %w", test.err), file)
			check.Contains(t, "the command", explained.Error(), test.ofFile)
			check.Lacks(t, "the command", explained.Error(), test.noWord)
			check.Lacks(t, "the command", explained.Error(), "Secret")
			check.Equal(t, "the command, explained twice", AddRemedy(explained, file).Error(), explained.Error())
			check.Equal(t, "the cause is kept", errors.Is(explained, test.err), true)
		})
	}

	other := errors.New("no such template")
	check.Equal(t, "what the engine itself says", AddRemedy(other, file), other)
}
