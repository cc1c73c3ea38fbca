package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// oracleCLI makes the calls of Oracle's CLI. Its Go types are strict: numbers are strings, IDs are members, and lists
// are arrays in an object. Otherwise, decoding fails.
type oracleCLI struct {
	t     *testing.T
	token string
}

type (
	oracleDomains struct {
		Domains []struct {
			ID        string `json:"id"`
			Name      string `json:"name"`
			Available string `json:"available"`
			Used      string `json:"used"`
			Status    string `json:"status"`
		} `json:"storage_domain"`
	}
	oracleDomain struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	oracleNewDisk struct {
		Name            string `json:"name"`
		ProvisionedSize string `json:"provisioned_size"`
		Format          string `json:"format"`
		Backup          string `json:"backup"`
		Domains         struct {
			Domain []oracleDomain `json:"storage_domain"`
		} `json:"storage_domains"`
	}
	oracleDisk struct {
		ID              string `json:"id"`
		Name            string `json:"name"`
		Status          string `json:"status"`
		ProvisionedSize string `json:"provisioned_size"`
		TotalSize       string `json:"total_size"`
		Domains         struct {
			Domain []oracleDomain `json:"storage_domain"`
		} `json:"storage_domains"`
	}
	oracleNewTransfer struct {
		Disk struct {
			ID string `json:"id"`
		} `json:"disk"`
		Direction         string `json:"direction"`
		TimeoutPolicy     string `json:"timeout_policy"`
		InactivityTimeout string `json:"inactivity_timeout"`
		Format            string `json:"format"`
	}
	oracleTransfer struct {
		ID          string `json:"id"`
		Phase       string `json:"phase"`
		ProxyURL    string `json:"proxy_url"`
		Transferred string `json:"transferred"`
		Timeout     string `json:"inactivity_timeout"`
	}
)

func newOracleCLI(t *testing.T) *oracleCLI {
	t.Helper()
	form := url.Values{
		"grant_type": {"password"},
		"scope":      {"ovirt-app-api"},
		"username":   {sim.Username},
		"password":   {sim.Password},
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, sim.URL+"/sso/oauth/token",
		strings.NewReader(form.Encode()))
	check(t, err)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	var reply struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
	}
	response, err := sim.http.Do(request)
	check(t, err)
	defer response.Body.Close()
	check(t, json.NewDecoder(response.Body).Decode(&reply))
	cli := &oracleCLI{t: t, token: reply.Token}
	cli.call(http.MethodGet, "", nil, nil) // this call verifies the token

	return cli
}

// call sends a body only if there is one, and a content type only with a body.
func (c *oracleCLI) call(method, path string, in, out any) {
	c.t.Helper()
	status, body := c.try(method, path, in)
	if status < 200 || status > 204 {
		c.t.Fatalf("%s %s: %d %s", method, path, status, body)
	}

	if out != nil {
		if err := json.Unmarshal(body, out); err != nil {
			c.t.Fatalf("%s %s: %v in %s", method, path, err, body)
		}
	}
}

func (c *oracleCLI) try(method, path string, in any) (int, []byte) {
	c.t.Helper()
	var body io.Reader
	if in != nil {
		body = bytes.NewReader(must[[]byte](c.t)(json.Marshal(in)))
	}

	request := must[*http.Request](c.t)(http.NewRequestWithContext(c.t.Context(), method, sim.URL+"/api"+path, body))
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Accept", "application/json")
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}

	response, err := sim.http.Do(request)
	check(c.t, err)
	defer response.Body.Close()

	return response.StatusCode, must[[]byte](c.t)(io.ReadAll(response.Body))
}

// put sends one piece of an image. The ticket in the URL is the only right that it needs.
func (c *oracleCLI) put(to string, content []byte, at, total int, query string) {
	c.t.Helper()
	request := must[*http.Request](
		c.t,
	)(
		http.NewRequestWithContext(c.t.Context(), http.MethodPut, to+query, bytes.NewReader(content)),
	)
	request.Header.Set("Content-Type", "application/octet-stream")
	request.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, at+len(content)-1, total))
	response, err := sim.http.Do(request)
	check(c.t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		c.t.Fatalf("PUT %s: %d %s", query, response.StatusCode, must[[]byte](c.t)(io.ReadAll(response.Body)))
	}
}

