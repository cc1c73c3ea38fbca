package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
)

// askEngine asks for the engine, and for a way to verify its certificate.
func (s *survey) askEngine(ctx context.Context) error {
	var trusted bool

	for {
		err := s.askQuestion(ctx, &s.answers.Engine, Question{
			Key: "engine", Title: "Engine", Help: "Host name with an optional port, or URL, such as engine.example.com",
			Check: func(text string) error { _, err := engine.ParseBaseURL(text); return err },
		})
		if err != nil {
			return err
		}

		if s.ca, trusted, err = engine.FetchAuthority(ctx, s.answers.Engine); err == nil {
			break
		}

		err = s.rejectAnswer(
			ctx, "engine", fmt.Errorf("%w; correct the name, and check that this machine can reach the engine", err),
		)
		if err != nil {
			return err
		}
	}

	if trusted {
		s.ca = nil
		return nil
	}

	if err := s.asker.ConfirmCA(ctx, s.ca); err != nil {
		return err
	}

	s.answers.CAFingerprint = Fingerprint(s.ca)

	return explainUntrusted(engine.VerifyAuthority(ctx, s.answers.Engine, s.ca))
}

// explainUntrusted adds advice to an error about an engine that the confirmed CA does not verify.
func explainUntrusted(err error) error {
	var refused *engine.TLSError

	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Problem != engine.CertificateOfUnknownAuthority:
		return blocker.AddRemedy(err, blocker.Places{CA: "the trust store of this system", URL: "engine"})
	}

	return fmt.Errorf(
		"%w; the CA did not sign the server's certificate, so this may not be the engine; olvmctl has not sent the "+
			"password. If another CA signed the certificate, add that CA to the trust store of this system",
		err,
	)
}

// rejectAnswer calls RejectAnswer of the Asker, unless the user has ended the survey.
func (s *survey) rejectAnswer(ctx context.Context, key string, reason error) error {
	if ctx.Err() != nil {
		return ErrInterrupted
	}

	return s.asker.RejectAnswer(key, reason)
}

// askLogin asks for the user and the password until the engine accepts them. If the profile is wrong, it asks for
// another user and keeps the password. Otherwise it asks for another password.
func (s *survey) askLogin(ctx context.Context) error {
	password := Question{Key: "password", Title: "Password", Secret: true, From: "OLVM_PASSWORD"}
	if s.refusals == 0 {
		password.Given = os.Getenv(password.From)
	}

	if err := s.askUser(ctx); err != nil {
		return err
	}

	for {
		if err := s.askQuestion(ctx, &s.answers.Password, password); err != nil {
			return err
		}

		err := s.tryLogin(ctx)
		var refused *engine.AuthError

		switch {
		case !errors.As(err, &refused):
			return explainUntrusted(err)
		case refused.IsClosed():
			return blocker.AddRemedy(refused, blocker.Places{})
		case refused.HasUnknownProfile():
			if password.Given == "" {
				password.Given, password.From = s.answers.Password, "the first attempt"
			}

			told := blocker.AddRemedy(refused, blocker.Places{Credentials: "the answer"})
			if err := s.rejectAnswer(ctx, "user", told); err != nil {
				return err
			}

			if err := s.askUser(ctx); err != nil {
				return err
			}

			continue
		}

		if s.refusals++; s.refusals == logins {
			return fmt.Errorf("%w; stopped after %d attempts, because more attempts may lock the user", refused, logins)
		}

		if err := s.rejectAnswer(ctx, "password", refused); err != nil {
			return err
		}

		password.Given = ""
	}
}

// askUser asks for the name of the user.
func (s *survey) askUser(ctx context.Context) error {
	return s.askQuestion(ctx, &s.answers.User, Question{
		Key:     "user",
		Title:   "User",
		Help:    "User with domain, such as admin@internal, or admin@ovirt@internalsso for an engine with Keycloak",
		Default: cmp.Or(os.Getenv("OLVM_USERNAME"), "admin@internal"),
	})
}

// tryLogin tries to log in with the user and the password.
func (s *survey) tryLogin(ctx context.Context) error {
	s.answers.User, s.answers.Password = engine.CleanLogin(s.answers.User, s.answers.Password)
	config := engine.Config{URL: s.answers.Engine, Username: s.answers.User, Password: s.answers.Password}
	if s.ca != nil {
		config.CA = encodeCA(s.ca)
	}

	client, err := engine.New(config)
	if err != nil {
		return err
	}

	s.endSession(ctx)
	s.client = client
	_, err = client.FetchProduct(ctx)

	return err
}

