package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// qcow2 returns a header with these changes.
func qcow2(change func(fields map[string]any)) []byte {
	fields := map[string]any{
		"magic":    [4]byte{'Q', 'F', 'I', 0xfb},
		"version":  uint32(3),
		"backing":  uint64(0),
		"bits":     uint32(16),
		"size":     uint64(1 << 30),
		"crypt":    uint32(0),
		"tables":   [36]byte{},
		"features": uint64(0),
	}
	if change != nil {
		change(fields)
	}

	var out bytes.Buffer

	for _, name := range []string{"magic", "version", "backing", "", "bits", "size", "crypt", "tables", "features"} {
		value := fields[name]
		if name == "" {
			value = uint32(0)
		}

		_ = binary.Write(&out, binary.BigEndian, value)
	}

	return append(out.Bytes(), make([]byte, 1000)...)
}

// tables returns the fields of a qcow2 header that locate its tables.
func tables(l1Size uint32, l1, refcounts uint64, clusters uint32) (out [36]byte) {
	binary.BigEndian.PutUint32(out[0:], l1Size)
	binary.BigEndian.PutUint64(out[4:], l1)
	binary.BigEndian.PutUint64(out[12:], refcounts)
	binary.BigEndian.PutUint32(out[20:], clusters)

	return out
}

func TestReadImage(t *testing.T) {
	with := func(name string, value any) []byte { return qcow2(func(f map[string]any) { f[name] = value }) }

	tests := map[string]struct {
		content []byte
		format  string
		size    int64
		problem string
	}{
		"qcow2 tells its size":                     {qcow2(nil), engine.FormatCow, 1 << 30, ""},
		"anything else is raw, in whole sectors":   {[]byte(strings.Repeat("x", 1000)), engine.FormatRaw, 1024, ""},
		"a tiny file is raw":                       {[]byte("x"), engine.FormatRaw, 512, ""},
		"an empty file":                            {nil, "", 0, "empty"},
		"a backing file":                           {with("backing", uint64(512)), "", 0, "backing file"},
		"an encrypted image":                       {with("crypt", uint32(1)), "", 0, "encrypted"},
		"data in another file":                     {with("features", uint64(4)), "", 0, "data in another file"},
		"dirty is not our business":                {with("features", uint64(1)), engine.FormatCow, 1 << 30, ""},
		"a version that nobody knows":              {with("version", uint32(9)), "", 0, "version 9"},
		"no virtual size":                          {with("size", uint64(0)), "", 0, "damaged"},
		"a virtual size that is not whole sectors": {with("size", uint64(1000)), "", 0, "damaged"},
		"tables that were cut off":                 {with("tables", tables(4, 0x30000, 0x10000, 1)), "", 0, "truncated"},
		"tables that are there": {
			append(with("tables", tables(4, 0x200, 0x300, 0)), make([]byte, 1000)...),
			engine.FormatCow,
			1 << 30,
			"",
		},
		"tables behind the end of all files": {with("tables", tables(4, 1<<63, 0x200, 0)), "", 0, "truncated"},
		"a compressed image": {
			append([]byte("\xfd7zXZ\x00"), make([]byte, 600)...),
			"",
			0,
			"decompress it with unxz",
		},
		"an image of VMware": {
			append([]byte("KDMV"), make([]byte, 600)...),
			"",
			0,
			"qemu-img convert",
		},
		"a header that ends": {qcow2(nil)[:20], "", 0, "ends within its header"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			image, err := engine.ReadImage(bytes.NewReader(test.content), int64(len(test.content)))
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("got %+v, %v", image, err)
				}

				return
			}

			check.Error(t, err, "")
			check.Equal(t, "image.Format", image.Format, test.format)
			check.Equal(t, "image.VirtualSize", image.VirtualSize, test.size)
		})
	}
}

