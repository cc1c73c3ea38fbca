package controllers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testssh"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
)

// withJumpHost returns a site with a jump host and a separate user of the engine for it.
func withJumpHost(t *testing.T, keys ...string) *site {
	t.Helper()
	inventory := ovirtsim.DefaultInventory()
	inventory.Users = append(inventory.Users, ovirtsim.User{Name: "jump@internal", Password: "jump-password"})
	s := newSiteIn(t, inventory, nil)
	s.support(infrav1alpha1.OLVMSupportServicesSpec{JumpHost: &infrav1alpha1.SupportJumpHost{
		AuthorizedKeys:              keys,
		NodeKeysSecretName:          "node-keys",
		EngineCredentialsSecretName: "jump-creds",
		SupportVM:                   infrav1alpha1.SupportVM{MachineTemplateName: "lb"},
	}})
	s.Create(&corev1.Secret{ObjectMeta: s.NewMeta("jump-creds"), StringData: map[string]string{
		"username": "jump@internal", "password": "jump-password", infrav1.AllowedServerURLsKey: s.Sim.URL(),
	}})

	return s
}

// host sends the request that the command host sends on a jump host, with the token of a support service's machine.
func (s *site) host(machine, method, path string) (int, string) {
	s.T.Helper()
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: s.Namespace, Name: support.SecretName(machine)}
	check.Error(s.T, s.Client.Get(context.Background(), key, &secret), "")
	var authority corev1.Secret
	check.Error(s.T, s.Client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "authority"},
		&authority), "")
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Data["tls.crt"])

	request, err := http.NewRequestWithContext(context.Background(), method,
		suite.userDataURL+"/v1/hosts/"+s.Namespace+"/"+machine+path, nil)
	check.Error(s.T, err, "")
	request.Header.Set("Authorization", "Bearer "+userdataserver.HostToken(string(secret.Data["token"])))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	check.Error(s.T, err, "")
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check.Error(s.T, err, "")

	return response.StatusCode, string(body)
}

// TestAJumpHostKnowsTheMachinesOfItsCluster (row 53) lets a jump host list the machines of its cluster, and reboot them
// with an engine user of its own.
func TestAJumpHostKnowsTheMachinesOfItsCluster(t *testing.T) {
	public, private := testssh.NewKey(t)
	s := withJumpHost(t, public)
	s.expectServiceFailure(`spec.jumpHost.nodeKeysSecretName: there is no Secret "node-keys"`)

	s.Create(&corev1.Secret{ObjectMeta: s.NewMeta("node-keys"), Data: map[string][]byte{"id": private}})
	m := s.CreateMachine("one", nil)
	s.ExpectProvisioned(m)
	status := s.service("jump-host")
	check.Equal(t, "address", status.Address, "10.0.0.30")
	jump := "demo-jump-host-0"
	s.expectConfigured(jump, "ssh.conf", "Host one\n    HostName "+m.Status.Addresses[0].Address+"\n",
		"IdentityFile /etc/capolvm/jump/keys/id\n", "User core\n")
	s.expectConfigured(jump, "authorized_keys", public)
	s.expectConfigured(jump, "key-id", string(private))

	vm, err := s.NewSession().FetchFullVM(t.Context(), s.vmOf(jump))
	check.Error(t, err, "")
	check.Lacks(t, "user data of the jump host", vm.Initialization.CustomScript, "jump-password")

	for _, name := range []string{"node-keys", "jump-creds"} { // clusterctl moves them, and they outlive the cluster
		s.Eventually("Secret "+name+" is held", func() error {
			secret := &corev1.Secret{ObjectMeta: s.NewMeta(name)}
			err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(secret), secret)
			if _, moves := secret.Labels["clusterctl.cluster.x-k8s.io/move"]; err == nil && !moves {
				err = errors.New("clusterctl would leave it behind")
			}

			return err
		})
	}

	code, list := s.host(jump, "GET", "")
	check.Equal(t, "code of the list", code, http.StatusOK)
	check.Contains(t, "list", list, "one")
	check.Lacks(t, "list", list, jump)

	id := s.vmOf("one").String()
	before := s.boots()[id]
	code, said := s.host(jump, "POST", "/one/reboot")
	check.Equal(t, "answer", fmt.Sprint(code, " ", said), "200 one reboots\n")
	s.Eventually("the machine has booted again", func() error {
		if now := s.boots()[id]; now <= before {
			return fmt.Errorf("%d boots, before %d", now, before)
		}

		return nil
	})
	s.expectEvent("one", "Rebooted", "Jump host "+jump+" has asked the guest to reboot")

	code, console := s.host(jump, "POST", "/one/console")
	check.Equal(t, "code of the console", code, http.StatusOK)
	check.Contains(t, "console", console, "[virt-viewer]")

	// The jump host must not reboot machines other than nodes of its cluster.
	code, said = s.host(jump, "POST", "/"+jump+"/reboot")
	check.Equal(
		t, "itself", fmt.Sprint(code, " ", said),
		`409 the cluster has no machine "demo-jump-host-0"; see: host list`+"\n",
	)
	_, err = s.NewSession().UpdateVM(t.Context(), s.vmOf("one"), &engine.VM{Comment: new("somebody else's")})
	check.Error(t, err, "")
	code, said = s.host(jump, "POST", "/one/reboot")
	check.Equal(t, "a VM that is not marked", fmt.Sprint(code, " ", said),
		"409 the VM of one is not marked as this machine's in the engine\n")

	// It must never use the credentials of the manager.
	change(s, &corev1.Secret{ObjectMeta: s.NewMeta("jump-creds")}, func(secret *corev1.Secret) {
		secret.Data["password"] = []byte("another")
	})
	code, said = s.host(jump, "POST", "/one/reboot")
	check.Equal(t, "code with another password", code, http.StatusConflict)
	check.Contains(t, "with another password", said, "engine refuses user \"jump@internal\"")
}

// TestAKeyThatIsNoneIsNamedByItsIndex verifies that a jump host with an invalid key is rejected. Invalid keys could
// lock users out, or let others in.
func TestAKeyThatIsNoneIsNamedByItsIndex(t *testing.T) {
	public, _ := testssh.NewKey(t)
	s := withJumpHost(t, public, "ssh-ed25519 nonsense")

	s.expectServiceFailure("spec.jumpHost.authorizedKeys[1]: it is not a line of authorized_keys")
	change(s, s.services(), func(of *infrav1alpha1.OLVMSupportServices) {
		of.Spec.JumpHost.AuthorizedKeys[1] = `command="sh" ` + public
	})
	s.expectServiceFailure(`authorizedKeys[1]: it has the options command="sh"`)
	s.ExpectEmptyEngine()
}
