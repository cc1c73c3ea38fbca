package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// chooseEndpoint returns the address of the host's own data endpoint if this client reaches it, or else the proxy on
// the engine.
func (u *upload) chooseEndpoint(ctx context.Context, transfer *ImageTransfer) (string, error) {
	var problems []error

	for _, target := range []string{transfer.TransferURL, transfer.ProxyURL} {
		if target == "" {
			continue
		}

		answer, err := u.callEndpoint(ctx, http.MethodOptions, target, nil, nil)
		var refused *Fault
		if errors.As(err, &refused) && refused.StatusCode < 500 {
			return target, nil // a server answers, even if it refuses this request
		}

		if err == nil {
			u.zeroes, err = canZero(answer)
		}

		if err == nil {
			return target, nil
		}

		problems = append(problems, err)
	}

	return "", fmt.Errorf("no data endpoint can be reached: %w", errors.Join(problems...))
}

// canZero reports whether a data endpoint can write zeroes. answer has its features as JSON, or is empty for an old
// endpoint.
func canZero(answer []byte) (bool, error) {
	var can struct {
		Features []string `json:"features"`
	}
	if len(answer) == 0 {
		return false, nil
	}

	if err := json.Unmarshal(answer, &can); err != nil || can.Features == nil {
		return false, errNoEndpoint
	}

	return slices.Contains(can.Features, "zero"), nil
}

// errNoEndpoint reports an answer that cannot come from a data endpoint, such as a proxy's page.
var errNoEndpoint = errors.New("a proxy or another server has answered in place of the data endpoint")

// sendImage sends the image in chunks.
func (u *upload) sendImage(ctx context.Context, target string) error {
	total := u.options.Size
	u.progress(u.sent, total)

	for begin := u.sent; begin < total; {
		end := min(begin+u.options.ChunkBytes, total)
		if err := u.sendChunk(ctx, target, begin, end); err != nil {
			return err
		}

		begin = end
		u.progress(begin, total)
	}

	return nil
}

// sendChunk sends the bytes from begin to before end. If the connection breaks, it sends them again as long as the
// engine waits. It announces zeroes instead of sending them.
func (u *upload) sendChunk(ctx context.Context, target string, begin, end int64) error {
	zero, err := u.isZero(begin, end)
	if err != nil {
		return fmt.Errorf("failed to read the image: %w", err)
	}

	pause := waitFirst

	for try := 1; ; try++ {
		err := u.sendOnce(ctx, target, begin, end, zero)
		if err == nil {
			return nil
		}

		if !IsAnswerLost(err) || try == chunkTries || ctx.Err() != nil {
			hint := ""
			if hasStatus(err, http.StatusInternalServerError) {
				hint = " (the host could not write it: is the storage domain full?)"
			}

			return fmt.Errorf("failed to send bytes %d to %d: %w%s", begin, end, err, hint)
		}

		if seen, lookErr := u.FetchTransfer(ctx, u.transfer); lookErr == nil && seen.Phase != TransferTransferring {
			return u.transferError(seen)
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}

		pause *= 3
	}
}

// sendOnce sends the bytes from begin to before end, or announces them if they are zero.
func (u *upload) sendOnce(ctx context.Context, target string, begin, end int64, zero bool) error {
	last := end == u.options.Size
	if zero {
		zeroes := map[string]any{"op": "zero", "offset": begin, "size": end - begin, "flush": last}
		text, err := json.Marshal(zeroes)
		if err != nil {
			return fmt.Errorf("failed to build the request: %w", err)
		}

		return u.sendWrite(ctx, http.MethodPatch, target, http.Header{
			"Content-Type": {"application/json"},
		}, io.NewSectionReader(bytes.NewReader(text), 0, int64(len(text))))
	}

	flush, separator := "n", "?"
	if last {
		flush = "y"
	}

	if strings.Contains(target, "?") {
		separator = "&"
	}

	return u.sendWrite(ctx, http.MethodPut, target+separator+"flush="+flush, http.Header{
		"Content-Type":  {"application/octet-stream"},
		"Content-Range": {fmt.Sprintf("bytes %d-%d/*", begin, end-1)},
	}, io.NewSectionReader(u.options.Image, begin, end-begin))
}

// sendWrite sends a request that writes data. According to imageio 2.5, a data endpoint confirms the request without a
// body. No recording shows the answer.
func (u *upload) sendWrite(
	ctx context.Context, method, target string, header http.Header, body *io.SectionReader,
) error {
	answer, err := u.callEndpoint(ctx, method, target, header, body)
	if err == nil && len(answer) > 0 {
		err = errNoEndpoint
	}

	return err
}

// isZero reports whether all bytes from begin to before end are zero, and the data endpoint can write zeroes by itself.
func (u *upload) isZero(begin, end int64) (bool, error) {
	if !u.zeroes {
		return false, nil
	}

	buffer := make([]byte, 64<<10)
	for at := begin; at < end; at += int64(len(buffer)) {
		part := buffer[:min(int64(len(buffer)), end-at)]
		if _, err := u.options.Image.ReadAt(part, at); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}

		if !bytes.Equal(part, zeroes[:len(part)]) {
			return false, nil
		}
	}

	return true, nil
}

var zeroes [64 << 10]byte

// callEndpoint sends a request to a data endpoint. The engine's CA also signs the endpoint's certificate. The URL is
// the ticket, so the request needs no session.
func (u *upload) callEndpoint(
	ctx context.Context, method, target string, header http.Header, body *io.SectionReader,
) (answer []byte, err error) {
	parsed, err := url.Parse(target)
	if err != nil || parsed.Scheme != "https" {
		return nil, fmt.Errorf("the engine names a data endpoint that is not an https URL: %q", target)
	}

	ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
	defer cancel()
	var payload io.Reader
	if body != nil {
		payload = body
	}

	request, err := http.NewRequestWithContext(ctx, method, target, payload)
	if err != nil {
		return nil, fmt.Errorf("failed to build the request: %w", err)
	}

	if header != nil {
		request.Header = header.Clone()
	}

	if body != nil {
		request.ContentLength = body.Size()
	}

	response, err := u.http.Do(request)
	if err != nil {
		return nil, newEndpointError(ctx, err, parsed.Host)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return nil, newEndpointError(ctx, err, parsed.Host)
	}

	if response.StatusCode < 200 || response.StatusCode > 299 {
		// The path is the ticket, which is secret as long as the transfer exists.
		return nil, &Fault{
			Method:     method,
			Path:       parsed.Host,
			StatusCode: response.StatusCode,
			Detail:     strings.TrimSpace(string(content)),
		}
	}

	return content, nil
}

// newEndpointError returns the reason a data endpoint did not answer. It omits the URL, because the URL is the ticket.
func newEndpointError(ctx context.Context, err error, host string) error {
	var about *url.Error
	if errors.As(err, &about) {
		err = about.Err
	}

	err = classifyTransportError(ctx, err)
	var untrusted *TLSError
	if errors.As(err, &untrusted) { // the certificate belongs to a host, not to the engine
		untrusted.Of = "data endpoint " + host

		return &steadyError{text: untrusted.Error(), err: untrusted.Err}
	}

	return err
}
