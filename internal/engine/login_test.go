package engine

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestWhatIsEvidentlyNoLoginIsRefused(t *testing.T) {
	for _, text := range []string{
		"ENC[AES256_GCM,data:Zm9v,iv:YmFy,tag:cXV4,type:str]", "ENC[PKCS7,MIIB]", "-----BEGIN PGP MESSAGE-----\nx",
		"-----BEGIN AGE ENCRYPTED FILE-----\nx", "$ANSIBLE_VAULT;1.1;AES256", "vault:v1:8SDd3WHDOjf7", "${OLVM_PASSWORD}",
		"$${OLVM_PASSWORD}", "${OLVM_PASSWORD:=x}", "${PASS:?not set}", "${USER}@internal", "$(PASSWORD)", "$OLVM_PASSWORD",
		"{{ .Values.password }}", "{{password}}", "((password))", "%PASSWORD%", "__PASSWORD__", "@@PASSWORD@@", "<password>",
		"<path:secret/data/olvm#password>", "op://vault/item/password", "vault:secret/data/olvm#password",
		"ref+vault://secret/olvm#/password", "changeme", "CHANGE_ME", "change-me!", "REPLACE_ME", "<REDACTED>", "[redacted]",
		"***", "xxxx", "XXXXXXXX", "...", "TODO", "your-password", "changeme@internal", "(sensitive value)",
	} {
		err := CheckLogin("admin@internal", text)
		check.Error(t, err, "the password is ")
		check.Lacks(t, "the error", err.Error(), text)
		check.Error(t, CheckLogin(text, "p"), "the user name is ")
	}

	for _, text := range []string{
		"hunter2", `p@ss:w&rd=+%41 $HOME "q" #ü🙂`, "a${b}c", "$6$salt$hash", "x", "xx", "**", "quick-start", "{{", "<3 kubernetes",
		"ENC[ ]x", "$A", "p$$w", "100%", "changeme-2026", "_a_", "todo list of 7", "((", "secret", "%41", "@x@",
	} {
		check.Error(t, CheckLogin("admin@internal", text), "")
	}
}