// TestAFileNamedQcow2IsOne opens files by name: F4.
func TestAFileNamedQcow2IsOne(t *testing.T) {
	open := func(name string, content []byte) error {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}

		file, _, err := engine.OpenImage(path)
		if err == nil {
			err = file.Close()
		}

		return err
	}
	err := open("text.qcow2", []byte("kind: Cluster\n"))
	if err == nil || !strings.Contains(err.Error(), "text.qcow2: the file is named .qcow2, but is not a qcow2 image") {
		t.Errorf("got %v", err)
	}

	if err := open("image.qcow2", qcow2(nil)); err != nil {
		t.Error(err)
	}

	if err := open("image.img", []byte("raw")); err != nil {
		t.Error(err)
	}
}

// storage is a fake engine that can only receive one image.
type storage struct {
	mu      sync.Mutex
	server  *httptest.Server
	disk    bool
	phase   string
	data    []byte
	ranges  []string
	breakAt int // number of the chunk that fails once, or 0
	refuse  bool
	auth    bool // whether a chunk came with a session
	// foreign answers a request for data in place of the host. It reports whether it did so.
	foreign func(http.ResponseWriter, *http.Request) bool
}

func newStorage(t *testing.T) *storage {
	t.Helper()
	s := &storage{}
	s.server = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.server.Close)

	return s
}

func (s *storage) client(t *testing.T) *engine.Client {
	return client(t, engine.Config{
		URL:      s.server.URL,
		Username: "u",
		Password: "p",
		CA:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw}),
	})
}

func (s *storage) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/ovirt-engine")
	diskID, transferID := uuidOf(1), uuidOf(2)
	disk := func() {
		fmt.Fprintf(w, `<disk id="%s"><alias>a</alias><status>ok</status><format>raw</format></disk>`, diskID)
	}
	transfer := func() {
		// No server listens on the host's own address.
		fmt.Fprintf(
			w,
			`<image_transfer id="%s"><phase>%s</phase><transfer_url>https://127.0.0.1:1/t</transfer_url><proxy_url>%s/data</proxy_url></image_transfer>`,
			transferID, s.phase, s.server.URL,
		)
	}

	switch key := r.Method + " " + path; {
	case path == "/data" && s.foreign != nil && s.foreign(w, r):
	case strings.HasPrefix(path, "/sso/"):
		fmt.Fprint(w, `{"access_token":"x"}`)
	case key == "POST /api/disks":
		s.disk = true
		disk()
	case key == "GET /api/disks/"+diskID && s.disk:
		disk()
	case key == "DELETE /api/disks/"+diskID && s.disk:
		s.disk = false
	case key == "POST /api/imagetransfers":
		s.phase = "transferring"
		transfer()
	case key == "GET /api/imagetransfers/"+transferID:
		transfer()
	case key == "POST /api/imagetransfers/"+transferID+"/finalize":
		s.phase = "finished_success"
	case key == "POST /api/imagetransfers/"+transferID+"/cancel":
		s.phase = "finished_failure"
	case key == "GET /api":
		fmt.Fprint(w, `<api/>`)
	case key == "OPTIONS /data":
	case key == "PUT /data":
		s.auth = s.auth || r.Header.Get("Authorization") != ""
		s.ranges = append(s.ranges, r.Header.Get("Content-Range")+" flush="+r.URL.Query().Get("flush"))
		content, _ := io.ReadAll(r.Body)

		switch {
		case s.refuse:
			w.WriteHeader(http.StatusForbidden)
		case len(s.ranges) == s.breakAt:
			panic(http.ErrAbortHandler) // the connection breaks
		default:
			s.data = append(s.data, content...)
		}
	default:
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `<fault><reason>Operation Failed</reason></fault>`)
	}
}

