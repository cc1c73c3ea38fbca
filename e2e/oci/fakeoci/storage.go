package fakeoci

import (
	"crypto/md5" //nolint:gosec // the checksum of the cloud's API
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/oracle/oci-go-sdk/v65/objectstorage"
)

// Namespace is the namespace of the tenancy's objects.
const Namespace = "tenancyobjects"

// serveStorage serves buckets and objects. Clients upload objects as a whole or in parts.
func (s *Server) serveStorage(mux *http.ServeMux) {
	buckets := "/n/" + Namespace + "/b"

	s.handle(mux, "GET /n", func(w http.ResponseWriter, _ *http.Request) error { return answer(w, Namespace) })
	s.handle(mux, "POST "+buckets, func(w http.ResponseWriter, r *http.Request) error {
		details, err := decode(r, &objectstorage.CreateBucketDetails{})
		if err != nil {
			return err
		}

		name := fmt.Sprint(details["name"])
		if s.buckets[name] != nil {
			return &refusal{http.StatusConflict, "BucketAlreadyExists", "bucket " + name + " exists"}
		}

		s.buckets[name] = map[string][]byte{}

		return answer(w, details)
	})
	s.handle(mux, "GET "+buckets+"/{bucket}", func(w http.ResponseWriter, r *http.Request) error {
		if s.buckets[r.PathValue("bucket")] == nil {
			return &refusal{http.StatusNotFound, "BucketNotFound", "there is no bucket " + r.PathValue("bucket")}
		}

		return answer(w, object{"namespace": Namespace, "name": r.PathValue("bucket")})
	})
	s.handle(mux, "PUT "+buckets+"/{bucket}/o/{object}", func(w http.ResponseWriter, r *http.Request) error {
		content, err := body(w, r)
		if err != nil {
			return err
		}

		return s.store(r, content)
	})
	s.handle(mux, "GET "+buckets+"/{bucket}/o/{object}", func(w http.ResponseWriter, r *http.Request) error {
		content, ok := s.buckets[r.PathValue("bucket")][r.PathValue("object")]
		if !ok {
			return &refusal{http.StatusNotFound, "ObjectNotFound", "there is no object " + r.PathValue("object")}
		}

		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, err := w.Write(content)

		return err
	})
	s.handle(mux, "DELETE "+buckets+"/{bucket}/o/{object}", func(w http.ResponseWriter, r *http.Request) error {
		delete(s.buckets[r.PathValue("bucket")], r.PathValue("object"))
		w.WriteHeader(http.StatusNoContent)

		return nil
	})
	s.serveParts(mux, buckets+"/{bucket}/u")
}

// serveParts serves uploads in parts.
func (s *Server) serveParts(mux *http.ServeMux, uploads string) {
	s.handle(mux, "POST "+uploads, func(w http.ResponseWriter, r *http.Request) error {
		details, err := decode(r, &objectstorage.CreateMultipartUploadDetails{})
		if err != nil {
			return err
		}

		id := s.mint("upload")
		s.uploads[id] = map[int][]byte{}

		return answer(w, object{
			"namespace": Namespace, "bucket": r.PathValue("bucket"), "object": details["object"], "uploadId": id,
			"timeCreated": "2026-01-01T00:00:00Z",
		})
	})
	s.handle(mux, "PUT "+uploads+"/{object}", func(w http.ResponseWriter, r *http.Request) error {
		content, err := body(w, r)
		if err != nil {
			return err
		}

		part, err := strconv.Atoi(r.URL.Query().Get("uploadPartNum"))
		if err != nil || s.uploads[r.URL.Query().Get("uploadId")] == nil {
			return invalid("there is no such upload")
		}

		s.uploads[r.URL.Query().Get("uploadId")][part] = content
		w.Header().Set("etag", fmt.Sprintf("part-%d", part))

		return nil
	})
	s.handle(mux, "POST "+uploads+"/{object}", func(_ http.ResponseWriter, r *http.Request) error {
		details := objectstorage.CommitMultipartUploadDetails{}
		if _, err := decode(r, &details); err != nil {
			return err
		}

		parts := s.uploads[r.URL.Query().Get("uploadId")]
		slices.SortFunc(details.PartsToCommit, func(a, b objectstorage.CommitMultipartUploadPartDetails) int {
			return *a.PartNum - *b.PartNum
		})

		var content []byte
		for _, part := range details.PartsToCommit {
			content = append(content, parts[*part.PartNum]...)
		}

		return s.store(r, content)
	})
}

// store stores an object. The caller must hold s.mu.
func (s *Server) store(r *http.Request, content []byte) error {
	bucket := s.buckets[r.PathValue("bucket")]
	if bucket == nil {
		return &refusal{http.StatusNotFound, "BucketNotFound", "there is no bucket " + r.PathValue("bucket")}
	}

	bucket[r.PathValue("object")] = content

	return nil
}

// body reads an upload, and sets the checksum of the upload in the response.
func body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}

	sum := md5.Sum(content) //nolint:gosec // as above
	w.Header().Set("opc-content-md5", base64.StdEncoding.EncodeToString(sum[:]))

	return content, nil
}

// ObjectNames returns the names of the objects in a bucket.
func (s *Server) ObjectNames(bucket string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string

	for name := range s.buckets[bucket] {
		out = append(out, name)
	}

	slices.Sort(out)

	return out
}
