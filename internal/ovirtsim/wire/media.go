package wire

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// StatusRecorder records the status of an answer; 0 means that the answer is pending.
type StatusRecorder struct {
	http.ResponseWriter
	Status int
}

// wantsJSON reports whether the client prefers JSON to the default, XML.
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

// encodeDocument renders a document in the client's preferred format.
func encodeDocument(r *http.Request, document *Element) (media string, body []byte) {
	var out bytes.Buffer
	if wantsJSON(r) {
		document.writeJSON(&out)
		return "application/json", out.Bytes()
	}

	out.WriteString(`<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n")
	document.writeXML(&out)

	return "application/xml;charset=UTF-8", out.Bytes()
}

// WriteDocument answers with a document, in the client's preferred format.
func WriteDocument(w http.ResponseWriter, r *http.Request, status int, document *Element) {
	media, body := encodeDocument(r, document)
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// RandomHex returns n random bytes as hexadecimal digits.
func RandomHex(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw)
	return hex.EncodeToString(raw)
}

// AnswerJSON answers with JSON that is not a document of the API.
func AnswerJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// WriteHeader implements http.ResponseWriter.
func (r *StatusRecorder) WriteHeader(status int) {
	if r.Status == 0 {
		r.Status = status
	}

	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *StatusRecorder) Write(body []byte) (int, error) {
	if r.Status == 0 {
		r.Status = http.StatusOK
	}

	return r.ResponseWriter.Write(body)
}
