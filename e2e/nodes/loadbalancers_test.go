package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// expectLoadBalancers creates a Service of type LoadBalancer for the pods of hello, and sends requests to it from
// outside the cluster. Then it cuts the power of the node that holds the Service's address, so that another node takes
// over. A second Service gets another address, and a third must wait for a free one.
func (c *cluster) expectLoadBalancers() {
	c.t.Helper()
	first := c.exposed("front")
	second := c.exposed("back")
	check.Equal(c.t, "addresses differ", first != second, true)

	c.expose("late")
	c.eventually("the third Service has no address, and says why", func(ctx context.Context) error {
		events, err := c.workload.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=late,type=Warning",
		})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("there is no warning about it")
		}

		return err
	})

	services := c.workload.CoreV1().Services(metav1.NamespaceDefault)
	check.Error(c.t, services.Delete(c.t.Context(), "back", metav1.DeleteOptions{}), "")
	check.Equal(c.t, "the address that became free", c.addressOfService("late"), second)

	holder, err := c.holderOf(c.t.Context(), "front")
	check.Error(c.t, err, "")

	begin := time.Now()
	c.losePower(holder)
	c.eventually("another node answers for the Service", func(ctx context.Context) error {
		now, err := c.holderOf(ctx, "front")
		if err != nil || now == holder {
			return errors.Join(err, fmt.Errorf("%s holds it", now))
		}

		return get(ctx, first)
	})
	c.t.Logf("the Service did not answer for %s at most when %s, which held its address, lost its power",
		time.Since(begin).Round(100*time.Millisecond), holder)

	c.startVM(holder)
	c.expectMachines(3, 2, suite.image.Kubernetes)
	c.expectAnswers(2)
}

// expose creates a Service of type LoadBalancer for the pods of hello.
func (c *cluster) expose(name string) {
	c.t.Helper()
	_, err := c.workload.CoreV1().Services(metav1.NamespaceDefault).Create(c.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app": "hello"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}, metav1.CreateOptions{})
	check.Error(c.t, err, "")
}

// exposed creates a Service of type LoadBalancer, waits until pods answer at its address, and returns the address.
func (c *cluster) exposed(name string) string {
	c.t.Helper()
	c.expose(name)
	address := c.addressOfService(name)
	c.eventually("pods answer at "+address, func(ctx context.Context) error { return get(ctx, address) })

	return address
}

// addressOfService waits for the address of a Service, and returns it. The address must be in the range.
func (c *cluster) addressOfService(name string) (address string) {
	c.t.Helper()
	c.eventually("Service "+name+" has an address", func(ctx context.Context) error {
		service, err := c.workload.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}

		if len(service.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("it has %v", service.Status.LoadBalancer.Ingress)
		}

		address = service.Status.LoadBalancer.Ingress[0].IP

		return nil
	})

	own, err := netip.ParseAddr(address)
	check.Error(c.t, err, "")

	from, to := netip.MustParseAddr(c.network.address("200")), netip.MustParseAddr(c.network.address("201"))
	check.Equal(c.t, address+" is of the range", own.Compare(from) >= 0 && own.Compare(to) <= 0, true)

	return address
}

// holderOf returns the node that holds the address of a Service according to kube-vip's lease.
func (c *cluster) holderOf(ctx context.Context, service string) (string, error) {
	lease, err := c.workload.CoordinationV1().Leases(metav1.NamespaceDefault).Get(ctx, "kubevip-"+service, metav1.GetOptions{})
	if err != nil {
		return "", err
	}

	if lease.Spec.HolderIdentity == nil {
		return "", errors.New("nobody holds it")
	}

	return *lease.Spec.HolderIdentity, nil
}

// get sends one request to the pods of hello at an address.
func get(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(address, "80"), nil)
	if err != nil {
		return err
	}

	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	content, err := io.ReadAll(response.Body)
	if err == nil && !strings.HasPrefix(string(content), "hello from ") {
		err = fmt.Errorf("it answers %q", content)
	}

	return err
}