func TestUploadImage(t *testing.T) {
	content, diskID := []byte(strings.Repeat("0123456789", 100)), uuidOf(1)
	options := engine.UploadOptions{
		Image:           bytes.NewReader(content),
		Size:            int64(len(content)),
		StorageDomainID: engine.ID(uuidOf(3)),
		ChunkBytes:      400,
	}
	t.Run("in chunks, by the proxy, and a chunk again where the connection broke", func(t *testing.T) {
		s := newStorage(t)
		s.breakAt = 2
		var sent []int64
		disk, _, err := s.client(t).UploadImage(t.Context(), options, func(n, _ int64) { sent = append(sent, n) })
		if err != nil || disk.ID.String() != diskID {
			t.Fatalf("got %+v, %v", disk, err)
		}

		if !bytes.Equal(s.data, content) || s.auth {
			t.Errorf("%d bytes arrived, with a session: %t", len(s.data), s.auth)
		}

		want := "bytes 0-399/* flush=n,bytes 400-799/* flush=n,bytes 400-799/* flush=n,bytes 800-999/* flush=y"
		if got := strings.Join(s.ranges, ","); got != want {
			t.Errorf("the chunks were %s", got)
		}

		if fmt.Sprint(sent) != "[0 400 800 1000]" {
			t.Errorf("the progress was %v", sent)
		}
	})

	for name, begin := range map[string]func(*storage) context.Context{
		"a refusal leaves nothing": func(s *storage) context.Context { s.refuse = true; return context.Background() },
		"an interrupt leaves nothing": func(*storage) context.Context {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			return ctx
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStorage(t)
			if _, _, err := s.client(t).UploadImage(begin(s), options, nil); err == nil {
				t.Fatal("the upload succeeded")
			}

			if s.disk || s.phase == "transferring" {
				t.Errorf("left behind: disk %t, transfer %s", s.disk, s.phase)
			}
		})
	}
}

// TestAnAnswerThatIsNotTheHostsSendsNoImage has a proxy answer the requests for data in place of the host.
func TestAnAnswerThatIsNotTheHostsSendsNoImage(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 100)

	for _, method := range []string{http.MethodOptions, http.MethodPut} {
		for _, status := range []int{200, 201, 202, 301, 404, 502, 503} {
			for media, body := range foreignBodies {
				if body == "" && status < 300 {
					continue // a host's own answer is also empty
				}

				if status >= 500 && (testing.Short() || media != "text/html") {
					continue // the client retries these for seconds
				}

				t.Run(fmt.Sprintf("%s, %d, %s", method, status, media), func(t *testing.T) {
					t.Parallel()
					s := newStorage(t)
					s.foreign = func(w http.ResponseWriter, r *http.Request) bool {
						// A refusal of OPTIONS also proves a server. Then the answer to the data counts.
						if r.Method != method && (method == http.MethodPut || status < 300) {
							return false
						}

						w.Header().Set("Content-Type", media)
						w.WriteHeader(status)
						_, _ = io.WriteString(w, body)

						return true
					}
					_, _, err := s.client(t).UploadImage(t.Context(), engine.UploadOptions{
						Image: bytes.NewReader(content), Size: int64(len(content)), StorageDomainID: engine.ID(uuidOf(3)),
					}, nil)

					if err == nil {
						t.Error("it counted as written")
					}

					if s.disk || s.phase == "transferring" {
						t.Errorf("left behind: disk %t, transfer %s", s.disk, s.phase)
					}
				})
			}
		}
	}
}

func TestAWaitSaysWhatItSawLast(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var reported []string
	err := engine.Wait(ctx, "the VM to start", func(context.Context) (bool, string, error) {
		cancel()
		return false, "powering_up", nil
	}, func(seen string) { reported = append(reported, seen) })
	check.Error(t, err, "the VM to start")
	check.Contains(t, "err.Error()", err.Error(), "powering_up")
	check.Length(t, "reported", reported, 1)
}

// uploads is an engine with a storage domain, and an image to upload.
type uploads struct {
	sim     *ovirtsim.Server
	config  engine.Config
	options engine.UploadOptions
}

func newUploads(t *testing.T) *uploads {
	t.Helper()

	return newUploadsTo(t, ovirtsim.Options{
		Timings: ovirtsim.Timings{Clone: 20 * time.Millisecond, Disk: 50 * time.Millisecond},
	})
}

// newSteppedUploads is newUploads with an engine whose time advances with each request. So the test sees each phase.
func newSteppedUploads(t *testing.T) *uploads {
	t.Helper()
	const phase = time.Second
	clock := ovirtsim.NewManualClock()

	return newUploadsTo(t, ovirtsim.Options{
		Timings: ovirtsim.Timings{Clone: phase, Disk: 2 * phase}, // a phase takes half as long as a disk
		Clock:   clock,
		Gate: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r)
				if r.Method == http.MethodGet {
					clock.Advance(phase)
				}
			})
		},
	})
}

