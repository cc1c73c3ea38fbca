package api

import "net/http"

// This file contains the differences of an engine with Keycloak users: the default of engine-setup since oVirt 4.5.1.
// According to users' reports, the web interface accepts admin@ovirt, the API requires admin@ovirt@internalsso, and
// HTTP Basic is rejected. No recording confirms this, because the recorded engine has the profile internal. Three more
// details are not recorded: whether the profile internal exists besides internalsso, the text for a wrong password, and
// the page of the web server in front of the API. Here, the profile internal exists only if the inventory has users of
// it.

// KeycloakUser is the administrator of such an engine. Its profile is the last part.
const KeycloakUser = "admin@ovirt@internalsso"

// basicOfKeycloak is the reason to reject a request with HTTP Basic.
const basicOfKeycloak = "HTTP Basic is not accepted"

// hasProfile reports whether users may come from this profile.
func (s *Engine) hasProfile(profile string) bool {
	return s.store.HasProfile(profile) && (!s.settings.Keycloak || profile != "internal" || s.store.HasUserOf(profile))
}

// writeBasicRefused writes the page of the web server. The server checks tokens itself, and supports no other login.
func writeBasicRefused(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="RESTAPI"`)
	w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte("<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n" +
		"<title>401 Unauthorized</title>\n</head><body>\n<h1>Unauthorized</h1>\n<p>This server could not verify that " +
		"you are authorized to access the document requested.</p>\n</body></html>\n"))
}
