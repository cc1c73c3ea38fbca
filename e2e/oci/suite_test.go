// Package oci creates clusters on a fake of Oracle Cloud with olvmctl, Cluster API's managers and Cluster API Provider
// OCI.
package oci

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capolvm/cluster-api-provider-olvm/e2e/oci/fakeoci"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/guest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// These constants are the user of the cloud and the user's resources.
const (
	tenancy  = "ocid1.tenancy.oc1..aaaa"
	user     = "ocid1.user.oc1..bbbb"
	region   = "us-ashburn-1"
	endpoint = "127.30.0.5"
)

// suite holds what all tests share: programs, two management clusters, and what clouds need.
var suite struct {
	tools  *toolchain.Toolchain
	dir    string
	binDir string
	// plane is the management cluster. other is another management cluster, and also the API server of the created
	// clusters.
	plane, other *localplane.Plane
	// cloud is the cloud that the managers use.
	cloud *fakeoci.Server
	// key and fingerprint belong to the user.
	key         []byte
	fingerprint string
}

func TestMain(m *testing.M) {
	flag.Parse()

	if testing.Short() {
		os.Exit(m.Run()) // each test skips itself
	}

	ctrl.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	testenv.CollectLessGarbage()

	ctx := context.Background()
	if suite.tools, err = toolchain.New(); err != nil {
		return 0, err
	}

	suite.dir = filepath.Join(toolchain.CacheDir(), "e2e", "oci-"+time.Now().Format("20060102-150405"))
	suite.binDir = filepath.Join(suite.dir, "bin")
	if err := suite.tools.BuildProject(ctx, suite.binDir, "olvmctl"); err != nil {
		return 0, err
	}

	if err := makeKey(); err != nil {
		return 0, err
	}

	if suite.other, err = startPlane(ctx, "other"); err != nil {
		return 0, err
	}

	defer suite.other.Stop()

	guests, err := guest.New(logr.Discard())
	if err != nil {
		return 0, err
	}
	defer guests.Close()

	if err := guests.UseBackend("", suite.other.Config); err != nil {
		return 0, err
	}

	suite.cloud = fakeoci.Start(settings(guests))
	defer suite.cloud.Close()

	if suite.plane, err = startPlane(ctx, "plane"); err != nil {
		return 0, err
	}

	defer suite.plane.Stop()

	trust := filepath.Join(suite.dir, "cloud.pem")
	if err := os.WriteFile(trust, suite.cloud.CA(), 0o600); err != nil {
		return 0, err
	}

	for _, plane := range []*localplane.Plane{suite.plane, suite.other} {
		if err := plane.StartOCI(ctx, "SSL_CERT_FILE="+trust); err != nil {
			return 0, err
		}
	}

	if code = testenv.RunAfterSetup(m); code != 0 {
		fmt.Printf("e2e/oci: the logs of all processes are in %s\n", suite.dir)
	} else {
		_ = os.RemoveAll(suite.dir)
	}

	return code, nil
}

func startPlane(ctx context.Context, name string) (*localplane.Plane, error) {
	return localplane.Start(ctx, localplane.Options{
		Tools:      suite.tools,
		Dir:        filepath.Join(suite.dir, name),
		NoProvider: true,
		Progress:   func(format string, args ...any) { fmt.Printf("e2e/oci: "+format+"\n", args...) },
	})
}

// settings returns the settings of a cloud.
func settings(guests *guest.Guests) fakeoci.Settings {
	return fakeoci.Settings{
		Tenancy: tenancy, User: user, Fingerprint: suite.fingerprint, Region: region, RegionKey: "IAD",
		Compartments: []string{
			"parent", "parent/one", "parent/two", "parent/three", "parent/four", "parent/five", "parent/six",
			"parent/my", "parent/my/child",
		},
		Guests: guests, Endpoint: endpoint, Slow: 300 * time.Millisecond,
	}
}

// makeKey creates the key of the user.
func makeKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}

	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}

	suite.key = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})

	var parts []string
	for _, part := range md5.Sum(public) { // this is how Oracle defines the fingerprint of a key
		parts = append(parts, fmt.Sprintf("%02x", part))
	}

	suite.fingerprint = strings.Join(parts, ":")

	return nil
}

