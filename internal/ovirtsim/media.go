package ovirtsim

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// wantsJSON says whether the client likes JSON better than XML, which it gets where it does not say.
func wantsJSON(r *http.Request) bool {
	weight := func(media string) float64 {
		best := -1.0
		for _, one := range strings.Split(strings.ToLower(r.Header.Get("Accept")), ",") {
			name, parameters, err := mime.ParseMediaType(one)
			if err != nil || name != media {
				continue
			}
			q := 1.0
			if parsed, err := strconv.ParseFloat(parameters["q"], 64); err == nil {
				q = parsed
			}
			best = max(best, q)
		}
		return best
	}
	return weight("application/json") > weight("application/xml")
}

// encode renders a document in the form that the client accepts.
func encode(r *http.Request, document *element) (media string, body []byte) {
	var out bytes.Buffer
	if wantsJSON(r) {
		document.writeJSON(&out)
		return "application/json", out.Bytes()
	}
	out.WriteString(`<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n")
	document.writeXML(&out)
	return "application/xml;charset=UTF-8", out.Bytes()
}

func reply(w http.ResponseWriter, r *http.Request, status int, document *element) {
	media, body := encode(r, document)
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func randomHex(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw)
	return hex.EncodeToString(raw)
}
