ephemeral "ovirt_token" "t" {}

provider "http-full" {
  headers = { Authorization = "Bearer ${ephemeral.ovirt_token.t.token}" }
}