func newUploadsTo(t *testing.T, options ovirtsim.Options) *uploads {
	t.Helper()
	sim, config := start(t, options)
	c := client(t, config)
	dc, err := c.FindDataCenter(t.Context(), "Default")
	if err != nil {
		t.Fatal(err)
	}

	domain, err := c.FindStorageDomain(t.Context(), dc, "olvm-data")
	if err != nil {
		t.Fatal(err)
	}

	content := []byte(strings.Repeat("0123456789abcdef", 4096))

	return &uploads{sim, config, engine.UploadOptions{
		Image:           bytes.NewReader(content),
		Size:            int64(len(content)),
		StorageDomainID: domain.ID,
		Alias:           "image",
		ChunkBytes:      16 << 10,
		Fingerprint:     "sha256=1",
		Pause:           wait.Limit,
	}}
}

// named returns the disks with the alias of the image.
func (u *uploads) named() []ovirtsim.DiskInfo {
	return slices.DeleteFunc(u.sim.ListDisks(), func(d ovirtsim.DiskInfo) bool { return d.Name != "image" })
}

// TestEqualUploadsAtOnceMakeOneDisk starts the same upload several times at once: F2. One call creates the disk. The
// others find it, or report that another upload creates it.
func TestEqualUploadsAtOnceMakeOneDisk(t *testing.T) {
	u := newUploads(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	var ids []string

	for range 3 {
		all.Go(func() {
			disk, _, err := client(t, u.config).UploadImage(t.Context(), u.options, nil)
			mu.Lock()
			defer mu.Unlock()

			switch {
			case err == nil:
				ids = append(ids, disk.ID.String())
			case !strings.Contains(err.Error(), "at the same time"):
				t.Error(err)
			}
		})
	}

	all.Wait()
	if len(ids) == 0 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 1 {
		t.Errorf("the uploads ended with the disks %v", ids)
	}

	// F6: the engine locks the disk for a moment after a change of its description.
	if left := u.named(); len(left) != 1 || left[0].Status != "ok" {
		t.Errorf("the engine has %+v", left)
	}
}

// begun returns a disk and a transfer of the same upload. Another process has begun them.
func (u *uploads) begun(t *testing.T, c *engine.Client) (*engine.Disk, *engine.ImageTransfer) {
	t.Helper()
	alias := "image"
	disk, err := c.CreateDisk(t.Context(), &engine.Disk{
		Alias:           &alias,
		Description:     "capolvm upload sha256=1 request=x",
		Format:          engine.FormatRaw,
		ProvisionedSize: u.options.Size,
		StorageDomains:  &engine.StorageDomains{Items: []engine.Ref{{ID: u.options.StorageDomainID}}},
	})
	if err != nil {
		t.Fatal(err)
	}

	if err := c.WaitDisk(t.Context(), disk.ID, nil); err != nil {
		t.Fatal(err)
	}

	transfer, err := c.CreateTransfer(t.Context(), &engine.ImageTransfer{
		Direction:         "upload",
		Format:            engine.FormatRaw,
		Image:             engine.NewRef(disk.ID),
		InactivityTimeout: 60,
		TimeoutPolicy:     "cancel",
	})
	if err != nil {
		t.Fatal(err)
	}

	return disk, transfer
}

// TestAnUploadThatAnotherEndsHasItsDisk continues an upload while the process that began it ends it: F2.
func TestAnUploadThatAnotherEndsHasItsDisk(t *testing.T) {
	u := newUploads(t)
	c := client(t, u.config)
	disk, transfer := u.begun(t, c)
	if err := u.sim.Inject(ovirtsim.Fault{Method: "PUT", Path: "/images/", Action: "hold", Count: 1}); err != nil {
		t.Fatal(err)
	}

	var made *engine.Disk
	ended := make(chan error, 1)
	go func() {
		var err error
		made, _, err = client(t, u.config).UploadImage(t.Context(), u.options, nil)
		ended <- err
	}()

	wait.Until(t, "the first bytes are on their way", func() bool { return u.sim.CountHits() == 1 })
	check.Error(t, c.FinalizeTransfer(t.Context(), transfer.ID), "")
	wait.For(t, "the disk is marked as the image", func() error {
		return c.UpdateDisk(t.Context(), disk.ID, &engine.Disk{Description: "capolvm image sha256=1"})
	})
	u.sim.ClearFaults()

	check.Error(t, wait.Receive(t, "the upload ends", ended), "")
	check.Equal(t, "the disk", made.ID, disk.ID)
}

// TestAnUploadThatIsCancelledAtItsEndHasItsDisk ends an upload when all is sent, at each of its last requests. Its
// caller learns of the disk, and can remove it.
func TestAnUploadThatIsCancelledAtItsEndHasItsDisk(t *testing.T) {
	for name, fault := range map[string]ovirtsim.Fault{
		"the end of the transfer": {Method: "POST", Path: "/finalize$", Action: "hold", Count: 1},
		"the mark of the image":   {Method: "PUT", Path: "/disks/", Action: "hold", Count: 1},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUploads(t)
			check.Error(t, u.sim.Inject(fault), "")

			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()

			var (
				disk *engine.Disk
				made bool
			)

			ended := make(chan error, 1)
			go func() {
				var err error
				disk, made, err = client(t, u.config).UploadImage(ctx, u.options, nil)
				ended <- err
			}()

			wait.Until(t, "the last request is on its way", func() bool { return u.sim.CountHits() == 1 })
			cancel()
			u.sim.ClearFaults()
			check.Error(t, wait.Receive(t, "the upload ends", ended), "")
			check.Equal(t, "it is new", made, true)
			check.Equal(t, "the disk that the engine has", u.sim.ListDisks()[0].ID, disk.ID.String())
		})
	}
}

