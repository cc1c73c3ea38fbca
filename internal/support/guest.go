package support

import (
	"archive/tar"
	"bytes"
	"embed"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

//go:embed files
var files embed.FS

// render renders one of this package's templates.
var render = bootstrap.FileTemplates(files)

// applyFile is the script that checks and applies the other files of an archive.
const applyFile = "apply.sh"

// allowFile is the script that opens the system for the service.
const allowFile = "allow.sh"

// Folder is the folder of the files that the guest's first boot writes. FetchService is the unit that fetches the
// configuration.
const (
	Folder       = "/etc/capolvm/service"
	FetchService = "capolvm-service"
)

// PackArchive packs a configuration as a tar archive. Equal files result in equal bytes.
func PackArchive(files []bootstrap.File) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)

	for _, file := range files {
		err := w.WriteHeader(&tar.Header{Name: file.Path, Mode: int64(file.Mode), Size: int64(len(file.Content))})
		if err == nil {
			_, err = w.Write([]byte(file.Content))
		}

		if err != nil {
			return nil, fmt.Errorf("failed to pack %s: %w", file.Path, err)
		}
	}

	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("failed to pack a configuration: %w", err)
	}

	return out.Bytes(), nil
}

// RenderUserData returns a cloud-config with which a VM fetches its configuration from the pointer's address.
func RenderUserData(from bootstrap.Pointer) ([]byte, error) {
	type written struct {
		Path        string `json:"path"`
		Permissions string `json:"permissions"`
		Content     string `json:"content"`
	}
	request := fmt.Sprintf("url = %q\nheader = \"Authorization: Bearer %s\"\n", from.URL, from.Token)
	config := struct {
		WriteFiles []written `json:"write_files"`
		RunCmd     []string  `json:"runcmd"`
	}{
		WriteFiles: []written{
			{Folder + "/request", "0600", request},
			{Folder + "/authority.pem", "0644", string(from.CA)},
			{Folder + "/fetch.sh", "0700", render("fetch.sh", nil)},
			{"/etc/systemd/system/" + FetchService + ".service", "0644", "[Unit]\n" +
				"Description=Fetch the configuration of this VM's service\n" +
				"After=network-online.target\nWants=network-online.target\n" +
				"[Service]\nType=oneshot\nExecStart=/bin/bash " + Folder + "/fetch.sh\n"},
			{"/etc/systemd/system/" + FetchService + ".timer", "0644", "[Unit]\n" +
				"Description=Fetch the configuration of this VM's service\n" +
				"[Timer]\nOnActiveSec=1s\nOnUnitInactiveSec=10s\nAccuracySec=1s\n[Install]\nWantedBy=timers.target\n"},
		},
		RunCmd: []string{"systemctl daemon-reload", "systemctl enable --now " + FetchService + ".timer"},
	}

	out, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("failed to encode the user data: %w", err)
	}

	return append([]byte("#cloud-config\n"), out...), nil
}
