package guest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// table requests a table from the workload cluster, like kubectl.
func (s *site) table(path string) (status int, rows []string) {
	s.t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(s.ca.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()

	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "https://"+s.endpoint+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}

	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")

	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()

	var got struct {
		metav1.TypeMeta
		ColumnDefinitions []metav1.TableColumnDefinition
		Rows              []struct {
			Cells  []string
			Object metav1.PartialObjectMetadata
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		s.t.Fatal(err)
	}

	for _, row := range got.Rows {
		var cells []string

		for i, cell := range row.Cells {
			if column := got.ColumnDefinitions[i]; column.Priority == 0 && column.Name != "Age" {
				cells = append(cells, cell)
			}
		}

		rows = append(rows, strings.Join(cells, " "))
		check.Equal(s.t, "the object of the row", row.Object.Name, row.Cells[0])
	}

	return answer.StatusCode, rows
}

// TestKubectlSeesNodesWithStatusRolesAndVersion requests the tables printed by kubectl get.
func TestKubectlSeesNodesWithStatusRolesAndVersion(t *testing.T) {
	s, _, token := newCluster(t, "127.41.9.5:6443")
	worker := machine("worker-1", "127.40.0.12", s.joinData(token, s.ca.publicKeyHash(), false))
	s.mustStart(worker)
	check.Error(t, s.guests.SetNodeReady(worker.ID, "False", "KubeletNotReady"), "")

	// Cluster API labels nodes through the API, and then the object in memory has another type.
	node := &corev1.Node{}
	check.Error(t, s.client().Get(t.Context(), client.ObjectKey{Name: "cp-1"}, node), "")
	before := node.DeepCopy()
	node.Labels["a"] = "c"
	check.Error(t, s.client().Patch(t.Context(), node, client.MergeFrom(before)), "")

	for path, want := range map[string][]string{
		"/api/v1/nodes?limit=500":         {"cp-1 Ready control-plane v1.36.1", "worker-1 NotReady <none> v1.36.1"},
		"/api/v1/nodes/cp-1":              {"cp-1 Ready control-plane v1.36.1"},
		"/api/v1/nodes?labelSelector=a=b": nil,
		"/api/v1/namespaces/kube-system/pods?labelSelector=component%3Detcd": {"etcd-cp-1 1/1 Running"},
		"/api/v1/namespaces/default/pods":                                    nil,
	} {
		status, rows := s.table(path)
		check.Equal(t, path, status, http.StatusOK)
		check.Equal(t, path, rows, want)
	}

	status, _ := s.table("/api/v1/nodes/none")
	check.Equal(t, "a node that is none", status, http.StatusNotFound)

	status, _ = s.table("/api/v1/nodes?labelSelector=)(")
	check.Equal(t, "a selector that is none", status, http.StatusBadRequest)
}