// TestAnUploadWhoseAnswersAreLostHasItsDisk loses the answers to the requests for a transfer: to its creation, and to
// its end. The engine refuses a second transfer.
func TestAnUploadWhoseAnswersAreLostHasItsDisk(t *testing.T) {
	u := newUploads(t)
	u.options.Fingerprint = ""

	for _, path := range []string{"^/api/imagetransfers$", "/finalize$"} {
		check.Error(t, u.sim.Inject(ovirtsim.Fault{Method: "POST", Path: path, Action: "cut-after", Count: 1}), "")
	}

	disk, made, err := client(t, u.config).UploadImage(t.Context(), u.options, nil)
	check.Error(t, err, "")
	check.Equal(t, "it is new", made, true)
	check.Equal(t, "the lost answers", u.sim.CountHits(), 2)

	left := u.named()
	check.Length(t, "disks", left, 1)
	check.Equal(t, "the disk", left[0].ID, disk.ID.String())
	check.Equal(t, "its status", left[0].Status, "ok")
}

// TestAnUploadThatCannotTidyUpReturnsItsDisk fails an upload, and then all requests to tidy up. The caller learns of
// the disk, and removes it later with its transfer.
func TestAnUploadThatCannotTidyUpReturnsItsDisk(t *testing.T) {
	u := newUploads(t)
	u.options.Fingerprint = ""

	for _, fault := range []ovirtsim.Fault{
		{Method: "PUT", Path: "/images/", Status: 403},
		{Method: "POST", Path: "/cancel$", Status: 503},
	} {
		check.Error(t, u.sim.Inject(fault), "")
	}

	ctx, cancel := engine.WithWaitLimit(t.Context(), time.Second)
	defer cancel()
	c := client(t, u.config)
	disk, _, err := c.UploadImage(ctx, u.options, nil)
	check.Error(t, err, "was left behind")
	check.Equal(t, "the disk is told", disk != nil, true)
	check.Equal(t, "its ID", disk.ID.String(), u.named()[0].ID)

	u.sim.ClearFaults()
	check.Error(t, c.RemoveUnfinishedDisk(t.Context(), disk.ID, nil), "")
	check.Length(t, "disks", u.named(), 0)
}

