// Package survey asks for what a cluster file needs, and writes the file, with
// the engine's CA and the Secret with its credentials beside it.
//
// The questions and their order are here, once; who answers is an Asker: a
// person at a terminal, or a file. Choices are what the engine has. What a
// cluster file may say is not decided here but by internal/olvmctl/clusterfile, to
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
	"strings"
	"time"
	"unicode"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
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
	DNSServers            string `yaml:"dnsServers"`
	VirtualIP             string `yaml:"virtualIp"`
	IngressVirtualIP      string `yaml:"ingressVirtualIp"`
	BaseDomain            string `yaml:"baseDomain"`
	ControlPlaneAddresses string `yaml:"controlPlaneAddresses"`
	WorkerAddresses       string `yaml:"workerAddresses"`
	ControlPlaneNodes     string `yaml:"controlPlaneNodes"`
	WorkerNodes           string `yaml:"workerNodes"`
	ControlPlaneMemory    string `yaml:"controlPlaneMemory"`
	ControlPlaneCores     string `yaml:"controlPlaneCores"`
	ControlPlaneDisk      string `yaml:"controlPlaneDisk"`
	WorkerMemory          string `yaml:"workerMemory"`
	WorkerCores           string `yaml:"workerCores"`
	WorkerDisk            string `yaml:"workerDisk"`
	WorkerDataDisk        string `yaml:"workerDataDisk"`
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
	// Given is an answer that the environment has, and From is the variable; a person is not asked then.
	Given, From string
	// Secret answers are not shown.
	Secret bool
	// Check says what is wrong with an answer; nil accepts all.
	Check func(string) error
}

// decided reports that there is nothing to ask.
func (q Question) decided() bool { return q.Given != "" || q.Sole && len(q.Choices) == 1 }

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
	// Ask returns the answer to a question, or ErrBack.
	Ask(ctx context.Context, q Question) (string, error)
	// Confirm returns nil where the CA is said to be the engine's. It may return ErrBack.
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
	asker    *memory
	answers  Answers
	defaults clusterfile.File // of what a cluster file does not say
	ca       *x509.Certificate
	client   *engine.Client
	// refusals is how often the engine refused user and password.
	refusals int
	// noTemplate reports that the template is still to be made.
	noTemplate bool
}

// Run asks everything and writes the files. Where it fails, or ctx ends, nothing is written.
func Run(ctx context.Context, asker Asker, options Options) (*Written, error) {
	s := &survey{Options: options, asker: newMemory(asker)}

	written, err := s.run(ctx)
	for errors.Is(err, ErrBack) {
		s.answers = Answers{}
		s.asker.rewind()
		written, err = s.run(ctx)
	}

	s.logout(ctx)

	if ctx.Err() != nil && written == nil {
		return nil, ErrInterrupted
	}

	return written, err
}

// logout ends the session of the engine.
func (s *survey) logout(ctx context.Context) {
	if s.client != nil {
		_ = s.client.Logout(context.WithoutCancel(ctx))
		s.client = nil
	}
}

// run asks everything and writes the files. The error is ErrBack where a person wants the question before: the survey
// is to begin anew then, and comes to it by the answers that are remembered.
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
		return fmt.Errorf("--out: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("--out: %s is not a folder", filepath.Dir(s.Output))
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
		// A file may have an endpoint of another subnet; a person is asked for one of this subnet.
		counts := !p.Warning || p.Path == "virtualIp" || p.Path == "providers.olvm.ingressVirtualIp"
		if counts && !known && !slices.Contains(texts, p.Message) { // both kinds of machines have the same
			texts = append(texts, p.Message)
		}
	}

	if len(texts) == 0 {
		return nil
	}

	return errors.New(strings.Join(texts, "; "))
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
