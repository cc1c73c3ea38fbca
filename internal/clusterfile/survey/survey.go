// Package survey asks for what a cluster file needs, and writes the file, with
// the engine's CA and the Secret with its credentials beside it.
//
// The questions and their order are here, once; who answers is an Asker: a
// person at a terminal, or a file. Choices are what the engine has. What a
// cluster file may say is not decided here but by internal/clusterfile, to
// which every answer is given at once.
package survey

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ipam"
)

// ErrInterrupted ends a survey that its user ended.
var ErrInterrupted = errors.New("interrupted; nothing is written")

// logins is how often user and password are asked for. oVirt's internal domain locks a user after five wrong ones.
const logins = 3

// Answers in the order of the questions, by the keys of a file with answers.
type Answers struct {
	// Engine is a name with or without a port, or a URL. CAFingerprint is the SHA-256 of its CA, which is asked for
	// where the system's CAs do not verify it.
	Engine        string `yaml:"engine"`
	CAFingerprint string `yaml:"caFingerprint"`
	User          string `yaml:"user"`
	Password      string `yaml:"password"`
	// Names in the engine. VNICProfile is not asked for where the network has one.
	DataCenter    string `yaml:"dataCenter"`
	Cluster       string `yaml:"cluster"`
	Template      string `yaml:"template"`
	Network       string `yaml:"network"`
	VNICProfile   string `yaml:"vnicProfile"`
	StorageDomain string `yaml:"storageDomain"`
	// What follows is as in a cluster file.
	Name                  string `yaml:"name"`
	KubernetesVersion     string `yaml:"kubernetesVersion"`
	Subnet                string `yaml:"subnet"`
	Gateway               string `yaml:"gateway"`
	VirtualIP             string `yaml:"virtualIp"`
	ControlPlaneAddresses string `yaml:"controlPlaneAddresses"`
	WorkerAddresses       string `yaml:"workerAddresses"`
	ControlPlaneNodes     string `yaml:"controlPlaneNodes"`
	WorkerNodes           string `yaml:"workerNodes"`
	ControlPlaneMemory    string `yaml:"controlPlaneMemory"`
	ControlPlaneCores     string `yaml:"controlPlaneCores"`
	WorkerMemory          string `yaml:"workerMemory"`
	WorkerCores           string `yaml:"workerCores"`
	// SSHPublicKey is the key itself; the answer may be a file with it.
	SSHPublicKey string `yaml:"sshPublicKey"`
}

// Question is one that an Asker puts.
type Question struct {
	// Key of the answer in a file.
	Key string
	// Title is what is asked, Help what one has to know for it, with an example.
	Title, Help string
	// Choices are the only answers; empty means that any text is one.
	Choices []string
	// Sole reports that a single choice is taken without a question.
	Sole bool
	// Default is the answer of who gives none. Optional reports that none is an answer, too.
	Default  string
	Optional bool
	// Secret answers are not shown.
	Secret bool
	// Check says what is wrong with an answer; nil accepts all.
	Check func(string) error
}

// accept returns the answer that a text is: without space around it, or the default.
func (q Question) accept(text string) (string, error) {
	if !q.Secret {
		text = strings.TrimSpace(text)
	}

	if text == "" {
		text = q.Default
	}

	switch {
	case text == "" && q.Optional:
		return "", nil
	case text == "":
		return "", errors.New("it is required")
	case len(q.Choices) > 0 && !slices.Contains(q.Choices, text):
		return "", fmt.Errorf("%q is none of what there is: %s", text, strings.Join(q.Choices, ", "))
	case q.Check != nil:
		return text, q.Check(text)
	}

	return text, nil
}

// Asker puts questions. Its answers are accepted ones.
type Asker interface {
	// Ask returns the answer to a question.
	Ask(ctx context.Context, q Question) (string, error)
	// Confirm returns nil where the CA is said to be the engine's.
	Confirm(ctx context.Context, ca *x509.Certificate) error
	// Again says why an answer that could be checked by its use alone did not do. It returns nil where another one can
	// be given.
	Again(key string, reason error) error
}

// Options of a survey.
type Options struct {
	// Output is the cluster file. What goes with it is written to the same folder.
	Output string
	// Force overwrites files.
	Force bool
	// Defaults is the user's file with defaults for cluster files; empty for none.
	Defaults string
}