// TestADiskThatAnUploadLeftIsNotTaken has a disk whose upload was killed at its end: it looks as if nothing had been
// sent, and another client may use it by now.
func TestADiskThatAnUploadLeftIsNotTaken(t *testing.T) {
	u := newUploads(t)
	c := client(t, u.config)
	disk, transfer := u.begun(t, c)
	if err := c.FinalizeTransfer(t.Context(), transfer.ID); err != nil {
		t.Fatal(err)
	}

	wait.For(t, "the transfer has ended", func() error {
		found, err := c.FindTransfer(t.Context(), disk.ID)
		if err == nil && found != nil {
			err = fmt.Errorf("it is %s", found.Phase)
		}

		return err
	})

	u.options.Pause = 50 * time.Millisecond
	_, _, err := c.UploadImage(t.Context(), u.options, nil)
	check.Error(t, err, "is left over from an upload interrupted")

	disks := u.sim.ListDisks()
	check.Length(t, "disks", disks, 1)
	check.Equal(t, "the disk", disks[0].ID, disk.ID.String())
}

// TestAnUploadWhoseTicketIsLostBeginsAnew continues an interrupted upload that its host has already forgotten: F7.
func TestAnUploadWhoseTicketIsLostBeginsAnew(t *testing.T) {
	u := newUploads(t)
	c := client(t, u.config)
	disk, _ := u.begun(t, c)
	if err := u.sim.Inject(ovirtsim.Fault{Method: "PUT", Path: "/images/", Status: 403, Count: 1}); err != nil {
		t.Fatal(err)
	}

	var seen []string
	u.options.Report = func(what string) { seen = append(seen, what) }
	made, _, err := c.UploadImage(t.Context(), u.options, nil)
	if err != nil || made.ID == disk.ID {
		t.Fatalf("%+v, %v", made, err)
	}

	if !slices.ContainsFunc(seen, func(s string) bool {
		return strings.Contains(s, "has forgotten the earlier upload")
	}) {
		t.Errorf("it reported %q", seen)
	}

	if left := u.named(); len(left) != 1 || left[0].ID != made.ID.String() || left[0].Status != "ok" {
		t.Errorf("the engine has %+v", left)
	}
}

// TestAnUploadWithoutTheRightToEndItSaysWhichIsMissing has a user with rights only on the data center: D19.
func TestAnUploadWithoutTheRightToEndItSaysWhichIsMissing(t *testing.T) {
	u := newUploads(t)
	err := u.sim.Inject(ovirtsim.Fault{
		Method: "POST",
		Path:   "/imagetransfers/.*/finalize$",
		Status: 403,
		Reason: "Operation Failed",
		Detail: "[User is not authorized to perform this action.]",
	})
	if err != nil {
		t.Fatal(err)
	}

	_, _, err = client(t, u.config).UploadImage(t.Context(), u.options, nil)
	if err == nil || !strings.Contains(err.Error(), "the role DiskCreator") {
		t.Errorf("it says %v", err)
	}
}

// TestAnUploadThatIsCancelledLeavesNothing cancels an upload halfway: M5, F1. The engine itself removes the disk some
// time after the cancellation of the transfer. Until then, it refuses to remove the disk.
func TestAnUploadThatIsCancelledLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, u *uploads, cancel func()){
		"by its user": func(_ *testing.T, _ *uploads, cancel func()) { cancel() },
		"by the host": func(t *testing.T, u *uploads, _ func()) {
			if err := u.sim.Inject(ovirtsim.Fault{Method: "PUT", Path: "/images/", Status: 403}); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newSteppedUploads(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			u.options.Fingerprint = ""
			_, _, err := client(t, u.config).UploadImage(ctx, u.options, func(sent, _ int64) {
				if sent == u.options.ChunkBytes {
					end(t, u, cancel)
				}
			})
			if err == nil || strings.Contains(err.Error(), "left behind") {
				t.Errorf("it says %v", err)
			}

			if left := u.named(); len(left) != 0 {
				t.Errorf("the engine has %+v", left)
			}
		})
	}
}
