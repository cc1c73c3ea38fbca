package api

import "net/http"

// This file has what differs at an engine whose users are those of Keycloak: the default of engine-setup since oVirt
// 4.5.1. Reports of users say that the web interface takes admin@ovirt, that the API wants admin@ovirt@internalsso, and
// that HTTP Basic is refused. No recording confirms any of it: the engine that was recorded has the profile internal.
// Nor are recorded whether a profile internal is left beside internalsso (here there is none, unless the inventory has
// users of it), the words of a refused password, and the page of the web server that stands before the API.

// KeycloakUser is the administrator of such an engine, and the end of its name is the profile.
const KeycloakUser = "admin@ovirt@internalsso"

// basicOfKeycloak is why a request with HTTP Basic is refused there.
const basicOfKeycloak = "HTTP Basic is not accepted"

// hasProfile reports whether users come from that profile.
func (s *Engine) hasProfile(profile string) bool {
	return s.store.HasProfile(profile) && (!s.settings.Keycloak || profile != "internal" || s.store.HasUserOf(profile))
}

// basicRefused is the page of the web server, which checks tokens itself and knows no other way to log in.
func basicRefused(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="RESTAPI"`)
	w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte("<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n" +
		"<title>401 Unauthorized</title>\n</head><body>\n<h1>Unauthorized</h1>\n<p>This server could not verify that " +
		"you are authorized to access the document requested.</p>\n</body></html>\n"))
}
