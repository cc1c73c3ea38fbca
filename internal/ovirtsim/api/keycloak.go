package api

import "net/http"

// This file contains the special behavior of an engine with Keycloak users. Keycloak is the default of engine-setup
// since oVirt 4.5.1. Users report that the web interface accepts admin@ovirt, that the API requires
// admin@ovirt@internalsso, and that the engine rejects HTTP Basic. No recording confirms this, because the recorded
// engine has the profile internal. No recording shows the text for a wrong password, or the page of the web server in
// front of the API. None shows whether the profile internal exists besides internalsso. Here, it exists only if the
// inventory has users with this profile.

// KeycloakUser is the administrator of an engine with Keycloak users. The last part of the name is the profile.
const KeycloakUser = "admin@ovirt@internalsso"

// basicOfKeycloak is the reason for the rejection of a request with HTTP Basic.
const basicOfKeycloak = "HTTP Basic is not accepted"

// hasProfile reports whether users can have this profile.
func (s *Engine) hasProfile(profile string) bool {
	return s.store.HasProfile(profile) && (!s.settings.Keycloak || profile != "internal" || s.store.HasUserOf(profile))
}

// writeBasicRefused writes the web server's error page for HTTP Basic. This server checks tokens itself and supports no
// other login.
func writeBasicRefused(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="RESTAPI"`)
	w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte("<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n" +
		"<title>401 Unauthorized</title>\n</head><body>\n<h1>Unauthorized</h1>\n<p>This server could not verify that " +
		"you are authorized to access the document requested.</p>\n</body></html>\n"))
}
