package engine

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// forms are stand-ins for a login: texts no engine accepts, and texts a weak login may look like.
var forms = struct{ never, weak, real []string }{
	never: []string{
		"ENC[AES256_GCM,data:Zm9v,iv:YmFy,tag:cXV4,type:str]", "ENC[PKCS7,MIIB]", "-----BEGIN PGP MESSAGE-----\nx",
		"-----BEGIN AGE ENCRYPTED FILE-----\nx", "$ANSIBLE_VAULT;1.1;AES256", "vault:v1:8SDd3WHDOjf7",
		"${OLVM_PASSWORD}",
		"$${OLVM_PASSWORD}", "${OLVM_PASSWORD:=x}", "${PASS:?not set}", "${USER}@internal", "$(PASSWORD)",
		"{{ .Values.password }}", "{{password}}", "<path:secret/data/olvm#password>", "op://vault/item/password",
		"vault:secret/data/olvm#password", "ref+vault://secret/olvm#/password", "ENC(Zm9vYmFy)", "{cipher}Zm9v",
		"${{ secrets.PASSWORD }}",
		"<%= ENV['PASSWORD'] %>", "#{Password}#", "arn:aws:secretsmanager:eu-west-1:1:secret:olvm",
		"projects/x/secrets/olvm/versions/1",
	},
	weak: []string{
		"$OLVM_PASSWORD", "((password))", "%PASSWORD%", "__PASSWORD__", "@@PASSWORD@@", "<password>", "changeme",
		"CHANGE_ME",
		"change-me!", "REPLACE_ME", "<REDACTED>", "[redacted]", "***", "xxxx", "XXXXXXXX", "...", "TODO",
		"your-password",
		"changeme@internal", "(sensitive value)", "sm://project/olvm", "env:PASSWORD", "{env.PASSWORD}",
		"Enter your password",
		"PASSWORD_GOES_HERE",
	},
	real: []string{
		"hunter2", `p@ss:w&rd=+%41 $HOME "q" #ü🙂`, "a${b}c", "$6$salt$hash", "x", "xx", "**", "quick-start", "{{",
		"<3 kubernetes",
		"ENC[ ]x", "$A", "p$$w", "100%", "changeme-2026", "_a_", "todo list of 7", "((", "secret", "%41", "@x@",
	},
}

func TestWhatIsEvidentlyNoLoginIsRefused(t *testing.T) {
	for _, text := range forms.never {
		for name, refuse := range map[string]func(string, string) error{"set up": CheckLogin, "written": CheckWrittenLogin} {
			err := refuse("admin@internal", text)
			check.Error(t, err, "the password is ")
			check.Lacks(t, "the error of one that is "+name, err.Error(), text)
			check.Error(t, refuse(text, "p"), "the user name is ")
		}
	}

	for _, text := range forms.real {
		check.Error(t, CheckLogin("admin@internal", text), "")
		check.Error(t, CheckWrittenLogin("admin@internal", text), "")
	}
}

// TestAWeakPasswordIsNoPlaceholderOfWhoSetItUp has passwords an engine may have. A running cluster must keep working
// with such a password. In a manifest for a preview, it counts as a placeholder.
func TestAWeakPasswordIsNoPlaceholderOfWhoSetItUp(t *testing.T) {
	for _, text := range forms.weak {
		check.Error(t, CheckLogin("admin@internal", text), "")
		check.Error(t, CheckLogin(text, "p"), "")

		err := CheckWrittenLogin("admin@internal", text)
		check.Error(t, err, "the password looks like ")
		check.Contains(t, "the remedy", err.Error(), "set OLVM_USERNAME, OLVM_PASSWORD and OLVM_URL")
		check.Lacks(t, "the error", err.Error(), text)
		check.Error(t, CheckWrittenLogin(text, "p"), "the user name looks like ")
	}
}
