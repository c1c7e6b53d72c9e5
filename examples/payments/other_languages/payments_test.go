// The test of the service in Go: `go test ./...`. Only the standard library is needed.
package payments

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
)

type kit struct {
	Bootstrap string `json:"bootstrap_servers"`
	Control   string `json:"control"`
}

func python() string {
	if found := os.Getenv("PYTHON"); found != "" {
		return found
	}
	return "python3"
}

// start runs brokers until the test ends; they end with this process, too, since their input does.
func start(t *testing.T) *kit {
	command := exec.Command(python(), "-m", "odradek.testing")
	input, _ := command.StdinPipe()
	output, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close(); command.Wait() })
	line, _ := bufio.NewReader(output).ReadBytes('\n')
	started := &kit{}
	if err := json.Unmarshal(line, started); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return started
}

func (k *kit) ask(t *testing.T, method, path string, body any) map[string]any {
	data, _ := json.Marshal(body)
	request, _ := http.NewRequest(method, k.Control+path, bytes.NewReader(data))
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != 200 {
		t.Fatalf("%s %s: %s", method, path, text)
	}
	var answer map[string]any
	json.Unmarshal(text, &answer)
	return answer
}

func TestAnOrderIsPaidOnce(t *testing.T) {
	broker := start(t)
	order := base64.StdEncoding.EncodeToString([]byte("order 1"))
	last := base64.StdEncoding.EncodeToString([]byte("order 2"))
	broker.ask(t, "POST", "/v1/topics/orders/records", map[string]any{"values": []string{order, last}})
	fault := broker.ask(t, "POST", "/v1/faults", map[string]any{
		"kind": "drop", "api": "Produce", "after": true, "topic": "payments", "times": 1})

	service := exec.Command(python(), "../service.py", broker.Bootstrap)
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { service.Process.Kill(); service.Wait() }()

	broker.ask(t, "GET", "/v1/groups/payments?lag=0", nil)
	if struck := broker.ask(t, "GET", fmt.Sprintf("/v1/faults/%v", fault["id"]), nil)["count"]; struck != 1.0 {
		t.Fatalf("the fault struck %v requests", struck)
	}
	payments := broker.ask(t, "GET", "/v1/topics/payments/records", nil)["records"].([]any)
	if len(payments) != 2 {
		t.Fatalf("2 orders, %d payments", len(payments))
	}
}
