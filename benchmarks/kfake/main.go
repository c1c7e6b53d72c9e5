// Measures kfake, the fake cluster of franz-go, for benchmarks/test_kit.py. Prints one line of JSON: durations in ms.
//
// With the address of a broker as its argument, it runs only the round trip, against that broker.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	rounds   = 15
	clusters = 50
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(addresses []string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(addresses...), kgo.ProducerLinger(0))...)
	must(err)
	return made
}

func since(began time.Time) float64 {
	return float64(time.Since(began).Nanoseconds()) / 1e6
}

// start returns the duration until a new cluster has answered a first metadata request.
func start(ctx context.Context, brokers int) float64 {
	began := time.Now()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers))
	must(err)
	defer cluster.Close()
	asking := client(cluster.ListenAddrs())
	defer asking.Close()
	_, err = kmsg.NewPtrMetadataRequest().RequestWith(ctx, asking)
	must(err)
	return since(began)
}

// renew returns the duration of a close and a start: kfake has no reset.
func renew() float64 {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	must(err)
	began := time.Now()
	cluster.Close()
	next, err := kfake.NewCluster(kfake.NumBrokers(1))
	must(err)
	took := since(began)
	next.Close()
	return took
}

// roundTrip returns the duration of a test's least: a topic, a new client, a record produced and consumed.
func roundTrip(ctx context.Context, addresses []string, admin *kgo.Client, topic string) float64 {
	began := time.Now()
	create := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 1, 1
	create.Topics = append(create.Topics, wanted)
	created, err := create.RequestWith(ctx, admin)
	must(err)
	if created.Topics[0].ErrorCode != 0 {
		must(fmt.Errorf("the topic was not created: error %d", created.Topics[0].ErrorCode))
	}
	user := client(addresses, kgo.ConsumeTopics(topic))
	defer user.Close()
	must(user.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("order 1")}).FirstErr())
	for {
		fetched := user.PollFetches(ctx)
		must(fetched.Err())
		if fetched.NumRecords() == 1 {
			return since(began)
		}
	}
}

func roundTrips(ctx context.Context, addresses []string) []float64 {
	admin := client(addresses)
	defer admin.Close()
	var found []float64
	for round := range rounds {
		found = append(found, roundTrip(ctx, addresses, admin, fmt.Sprintf("orders-%d", round)))
	}
	return found
}

// memory returns the resident memory of this process in bytes.
func memory() int64 {
	file, err := os.Open("/proc/self/status")
	must(err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "VmRSS:"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			must(err)
			return kilobytes * 1024
		}
	}
	panic("no VmRSS in /proc/self/status")
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	found := map[string]any{}
	if len(os.Args) > 1 {
		found["round_trip"] = roundTrips(ctx, os.Args[1:2])
	} else {
		var running []*kfake.Cluster
		for range clusters {
			made, err := kfake.NewCluster(kfake.NumBrokers(1))
			must(err)
			running = append(running, made)
		}
		found["memory"] = memory() // before the measurements, whose garbage would count
		found["round_trip"] = roundTrips(ctx, running[0].ListenAddrs())
		for _, one := range running {
			one.Close()
		}
		var starts, starts3, renewals []float64
		for range rounds {
			starts = append(starts, start(ctx, 1))
			starts3 = append(starts3, start(ctx, 3))
			renewals = append(renewals, renew())
		}
		found["start"], found["start_of_three"], found["renewal"] = starts, starts3, renewals
	}
	must(json.NewEncoder(os.Stdout).Encode(found))
}
