package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestCredentialsAreTheSameFromEverywhere reads a file given by --credentials, and the environment. The values have the
// line ends of echo and of Windows editors.
func TestCredentialsAreTheSameFromEverywhere(t *testing.T) {
	const username, password = "odd@internal", `p@ss:w&rd=+%41 $HOME "q" #ü🙂`

	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	file := filepath.Join(t.TempDir(), "credentials.yaml")

	for name, end := range map[string]string{"as they are": "", "of echo": "\n", "of Windows": "\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OLVM_USERNAME", username+end)
			t.Setenv("OLVM_PASSWORD", password+end)

			got, err := (&accessFlags{}).loadCredentials("")
			check.Error(t, err, "")
			check.Equal(t, "the user of the environment", got.Username, username)
			check.Equal(t, "the password of the environment", got.Password, password)

			check.Error(t, os.WriteFile(file, []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata:\n  username: "+
				encoded(username+end)+"\n  password: "+encoded(password+end)+"\n"), 0o600), "")

			got, err = (&accessFlags{credentials: file}).loadCredentials("")
			check.Error(t, err, "")
			check.Equal(t, "the user of the file", got.Username, username)
			check.Equal(t, "the password of the file", got.Password, password)
		})
	}
}
