// Package survey asks the user for the content of a cluster file, and writes the file. It also writes the engine's CA
// and the Secret with the credentials to the same folder.
//
// Only this package defines the questions and their order. An Asker answers them. It is a user at a terminal, or a
// file. The choices come from the engine. The rules for cluster files are in internal/olvmctl/clusterfile. The survey
// checks every answer with these rules at once.
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

// ErrInterrupted is returned if the user has ended the survey.
var ErrInterrupted = errors.New("interrupted; no files were written")

// logins is the maximum number of attempts to log in. oVirt's internal domain locks a user after five wrong passwords.
const logins = 3

// Answers are the answers in the order of the questions. The keys are those of a file with answers.
type Answers struct {
	// Engine is a host name with or without a port, or a URL. CAFingerprint is the SHA-256 fingerprint of its CA. It is
	// needed only if the CAs of the system do not verify the engine.
	Engine        string `yaml:"engine"`
	CAFingerprint string `yaml:"caFingerprint"`
	User          string `yaml:"user"`
	Password      string `yaml:"password"`
	// These are names of objects in the engine. The survey asks for VNICProfile only if the network has several
	// profiles.
	DataCenter    string `yaml:"dataCenter"`
	Cluster       string `yaml:"cluster"`
	Template      string `yaml:"template"`
	Network       string `yaml:"network"`
	VNICProfile   string `yaml:"vnicProfile"`
	StorageDomain string `yaml:"storageDomain"`
	// These fields have the same meaning as in a cluster file.
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
	// SSHPublicKey is the key itself. The answer may be the name of a file with the key.
	SSHPublicKey string `yaml:"sshPublicKey"`
}

// Question is a question for an Asker.
type Question struct {
	// Key is the key of the answer in a file.
	Key string
	// Title is the text of the question. Help explains it, with an example.
	Title, Help string
	// Choices are the only possible answers. If empty, any text is possible.
	Choices []string
	// Sole accepts the only choice without a question.
	Sole bool
	// Default is used if the answer is empty. Optional allows an empty answer.
	Default  string
	Optional bool
	// Given is an answer from the environment, and From is the variable with this answer. The user is not asked if
	// there is one.
	Given, From string
	// Secret hides the answer.
	Secret bool
	// Check returns an error for an invalid answer. If nil, all answers are valid.
	Check func(string) error
}

// isDecided reports whether the answer is already known.
func (q Question) isDecided() bool { return q.Given != "" || q.Sole && len(q.Choices) == 1 }

// parseAnswer converts a text to an answer. It removes surrounding space, and replaces an empty text by the default.
func (q Question) parseAnswer(text string) (string, error) {
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
		return "", errors.New("required")
	case len(q.Choices) > 0 && !slices.Contains(q.Choices, text):
		return "", fmt.Errorf("unsupported value %q; use one of %s", text, strings.Join(q.Choices, ", "))
	case q.Check != nil:
		return text, q.Check(text)
	}

	return text, nil
}

// Asker answers questions. It returns only valid answers.
type Asker interface {
	// AskQuestion returns the answer to a question, or ErrBack.
	AskQuestion(ctx context.Context, q Question) (string, error)
	// ConfirmCA returns nil if the user confirms the CA as that of the engine. It may return ErrBack.
	ConfirmCA(ctx context.Context, ca *x509.Certificate) error
	// RejectAnswer tells the user why an accepted answer has failed. It returns nil if the Asker can give another
	// answer.
	RejectAnswer(key string, reason error) error
}

// Options are the options of a survey.
type Options struct {
	// Output is the path of the cluster file. The other files are in the same folder.
	Output string
	// Force overwrites existing files.
	Force bool
	// Defaults is the user's file of defaults for cluster files, or "" for none.
	Defaults string
}

// survey is a running survey.
type survey struct {
	Options
	asker    *memory
	answers  Answers
	defaults clusterfile.File // values of keys missing from a cluster file
	ca       *x509.Certificate
	client   *engine.Client
	// refusals is the number of logins rejected by the engine.
	refusals int
	// noTemplate reports whether the template does not exist yet.
	noTemplate bool
}

// Run asks all questions, and writes the files. If it fails, or if ctx ends, it writes nothing.
func Run(ctx context.Context, asker Asker, options Options) (*Written, error) {
	s := &survey{Options: options, asker: newMemory(asker)}

	written, err := s.askAll(ctx)
	for errors.Is(err, ErrBack) {
		s.answers = Answers{}
		s.asker.rewindAnswers()
		written, err = s.askAll(ctx)
	}

	s.endSession(ctx)

	if ctx.Err() != nil && written == nil {
		return nil, ErrInterrupted
	}

	return written, err
}