// uniqueNames returns the names of items, sorted and without duplicates.
func uniqueNames[T any](items []T, name func(T) string) []string {
	var out []string
	for _, item := range items {
		out = append(out, name(item))
	}

	slices.Sort(out)

	return slices.Compact(out)
}

// chooseItem asks the user to choose one of the items by its name.
func chooseItem[T any](
	ctx context.Context, s *survey, field *string, items []T, name func(T) string, q Question,
) (*T, error) {
	if q.Choices = uniqueNames(items, name); len(q.Choices) == 0 {
		return nil, fmt.Errorf("%s: no usable object in the engine; create one (%s)", q.Key, q.Help)
	}

	if err := s.askQuestion(ctx, field, q); err != nil {
		return nil, err
	}

	return &items[slices.IndexFunc(items, func(item T) bool { return name(item) == *field })], nil
}

// askPlacement asks where in the engine to create the cluster, and which template to use.
func (s *survey) askPlacement(ctx context.Context) error {
	a := &s.answers
	centers, err := s.client.ListDataCenters(ctx)
	if err != nil {
		return err
	}

	dc, err := chooseItem(ctx, s, &a.DataCenter, centers, func(d engine.DataCenter) string { return d.Name }, Question{
		Key:   "dataCenter",
		Title: "Data center",
		Help:  "Data center of the engine",
	})
	if err != nil {
		return err
	}

	clusters, err := s.client.ListClusters(ctx, dc)
	if err != nil {
		return err
	}

	cluster, err := chooseItem(ctx, s, &a.Cluster, clusters, func(c engine.Cluster) string { return c.Name }, Question{
		Key:   "cluster",
		Title: "Cluster",
		Help:  fmt.Sprintf("Cluster in data center %q whose hosts run the machines", dc.Name),
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

	domains, err := s.client.ListStorageDomains(ctx, dc)
	if err != nil {
		return err
	}

	_, err = chooseItem(
		ctx,
		s,
		&a.StorageDomain,
		domains,
		func(d engine.StorageDomain) string { return d.Name },
		Question{
			Key:   "storageDomain",
			Title: "Storage domain",
			Help:  fmt.Sprintf("Storage domain for images in data center %q", dc.Name),
		},
	)

	return err
}

// askTemplate asks for the VM template. The user may name a template that does not exist yet.
func (s *survey) askTemplate(ctx context.Context, cluster *engine.Cluster) error {
	templates, err := s.client.ListClusterTemplates(ctx, cluster)
	if err != nil {
		return err
	}

	names := uniqueNames(templates, func(t engine.Template) string { return t.Name })
	help := "VM template of the machines"
	if s.noTemplate = len(names) == 0; s.noTemplate {
		help = fmt.Sprintf("Cluster %q has no template yet. Name the template that you will create with olvmctl "+
			"image template, such as ock-1.33", cluster.Name)
	}

	return s.askQuestion(ctx, &s.answers.Template, Question{
		Key:     "template",
		Title:   "Template",
		Help:    help,
		Choices: names,
	})
}

// askNICs asks for the network and for its vNIC profile.
func (s *survey) askNICs(ctx context.Context, cluster *engine.Cluster) error {
	networks, err := s.client.ListClusterNetworks(ctx, cluster)
	if err != nil {
		return err
	}

	profiles, err := s.client.ListNetworkProfiles(ctx)
	if err != nil {
		return err
	}

	networks = slices.DeleteFunc(networks, func(n engine.Network) bool { return len(profiles[n.ID]) == 0 })
	network, err := chooseItem(ctx, s, &s.answers.Network, networks, func(n engine.Network) string {
		return n.Name
	}, Question{
		Key:   "network",
		Title: "Network",
		Help:  fmt.Sprintf("VM network of cluster %q with a vNIC profile", cluster.Name),
	})
	if err != nil {
		return err
	}

	_, err = chooseItem(ctx, s, &s.answers.VNICProfile, profiles[network.ID], func(p engine.VNICProfile) string {
		return p.Name
	}, Question{
		Key: "vnicProfile", Title: "vNIC profile", Help: fmt.Sprintf("vNIC profile of network %q", network.Name),
		Sole: true})

	return err
}

// askCluster asks for the name, the version, the subnet and the addresses of the cluster.
func (s *survey) askCluster(ctx context.Context) error {
	a := &s.answers
	for _, q := range []struct {
		field *string
		Question
	}{
		{&a.Name, Question{
			Key:   "name",
			Title: "Cluster name",
			Help:  "Lower case letters, digits and hyphens, such as prod",
			Check: func(text string) error {
				return s.checkCompanions(text)
			},
		}},
		{&a.KubernetesVersion, s.versionQuestion()},
		{&a.Subnet, Question{Key: "subnet", Title: "Subnet", Help: "Subnet of all machines, such as 10.20.30.0/24"}},
	} {
		if err := s.askQuestion(ctx, q.field, q.Question); err != nil {
			return err
		}
	}

	return s.askAddresses(ctx)
}

// askAddresses asks for the addresses and the domain of the cluster.
func (s *survey) askAddresses(ctx context.Context) error {
	a, first := &s.answers, ""
	if pool, err := addressrange.NewIPv4(a.Subnet, "", []string{a.Subnet}); err == nil {
		first = pool.Gateway.String()
	}

	for _, q := range []struct {
		field *string
		Question
	}{
		{&a.Gateway, Question{Key: "gateway", Title: "Gateway", Help: "Gateway of the subnet", Default: first}},
		{&a.DNSServers, Question{
			Key:      "dnsServers",
			Title:    "DNS servers",
			Help:     "IP addresses, such as 10.20.30.53; empty only if the image configures DNS servers",
			Optional: true,
		}},
		{&a.VirtualIP, Question{
			Key:   "virtualIp",
			Title: "Control plane endpoint",
			Help:  "Free address in the subnet, such as 10.20.30.5",
		}},
		{&a.IngressVirtualIP, Question{
			Key:      "ingressVirtualIp",
			Title:    "Ingress address",
			Help:     "Free address in the subnet for a node with ingress, such as 10.20.30.6; empty for none",
			Optional: true,
		}},
		{&a.BaseDomain, Question{
			Key:   "baseDomain",
			Title: "Base domain",
			Help: fmt.Sprintf("Nodes resolve names in %s.DOMAIN, such as example.com; empty if other DNS servers "+
				"do, or for none", a.Name),
			Optional: true,
		}},
		{&a.ControlPlaneAddresses, Question{
			Key:   "controlPlaneAddresses",
			Title: "Control plane addresses",
			Help:  "Addresses, ranges and CIDR blocks, one more than machines, such as 10.20.30.10-10.20.30.19",
		}},
		{&a.WorkerAddresses, Question{
			Key:   "workerAddresses",
			Title: "Worker addresses",
			Help:  "Addresses, ranges and CIDR blocks, one more than machines, such as 10.20.30.100-10.20.30.149",
		}},
	} {
		if err := s.askQuestion(ctx, q.field, q.Question); err != nil {
			return err
		}
	}

	return nil
}

// versionInName matches a Kubernetes version in the name of a VM template.
var versionInName = regexp.MustCompile(`(?:^|[^0-9.])v?(1\.[0-9]{2}(?:\.[0-9]+)?)(?:$|[^0-9.])`)

// versionQuestion returns the question for the Kubernetes version. The default is the version in the name of the
// template, if there is one. It is never another minor version, because nodes with this template could not run it. If
// the patch version is unknown, there is no default.
func (s *survey) versionQuestion() Question {
	q := Question{
		Key:     "kubernetesVersion",
		Title:   "Kubernetes version",
		Help:    "Version in the VM template, with or without the patch version",
		Default: s.defaults.KubernetesVersion,
	}

	of := versionIn(s.answers.Template)
	if of == "" || q.Default == of || strings.HasPrefix(q.Default, of+".") {
		return q
	}

	q.Default = of
	before, with := s.fileProblems(s.answers), s.answers
	with.KubernetesVersion = of
	if newProblems(before, s.fileProblems(with)) != nil {
		q.Default = ""
		q.Help = fmt.Sprintf("Version in the VM template, with the patch version; %s has version %s",
			s.answers.Template, of)
	}

	return q
}

// versionIn returns the Kubernetes version in the name of a template such as ock-1.36, or "" if there is none.
func versionIn(template string) string {
	if found := versionInName.FindStringSubmatch(template); found != nil {
		return found[1]
	}

	return ""
}

// checkPositive returns an error unless a text is a positive number. In a cluster file, zero would mean the default.
func checkPositive(text string) error {
	if n, err := strconv.ParseInt(text, 10, 32); err != nil || n < 1 {
		return fmt.Errorf("%q is not a positive integer", text)
	}

	return nil
}

// askMachines asks for the number and the size of machines, and for the login on them.
func (s *survey) askMachines(ctx context.Context) error {
	for _, q := range slices.Concat(s.countQuestions(), s.sizeQuestions()) {
		if err := s.askQuestion(ctx, q.field, q.Question); err != nil {
			return err
		}
	}

	return s.askKey(ctx)
}

// fieldQuestion is a question together with the field for its answer.
type fieldQuestion struct {
	field *string
	Question
}

// countQuestions returns the questions for the numbers of machines.
func (s *survey) countQuestions() []fieldQuestion {
	return []fieldQuestion{
		{&s.answers.ControlPlaneNodes, Question{
			Key:     "controlPlaneNodes",
			Title:   "Control plane machines",
			Help:    "Number of machines; must be odd",
			Default: strconv.Itoa(s.defaults.ControlPlaneNodes),
			Check:   checkPositive,
		}},
		{&s.answers.WorkerNodes, Question{
			Key:     "workerNodes",
			Title:   "Workers",
			Help:    "Number of workers",
			Default: strconv.Itoa(s.defaults.WorkerNodes),
			Check:   checkPositive,
		}},
	}
}

// sizeQuestions returns the questions for the sizes of machines.
func (s *survey) sizeQuestions() []fieldQuestion {
	a := &s.answers
	control := s.defaults.Providers.OLVM.ControlPlaneMachine.VirtualMachine
	worker := s.defaults.Providers.OLVM.WorkerMachine.VirtualMachine

	cores := func(of clusterfile.VirtualMachine) string {
		return strconv.Itoa(int(of.CPU.Topology.Cores * of.CPU.Topology.Sockets))
	}

	return []fieldQuestion{
		{&a.ControlPlaneMemory, Question{
			Key:     "controlPlaneMemory",
			Title:   "Memory of a control plane machine",
			Help:    "Size, such as 16GB",
			Default: control.Memory,
		}},
		{&a.ControlPlaneCores, Question{
			Key:     "controlPlaneCores",
			Title:   "Cores of a control plane machine",
			Help:    "Number of cores",
			Default: cores(control),
			Check:   checkPositive,
		}},
		{&a.ControlPlaneDisk, Question{
			Key:      "controlPlaneDisk",
			Title:    "Root disk of a control plane machine",
			Help:     "Size, such as 100GB; empty for the size in the template",
			Default:  control.RootDisk.Size,
			Optional: true,
		}},
		{&a.WorkerMemory, Question{
			Key:     "workerMemory",
			Title:   "Memory of a worker",
			Help:    "Size, such as 16GB",
			Default: worker.Memory,
		}},
		{&a.WorkerCores, Question{
			Key:     "workerCores",
			Title:   "Cores of a worker",
			Help:    "Number of cores",
			Default: cores(worker),
			Check:   checkPositive,
		}},
		{&a.WorkerDisk, Question{
			Key:      "workerDisk",
			Title:    "Root disk of a worker",
			Help:     "Size, such as 100GB; empty for the size in the template",
			Default:  worker.RootDisk.Size,
			Optional: true,
		}},
		{&a.WorkerDataDisk, Question{
			Key:      "workerDataDisk",
			Title:    "Data disk of a worker",
			Help:     "Size of a second disk, such as 200GB; empty for no disk",
			Optional: true,
		}},
	}
}

// askKey asks for an SSH key or for a file with the key. It stores the key itself.
func (s *survey) askKey(ctx context.Context) error {
	field := &s.answers.SSHPublicKey
	before := s.fileProblems(s.answers)
	text, err := s.asker.AskQuestion(ctx, Question{
		Key:      "sshPublicKey",
		Title:    "SSH key",
		Help:     "Public key of user ocne on the machines, or its file, such as ~/.ssh/id_ed25519.pub; empty for none",
		Optional: true,
		Check: func(text string) error {
			key, err := sshKey(text)
			if err != nil {
				return err
			}

			*field = key
			after := s.fileProblems(s.answers)
			*field = ""

			return newProblems(before, after)
		},
	})
	if err == nil && text != "" {
		*field, err = sshKey(text)
	}

	return err
}

// sshKey returns an SSH key that is given as text or by the name of its file. A text with spaces is a key.
func sshKey(text string) (string, error) {
	if strings.Contains(text, " ") {
		return text, nil
	}

	content, err := os.ReadFile(hostos.ExpandHome(text))
	if err != nil {
		return "", fmt.Errorf("%w; enter the public key itself, or the path of a file with the key", err)
	}

	return strings.TrimSpace(string(content)), nil
}