// survey is one that is under way.
type survey struct {
	Options
	asker    Asker
	answers  Answers
	defaults clusterfile.File // of what a cluster file does not say
	ca       *x509.Certificate
	client   *engine.Client
	// noTemplate reports that the template is still to be made.
	noTemplate bool
}

// Run asks everything and writes the files. Where it fails, or ctx ends, nothing is written.
func Run(ctx context.Context, asker Asker, options Options) (*Written, error) {
	s := &survey{Options: options, asker: asker}
	written, err := s.run(ctx)
	if s.client != nil {
		_ = s.client.Logout(context.WithoutCancel(ctx))
	}

	if ctx.Err() != nil && written == nil {
		return nil, ErrInterrupted
	}

	return written, err
}

func (s *survey) run(ctx context.Context) (*Written, error) {
	if err := s.prepare(); err != nil {
		return nil, err
	}

	for _, ask := range []func(context.Context) error{s.askEngine, s.askLogin, s.askPlacement, s.askCluster,
		s.askMachines} {
		if err := ask(ctx); err != nil {
			return nil, err
		}
	}

	return s.write(ctx)
}

// prepare finds what would make all answers useless.
func (s *survey) prepare() error {
	if info, err := os.Stat(filepath.Dir(s.Output)); err != nil {
		return fmt.Errorf("--output: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("--output: %s is not a folder", filepath.Dir(s.Output))
	}

	if err := s.free(filepath.Base(s.Output)); err != nil {
		return err
	}

	empty, err := clusterfile.Parse(s.Output, nil, s.Defaults)
	if err != nil {
		return err
	}

	for _, p := range empty.Validate() {
		if p.File == s.Defaults && !p.Warning {
			return p
		}
	}

	s.defaults = empty.File

	return nil
}

// free reports whether a file can be written to the folder of the output.
func (s *survey) free(name string) error {
	path := filepath.Join(filepath.Dir(s.Output), name)

	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is there, and not a file; choose another name", path)
	case !s.Force:
		return fmt.Errorf("%s is there already; choose another name, or overwrite it with --force", path)
	}

	return nil
}

// freeBeside is free for the files of a cluster of that name.
func (s *survey) freeBeside(name string) error {
	beside := []string{s.answers.secretFile(name)}
	if s.ca != nil {
		beside = append(beside, s.answers.caFile(name))
	}

	for _, file := range beside {
		if file == filepath.Base(s.Output) {
			return fmt.Errorf("%s is the cluster file's name; choose another name", file)
		}

		if err := s.free(file); err != nil {
			return err
		}
	}

	return nil
}

// ask puts a question whose answer goes to a field, and has the cluster file with it checked.
func (s *survey) ask(ctx context.Context, field *string, q Question) error {
	*field = ""
	before, check := s.problems(s.answers), q.Check
	q.Check = func(text string) error {
		if check != nil {
			if err := check(text); err != nil {
				return err
			}
		}

		*field = text
		after := s.problems(s.answers)
		*field = ""

		return newProblems(before, after)
	}
	text, err := s.asker.Ask(ctx, q)
	if err != nil {
		return err
	}

	*field = text

	return nil
}

// problems are those of the cluster file so far.
func (s *survey) problems(a Answers) []clusterfile.Problem {
	content, err := a.file("")
	if err == nil {
		var read *clusterfile.Source
		if read, err = clusterfile.Parse(s.Output, content, s.Defaults); err == nil {
			return read.Validate()
		}
	}

	return []clusterfile.Problem{{Message: err.Error()}}
}

// newProblems are those that an answer brought; the others are of questions to come.
func newProblems(before, after []clusterfile.Problem) error {
	var texts []string

	for _, p := range after {
		known := slices.ContainsFunc(before, func(b clusterfile.Problem) bool {
			return b.Path == p.Path &&
				b.Message == p.Message
		})
		if !p.Warning && !known && !slices.Contains(texts, p.Message) { // both kinds of machines have the same
			texts = append(texts, p.Message)
		}
	}

	if len(texts) == 0 {
		return nil
	}

	return errors.New(strings.Join(texts, "; "))
}