// begin creates a disk on a storage domain given by name, and starts a transfer into the disk.
func (c *oracleCLI) begin(name string, size int) (oracleDisk, oracleTransfer) {
	c.t.Helper()
	var domains oracleDomains
	c.call(http.MethodGet, "/storagedomains", nil, &domains)

	in := oracleNewDisk{Name: name, ProvisionedSize: strconv.Itoa(size), Format: "cow", Backup: "none"}
	for _, domain := range domains.Domains {
		if domain.Name == "olvm-data" {
			in.Domains.Domain = []oracleDomain{{ID: domain.ID}}
		}
	}

	if len(in.Domains.Domain) == 0 {
		c.t.Fatalf("the storage domain is not in the list: %v", domains)
	}

	var disk oracleDisk
	c.call(http.MethodPost, "/disks", in, &disk)
	if disk.ProvisionedSize != strconv.Itoa(size) || disk.Name != name || len(disk.Domains.Domain) != 1 {
		c.t.Errorf("the disk is %v", disk)
	}

	eventually(c.t, "the disk is ok", func() bool {
		c.call(http.MethodGet, "/disks/"+disk.ID, nil, &disk)
		return disk.Status == "ok"
	})
	want := oracleNewTransfer{Direction: "upload", TimeoutPolicy: "cancel", InactivityTimeout: "180", Format: "cow"}
	want.Disk.ID = disk.ID
	var transfer oracleTransfer
	c.call(http.MethodPost, "/imagetransfers", want, &transfer)
	eventually(c.t, "the transfer can begin", func() bool {
		c.call(http.MethodGet, "/imagetransfers/"+transfer.ID, nil, &transfer)
		return transfer.Phase == "transferring"
	})
	if transfer.ProxyURL == "" || transfer.Timeout != "180" {
		c.t.Fatalf("the transfer is %v", transfer)
	}

	return disk, transfer
}

func TestOraclesCLIUploadsAnImage(t *testing.T) {
	t.Parallel()
	cli := newOracleCLI(t)
	image := qcow2(gib)
	disk, transfer := cli.begin("ock-image", gib)

	const piece = 100_000 // so the pieces do not align with anything
	for at := 0; at < len(image); at += piece {
		end, query := min(at+piece, len(image)), "?flush=y"
		if end == len(image) {
			query = "?close=y"
		}

		cli.put(transfer.ProxyURL, image[at:end], at, len(image), query)
	}

	cli.call(http.MethodGet, "/imagetransfers/"+transfer.ID, nil, &transfer)
	if transfer.Transferred != strconv.Itoa(len(image)) {
		t.Errorf("%s of %d bytes were transferred", transfer.Transferred, len(image))
	}

	// the engine answers an action without a document with 415
	cli.call(http.MethodPost, "/imagetransfers/"+transfer.ID+"/finalize", struct{}{}, nil)
	eventually(t, "the transfer has succeeded", func() bool {
		cli.call(http.MethodGet, "/imagetransfers/"+transfer.ID, nil, &transfer)
		return transfer.Phase == "finished_success"
	})
	cli.call(http.MethodGet, "/disks/"+disk.ID, nil, &disk)
	if disk.Status != "ok" {
		t.Errorf("the disk is %s", disk.Status)
	}

	cli.call(http.MethodDelete, "/disks/"+disk.ID, nil, nil)
	eventually(t, "the disk is gone", func() bool {
		status, _ := cli.try(http.MethodGet, "/disks/"+disk.ID, nil)
		return status == http.StatusNotFound
	})
}

func TestOraclesCLICancelsAnUpload(t *testing.T) {
	t.Parallel()
	cli := newOracleCLI(t)
	image := qcow2(gib)
	disk, transfer := cli.begin("ock-image-cancelled", gib)
	cli.put(transfer.ProxyURL, image[:1000], 0, len(image), "?flush=y")
	cli.call(http.MethodPost, "/imagetransfers/"+transfer.ID+"/cancel", struct{}{}, nil)
	eventually(t, "the disk is gone", func() bool {
		status, _ := cli.try(http.MethodGet, "/disks/"+disk.ID, nil)
		return status == http.StatusNotFound
	})
}