// site is a user with a cluster file, olvmctl, a cloud and a home folder.
type site struct {
	t     *testing.T
	cloud *fakeoci.Server
	dir   string
	file  string
	env   []string
}

func skipInShort(t *testing.T) {
	t.Helper()
	testenv.SkipInShort(t, "makes clusters with Cluster API Provider OCI")
}

// newSite returns a site with its own cloud. No managers and no guests use this cloud.
func newSite(t *testing.T) *site {
	t.Helper()
	skipInShort(t)

	cloud := fakeoci.Start(settings(nil))
	t.Cleanup(cloud.Close)

	return siteOn(t, cloud)
}

func siteOn(t *testing.T, cloud *fakeoci.Server) *site {
	t.Helper()
	skipInShort(t)

	s := &site{t: t, cloud: cloud, dir: t.TempDir()}
	s.write(".oci/key.pem", string(suite.key))
	s.write(".oci/config", fmt.Sprintf("[DEFAULT]\nuser=%s\nfingerprint=%s\ntenancy=%s\nregion=%s\nkey_file=%s\n",
		user, suite.fingerprint, tenancy, region, filepath.Join(s.dir, ".oci", "key.pem")))
	s.env = []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + s.dir,
		"XDG_CONFIG_HOME=" + s.dir,
		"XDG_STATE_HOME=" + s.dir,
		"XDG_CACHE_HOME=" + filepath.Dir(toolchain.CacheDir()),
		"KUBECONFIG=",
		testenv.WriteDefaults(t, s.dir),
		"GOPROXY=off",
		"SSL_CERT_FILE=" + s.write("cloud.pem", string(cloud.CA())),
	}

	return s
}

func (s *site) write(name, content string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600))
	if err != nil {
		s.t.Fatal(err)
	}

	return path
}

// clusterFile writes the cluster file. The parameter more contains further lines of the file.
func (s *site) clusterFile(name, compartment string, more ...string) {
	s.t.Helper()
	url := s.cloud.URL()
	s.file = s.write("cluster.yaml", fmt.Sprintf(`name: %s
provider: oci
kubernetesVersion: 1.36.1
%s
providers:
  oci:
    namespace: %s
    compartment: %s
    endpoints: {compute: %q, network: %q, networkLoadBalancer: %q, identity: %q, objectStorage: %q, workRequests: %q}
`, name, strings.Join(more, "\n"), name, compartment, url, url, url, url, url, url))
}

// olvmctl runs the command, and returns its exit code and its output.
func (s *site) olvmctl(args ...string) (code int, out, problems string) {
	s.t.Helper()
	command := exec.CommandContext(context.WithoutCancel(s.t.Context()), filepath.Join(suite.binDir, "olvmctl"), args...)
	command.Env, command.Dir = s.env, s.dir
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if exited := (&exec.ExitError{}); err != nil && !errors.As(err, &exited) {
		s.t.Fatal(err)
	}

	return command.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// does runs olvmctl and returns its output. The command must succeed.
func (s *site) does(args ...string) (out, problems string) {
	s.t.Helper()
	code, out, problems := s.olvmctl(args...)
	if code != 0 {
		s.t.Fatalf("olvmctl %s: exit code %d\n%s\n%s\nthe guests say: %q", strings.Join(args, " "), code, out, problems,
			s.cloud.Console())
	}

	return out, problems
}

// fails runs olvmctl. The command must fail, and print all texts in says.
func (s *site) fails(args []string, says ...string) {
	s.t.Helper()
	code, out, problems := s.olvmctl(args...)
	if code != 1 {
		s.t.Errorf("olvmctl %s: exit code %d, want 1\n%s\n%s", strings.Join(args, " "), code, out, problems)
	}

	for _, text := range says {
		if !strings.Contains(out+problems, text) {
			s.t.Errorf("olvmctl %s does not say %q:\n%s\n%s", strings.Join(args, " "), text, out, problems)
		}
	}
}

// contains fails the test if a text lacks one of the parts.
func contains(t *testing.T, field, text string, parts ...string) {
	t.Helper()

	for _, part := range parts {
		check.Contains(t, field, text, part)
	}
}