// askEngine finds the engine, and what its certificate is verified with.
func (s *survey) askEngine(ctx context.Context) error {
	var trusted bool

	for {
		err := s.ask(ctx, &s.answers.Engine, Question{
			Key: "engine", Title: "Engine", Help: "Its name with or without a port, or its URL: engine.example.com",
			Check: func(text string) error { _, err := engine.BaseURL(text); return err },
		})
		if err != nil {
			return err
		}

		if s.ca, trusted, err = engine.Authority(ctx, s.answers.Engine); err == nil {
			break
		}

		err = s.again(ctx, "engine", fmt.Errorf("%w; correct its name, and see that it can be reached from here", err))
		if err != nil {
			return err
		}
	}

	if trusted {
		s.ca = nil
		return nil
	}

	if err := s.asker.Confirm(ctx, s.ca); err != nil {
		return err
	}

	s.answers.CAFingerprint = Fingerprint(s.ca)

	return untrusted(engine.Verify(ctx, s.answers.Engine, s.ca))
}

// untrusted adds what to do about an engine that the confirmed CA does not verify.
func untrusted(err error) error {
	var refused *engine.TLSError

	var name x509.HostnameError
	switch {
	case errors.As(err, &name):
		return fmt.Errorf("%w; name the engine as its certificate does", err)
	case errors.As(err, &refused):
		return fmt.Errorf(
			"%w; the CA did not sign the certificate that was shown, so this may not be the "+
				"engine: no password was sent. "+
				"Where another CA signed it on purpose, make the system trust that one",
			err,
		)
	}

	return err
}

// again is the asker's, unless the user ended the survey.
func (s *survey) again(ctx context.Context, key string, reason error) error {
	if ctx.Err() != nil {
		return ErrInterrupted
	}

	return s.asker.Again(key, reason)
}

// askLogin asks for user and password until the engine takes them.
func (s *survey) askLogin(ctx context.Context) error {
	user := "admin@internal"
	for try := 1; ; try++ {
		err := s.ask(ctx, &s.answers.User, Question{Key: "user", Title: "User", Help: "With its domain", Default: user})
		if err != nil {
			return err
		}

		err = s.ask(ctx, &s.answers.Password, Question{Key: "password", Title: "Password", Secret: true})
		if err != nil {
			return err
		}

		config := engine.Config{URL: s.answers.Engine, Username: s.answers.User, Password: s.answers.Password}
		if s.ca != nil {
			config.CA = encodeCA(s.ca)
		}

		client, err := engine.New(config)
		if err == nil {
			s.client = client
			_, err = client.Product(ctx)
		}

		var refused *engine.AuthError
		switch {
		case !errors.As(err, &refused):
			return untrusted(err)
		case try == logins:
			return fmt.Errorf("%w; these were %d tries, and more of them may lock the user", refused, logins)
		}

		if err := s.again(ctx, "password", refused); err != nil {
			return err
		}

		user = s.answers.User
	}
}

// named are the names of items, sorted, each once.
func named[T any](items []T, name func(T) string) []string {
	var out []string
	for _, item := range items {
		out = append(out, name(item))
	}

	slices.Sort(out)

	return slices.Compact(out)
}

// choose asks for one of the items by its name.
func choose[T any](
	ctx context.Context, s *survey, field *string, items []T, name func(T) string, q Question,
) (*T, error) {
	if q.Choices = named(items, name); len(q.Choices) == 0 {
		return nil, fmt.Errorf("%s: the engine has none that can be used; make one (%s)", q.Key, q.Help)
	}

	if err := s.ask(ctx, field, q); err != nil {
		return nil, err
	}

	return &items[slices.IndexFunc(items, func(item T) bool { return name(item) == *field })], nil
}

// askPlacement asks where in the engine the cluster is to be, and of which template.
func (s *survey) askPlacement(ctx context.Context) error {
	a := &s.answers
	centers, err := s.client.DataCenters(ctx)
	if err != nil {
		return err
	}

	dc, err := choose(ctx, s, &a.DataCenter, centers, func(d engine.DataCenter) string { return d.Name }, Question{
		Key:   "dataCenter",
		Title: "Data center",
		Help:  "The engine's",
	})
	if err != nil {
		return err
	}

	clusters, err := s.client.Clusters(ctx, dc)
	if err != nil {
		return err
	}

	cluster, err := choose(ctx, s, &a.Cluster, clusters, func(c engine.Cluster) string { return c.Name }, Question{
		Key:   "cluster",
		Title: "Cluster",
		Help:  fmt.Sprintf("Hosts of data center %q, on which the machines run", dc.Name),
	})
	if err != nil {
		return err
	}

	if err := s.askTemplate(ctx, cluster); err != nil {
		return err
	}

	if err := s.askNICs(ctx, cluster); err != nil {
		return err
	}

	domains, err := s.client.StorageDomains(ctx, dc)
	if err != nil {
		return err
	}

	_, err = choose(ctx, s, &a.StorageDomain, domains, func(d engine.StorageDomain) string { return d.Name }, Question{
		Key:   "storageDomain",
		Title: "Storage domain",
		Help:  fmt.Sprintf("For images, in data center %q", dc.Name),
	})

	return err
}