// endSession ends the session with the engine.
func (s *survey) endSession(ctx context.Context) {
	if s.client != nil {
		_ = s.client.Logout(context.WithoutCancel(ctx))
		s.client = nil
	}
}

// askAll asks all questions, and writes the files. It returns ErrBack if the user wants to return to the previous
// question. Run then restarts the survey, and reaches that question with the remembered answers.
func (s *survey) askAll(ctx context.Context) (*Written, error) {
	if err := s.checkPreconditions(); err != nil {
		return nil, err
	}

	for _, ask := range []func(context.Context) error{s.askEngine, s.askLogin, s.askPlacement, s.askCluster,
		s.askMachines} {
		if err := ask(ctx); err != nil {
			return nil, err
		}
	}

	return s.writeFiles(ctx)
}

// checkPreconditions finds problems that would make all answers useless.
func (s *survey) checkPreconditions() error {
	if info, err := os.Stat(filepath.Dir(s.Output)); err != nil {
		return fmt.Errorf("--out: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("--out: %s is not a folder", filepath.Dir(s.Output))
	}

	if err := s.checkWritable(filepath.Base(s.Output)); err != nil {
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

// checkWritable returns an error unless the file can be written to the folder of the output.
func (s *survey) checkWritable(name string) error {
	path := filepath.Join(filepath.Dir(s.Output), name)

	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s exists and is not a regular file; use another name", path)
	case !s.Force:
		return fmt.Errorf("%s already exists; use another name, or overwrite it with --force", path)
	}

	return nil
}

// checkCompanions is like checkWritable, for the other files of a cluster with this name.
func (s *survey) checkCompanions(name string) error {
	beside := []string{s.answers.secretFile(name)}
	if s.ca != nil {
		beside = append(beside, s.answers.caFile(name))
	}

	for _, file := range beside {
		if file == filepath.Base(s.Output) {
			return fmt.Errorf("%s is the name of the cluster file; use another name", file)
		}

		if err := s.checkWritable(file); err != nil {
			return err
		}
	}

	return nil
}

// askQuestion asks a question, stores the answer in a field, and checks the cluster file with this answer.
func (s *survey) askQuestion(ctx context.Context, field *string, q Question) error {
	*field = ""
	before, check := s.fileProblems(s.answers), q.Check
	q.Check = func(text string) error {
		if check != nil {
			if err := check(text); err != nil {
				return err
			}
		}

		*field = text
		after := s.fileProblems(s.answers)
		*field = ""

		return newProblems(before, after)
	}
	text, err := s.asker.AskQuestion(ctx, q)
	if err != nil {
		return err
	}

	*field = text

	return nil
}

// fileProblems returns the problems of the cluster file with the answers so far.
func (s *survey) fileProblems(a Answers) []clusterfile.Problem {
	content, err := a.renderFile("")
	if err == nil {
		var read *clusterfile.Source
		if read, err = clusterfile.Parse(s.Output, content, s.Defaults); err == nil {
			return read.Validate()
		}
	}

	return []clusterfile.Problem{{Message: err.Error()}}
}

// newProblems returns the problems caused by the last answer. All other problems belong to later questions.
func newProblems(before, after []clusterfile.Problem) error {
	var texts []string

	for _, p := range after {
		known := slices.ContainsFunc(before, func(b clusterfile.Problem) bool {
			return b.Path == p.Path &&
				b.Message == p.Message
		})
		// A cluster file may have an endpoint in another subnet, but the survey asks for one in this subnet.
		counts := !p.Warning || p.Path == "virtualIp" || p.Path == "providers.olvm.ingressVirtualIp"
		if counts && !known && !slices.Contains(texts, p.Message) { // both roles of machines may have the same message
			texts = append(texts, p.Message)
		}
	}

	if len(texts) == 0 {
		return nil
	}

	return errors.New(strings.Join(texts, "; "))
}

// Fingerprint returns the SHA-256 fingerprint of a certificate in the format of openssl.
func Fingerprint(certificate *x509.Certificate) string {
	return strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(certificate.Raw)), " ", ":")
}

// describeCA returns the parts of a CA that a user can compare. The CA is not trusted yet, so its text must not control
// the terminal.
func describeCA(ca *x509.Certificate) (subject, validity, fingerprint string) {
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
