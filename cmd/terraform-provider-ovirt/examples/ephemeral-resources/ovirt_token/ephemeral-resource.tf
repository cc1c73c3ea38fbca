ephemeral "ovirt_token" "t" {}

# Mastercard/restapi sends these headers with each request.
provider "restapi" {
  uri = ephemeral.ovirt_token.t.url
  headers = {
    Accept        = "application/json"
    Authorization = "Bearer ${ephemeral.ovirt_token.t.token}"
  }
}