// askTemplate asks for the template. One that is not there yet may be named.
func (s *survey) askTemplate(ctx context.Context, cluster *engine.Cluster) error {
	templates, err := s.client.ClusterTemplates(ctx, cluster)
	if err != nil {
		return err
	}

	names := named(templates, func(t engine.Template) string { return t.Name })
	help := "Of which the machines are made"
	if s.noTemplate = len(names) == 0; s.noTemplate {
		help = fmt.Sprintf("Cluster %q has none yet. Name the one that olvmctl image template is to make of an image "+
			"afterwards: ock-1.33", cluster.Name)
	}

	return s.ask(ctx, &s.answers.Template, Question{
		Key:     "template",
		Title:   "Template",
		Help:    help,
		Choices: names,
	})
}

// askNICs asks for the network and its vNIC profile.
func (s *survey) askNICs(ctx context.Context, cluster *engine.Cluster) error {
	networks, err := s.client.ClusterNetworks(ctx, cluster)
	if err != nil {
		return err
	}

	profiles, err := s.client.NetworkProfiles(ctx)
	if err != nil {
		return err
	}

	networks = slices.DeleteFunc(networks, func(n engine.Network) bool { return len(profiles[n.ID]) == 0 })
	network, err := choose(ctx, s, &s.answers.Network, networks, func(n engine.Network) string {
		return n.Name
	}, Question{
		Key:   "network",
		Title: "Network",
		Help:  fmt.Sprintf("A network of cluster %q for VMs, with a vNIC profile", cluster.Name),
	})
	if err != nil {
		return err
	}

	_, err = choose(ctx, s, &s.answers.VNICProfile, profiles[network.ID], func(p engine.VNICProfile) string {
		return p.Name
	}, Question{
		Key: "vnicProfile", Title: "vNIC profile", Help: fmt.Sprintf("Of network %q", network.Name), Sole: true})

	return err
}

// askCluster asks for the cluster's name and version, and for its addresses.
func (s *survey) askCluster(ctx context.Context) error {
	a := &s.answers
	for _, q := range []struct {
		field *string
		Question
	}{
		{&a.Name, Question{
			Key:   "name",
			Title: "Name of the cluster",
			Help:  "Small letters, digits and -: prod",
			Check: func(text string) error {
				return s.freeBeside(text)
			},
		}},
		{&a.KubernetesVersion, Question{
			Key:     "kubernetesVersion",
			Title:   "Kubernetes version",
			Help:    "With or without the patch, as the template has it",
			Default: s.defaults.KubernetesVersion,
		}},
		{&a.Subnet, Question{Key: "subnet", Title: "Subnet", Help: "Of all machines: 10.20.30.0/24"}},
	} {
		if err := s.ask(ctx, q.field, q.Question); err != nil {
			return err
		}
	}

	first := ""
	if pool, err := ipam.NewIPv4(a.Subnet, "", []string{a.Subnet}); err == nil {
		first = pool.Gateway.String()
	}

	for _, q := range []struct {
		field *string
		Question
	}{
		{&a.Gateway, Question{Key: "gateway", Title: "Gateway", Help: "Of the subnet", Default: first}},
		{&a.VirtualIP, Question{
			Key:   "virtualIp",
			Title: "Control plane endpoint",
			Help:  "An address of the subnet that nothing else has: 10.20.30.5",
		}},
		{&a.ControlPlaneAddresses, Question{
			Key:   "controlPlaneAddresses",
			Title: "Addresses of the control plane",
			Help:  "Addresses, ranges and CIDR blocks, one more than machines: 10.20.30.10-10.20.30.19",
		}},
		{&a.WorkerAddresses, Question{
			Key:   "workerAddresses",
			Title: "Addresses of the workers",
			Help:  "Addresses, ranges and CIDR blocks, one more than machines: 10.20.30.100-10.20.30.149",
		}},
	} {
		if err := s.ask(ctx, q.field, q.Question); err != nil {
			return err
		}
	}

	return nil
}

// number reports whether a text is a number of things; zero stands for the default in a cluster file.
func number(text string) error {
	if n, err := strconv.ParseInt(text, 10, 32); err != nil || n < 1 {
		return fmt.Errorf("%q is not a number from 1 on", text)
	}

	return nil
}

// askMachines asks for how many machines there are, how large, and who logs in to them.
func (s *survey) askMachines(ctx context.Context) error {
	a := &s.answers
	control := s.defaults.Providers.OLVM.ControlPlaneMachine.VirtualMachine
	worker := s.defaults.Providers.OLVM.WorkerMachine.VirtualMachine

	cores := func(of clusterfile.VirtualMachine) string {
		return strconv.Itoa(int(of.CPU.Topology.Cores * of.CPU.Topology.Sockets))
	}
	for _, q := range []struct {
		field *string
		Question
	}{
		{&a.ControlPlaneNodes, Question{
			Key:     "controlPlaneNodes",
			Title:   "Machines of the control plane",
			Help:    "An odd number",
			Default: strconv.Itoa(s.defaults.ControlPlaneNodes),
			Check:   number,
		}},
		{&a.WorkerNodes, Question{
			Key:     "workerNodes",
			Title:   "Workers",
			Help:    "How many",
			Default: strconv.Itoa(s.defaults.WorkerNodes),
			Check:   number,
		}},
		{&a.ControlPlaneMemory, Question{
			Key:     "controlPlaneMemory",
			Title:   "Memory of a control plane machine",
			Help:    "A number with a unit",
			Default: control.Memory,
		}},
		{&a.ControlPlaneCores, Question{
			Key:     "controlPlaneCores",
			Title:   "Cores of a control plane machine",
			Help:    "How many",
			Default: cores(control),
			Check:   number,
		}},
		{&a.WorkerMemory, Question{
			Key:     "workerMemory",
			Title:   "Memory of a worker",
			Help:    "A number with a unit",
			Default: worker.Memory,
		}},
		{&a.WorkerCores, Question{
			Key:     "workerCores",
			Title:   "Cores of a worker",
			Help:    "How many",
			Default: cores(worker),
			Check:   number,
		}},
	} {
		if err := s.ask(ctx, q.field, q.Question); err != nil {
			return err
		}
	}

	return s.askKey(ctx)
}

// askKey asks for the key itself or for a file with it; the cluster file has the key.
func (s *survey) askKey(ctx context.Context) error {
	field := &s.answers.SSHPublicKey
	before := s.problems(s.answers)
	text, err := s.asker.Ask(ctx, Question{
		Key:   "sshPublicKey",
		Title: "SSH key",
		Help: "Public key for the user ocne of the machines, or a file with it; empty for " +
			"none: ~/.ssh/id_ed25519.pub",
		Optional: true,
		Check: func(text string) error {
			key, err := sshKey(text)
			if err != nil {
				return err
			}

			*field = key
			after := s.problems(s.answers)
			*field = ""

			return newProblems(before, after)
		},
	})
	if err == nil && text != "" {
		*field, err = sshKey(text)
	}

	return err
}

// sshKey is a key, or what a file with one has: a key has spaces.
func sshKey(text string) (string, error) {
	if strings.Contains(text, " ") {
		return text, nil
	}

	path := text
	if rest, ok := strings.CutPrefix(text, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}

		path = filepath.Join(home, rest)
	}

	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%w; write the public key itself, or a file with it", err)
	}

	return strings.TrimSpace(string(content)), nil
}

// Fingerprint is the SHA-256 of a certificate as openssl prints it.
func Fingerprint(certificate *x509.Certificate) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(certificate.Raw)), " ", ":")
}

// describe is what a person compares of a CA. It comes from somebody who is not trusted yet, and must not steer the
// terminal.
func describe(ca *x509.Certificate) (subject, validity, fingerprint string) {
	subject = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}

		return '?'
	}, ca.Subject.String())

	return subject, ca.NotBefore.UTC().
			Format(time.DateOnly) +
			" to " + ca.NotAfter.UTC().
			Format(time.DateOnly),
		Fingerprint(
			ca,
		)
}

func encodeCA(ca *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
}
